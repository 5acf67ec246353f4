#include "tests/sim/server.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/item.h"
#include "kv/layout/words.h"
#include "server/counters/cell_writer.h"
#include "server/session/session.h"
#include "tests/sim/hook.h"
#include "tests/sim/keys.h"

namespace farlook::sim {
namespace {

constexpr size_t kArenaBytes = size_t{4} << 30;
size_t arena_used = 0;
World* running_world = nullptr;
SimServer* running = nullptr;  // the innermost server within Poll()

// The hook that replaces every store of kv/ to a region.
void StoreShared(uint64_t* at, uint64_t value) {
  if (*at == value) return;  // not visible to any reader
  if (running_world != nullptr) running_world->network.BeforeStore(at);
  *at = value;
  if (running != nullptr) SimServer::Stored(at);
}

char* TakeMemory(uint64_t bytes) {
  char* const memory = arena + arena_used;
  arena_used += bytes;
  if (arena_used > arena_bytes) std::abort();
  return memory;
}

// Changes cells as CpuCellWriter does: each change is one store that others see, and after which they may run.
class SimCellWriter final : public server::CellWriter {
 public:
  explicit SimCellWriter(char* region) : region_(region) {}

  bool Read(uint64_t cell, int64_t* value) override {
    *value = static_cast<int64_t>(kv::LoadWord(region_ + cell));
    return true;
  }
  bool FetchAdd(uint64_t cell, int64_t delta, int64_t* old) override {
    Read(cell, old);
    Store(region_ + cell, static_cast<uint64_t>(*old) + static_cast<uint64_t>(delta));
    return true;
  }
  bool CompareSwap(uint64_t cell, int64_t expected, int64_t desired, int64_t* old) override {
    Read(cell, old);
    if (*old == expected) Store(region_ + cell, static_cast<uint64_t>(desired));
    return true;
  }

 private:
  char* const region_;
};

}  // namespace

void SimServer::TakeArena() {
  if (arena != nullptr) return;
  void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  arena = static_cast<char*>(memory);
  arena_bytes = kArenaBytes;
  store = StoreShared;
}

void SimServer::ClearArena() {
  madvise(arena, arena_used, MADV_DONTNEED);
  retired_segments.clear();
  arena_used = 0;
}

// The smallest region; larger where large values must have room to leave holes, and where members have unequal room.
uint64_t SimServer::RegionBytes() const {
  const Plan& plan = world_->plan;
  if (plan.fills) {
    const uint64_t more =
        plan.seed % 3 == 0 ? 0 : (plan.seed / 3 + static_cast<uint64_t>(number_)) % 2 * (1 + plan.seed / 6 % 3);
    return kv::kMinRegionBytes + more * kv::kPageBytes;
  }
  return (plan.long_values ? 4 : plan.large_values && !plan.evicts ? 2 : 1) * kv::kMinRegionBytes;
}

void SimServer::Start() {
  running_world = world_;
  const uint64_t region_bytes = RegionBytes();
  char* region = TakeMemory(region_bytes);
  ++starts_;
  if (starts_ > 1 && world_->plan.expires && world_->Strikes(Fault::kServerJumps)) {
    past_clocks_.emplace_back(world_->now_ns(), clock_);
    clock_.offset_ns = world_->random.Between(0, 1'000'000'000'000);
  }
  parts_ = std::make_unique<Parts>();
  Parts& parts = *parts_;
  // Each partition has separate blocks, which must be sparse.
  // Replicas of a group are identical.
  const int worker_count = world_->plan.replicas > 0                        ? 1 + world_->plan.seed % 2
                           : !world_->plan.moves && world_->random.OneIn(3) ? 2
                                                                            : 1;

  kv::TableOptions options;
  options.incarnation = incarnation_ = world_->random.Next() | 1;
  options.hash_seed = kHashSeed;
  options.first_version = 1 + world_->random.Below(kv::kMaxFirstVersion - 1);
  options.partitions = worker_count == 1 ? 1 : 4;
  options.evict = world_->plan.evicts;
  if (world_->plan.expires) {
    parts.time = std::make_unique<server::TableTime>(&clock_, server::ServerTime());
    options.clock = parts.time.get();
  }
  options.keeps_expired = world_->plan.replicas > 0;
  SimServer* const paused = std::exchange(running, nullptr);  // another server than the one that stores now
  parts.table = *kv::Table::Create({region, region_bytes}, options);

  // Replicas begin with the same table. One that begins again is filled by another.
  const bool filled = world_->plan.replicas == 0 || starts_ == 1;
  if (world_->plan.large_values && filled) {
    // Leaves less.
    const int sizes =
        static_cast<int>(world_->plan.replicas > 0 ? 2 + world_->plan.seed % 6 : world_->random.Between(2, 7));
    for (int i = 0; i < sizes; ++i) {
      const std::string key = absl::StrCat("filler ", i);
      parts.table->Put(parts.table->HashOf(key), key, std::string(static_cast<size_t>(4'000 + i * 1'000), 'f'),
                       kv::Condition::kAlways, 0, 0);
    }
  }
  if (world_->plan.moves && filled) MakeSparse(parts.table.get());
  parts.splits_before = parts.table->stats().splits;
  parts.locks = std::make_unique<server::PartitionLocks>(parts.table.get());
  if (world_->plan.replicas > 0) OpenGroup(options.incarnation);
  const absl::Span<char> cells = CreateCounters(options.incarnation);
  running = paused;
  parts.listener = *world_->network.Listen(address(), party(), [this] { Wake(); });
  const rdma::RemoteRange range = *parts.listener->Offer({region, region_bytes, -1}, rdma::Access::kRemoteRead);
  rdma::RemoteRange cell_range;
  if (!cells.empty() && world_->plan.cells_shared) {
    cell_range = *parts.listener->Offer({cells.data(), cells.size(), -1}, rdma::Access::kRemoteReadAtomic);
  }

  server::Shared shared;
  shared.max_kept_bytes = 300;  // so that the server stops reading from connections for a while
  shared.table = parts.table.get();
  shared.locks = parts.locks.get();
  shared.clock = &clock_;
  shared.incarnation = options.incarnation;
  shared.counters = parts.counters.get();
  shared.counter_patience_ns = world_->plan.patience_ns;
  shared.workers = worker_count;
  shared.quota = &parts.quota;
  if (parts.group != nullptr) {
    shared.wake_workers = [this] { Wake(); };
    shared.gate = parts.gate.get();
    shared.records = parts.group->stream();
    shared.serving = parts.group->serving();
    shared.map = [group = parts.group.get()] { return group->Map(); };
  }
  shared.stat = [](absl::string_view) { return std::string("uptime 1\n"); };
  std::vector<server::Worker*> workers;
  for (int i = 0; i < worker_count; ++i) {
    server::SessionOptions sessions;
    sessions.worker = i;
    sessions.incarnation = options.incarnation;
    sessions.window = world_->plan.window;
    if (world_->Strikes(Fault::kEvictions)) {
      // Not so few that no new client is admitted: sessions are evicted by their age, or not kept at all.
      if (world_->random.OneIn(3)) sessions.max_kept = 0;
      sessions.keep_ns = world_->random.Between(1'000'000, 100'000'000);
    }
    sessions.random = [this] { return world_->random.Next(); };
    parts.workers.push_back(std::make_unique<server::Worker>(shared, std::move(sessions), [this] { Wake(); }));
    parts.endpoints.push_back(*parts.listener->CreateEndpoint());
    parts.workers.back()->AddPort(parts.endpoints.back().get(), range, cell_range);
    workers.push_back(parts.workers.back().get());
  }
  parts.acceptor = std::make_unique<server::Acceptor>(std::vector<rdma::Listener*>{parts.listener.get()}, &clock_);
  parts.acceptor->Open(workers);
  if (parts.group != nullptr) {
    JoinGroup();
  } else if (starts_ > 1) {
    for (int key = 0; key < world_->plan.keys; ++key) {
      world_->HistoryOf(number_, key)
          .push_back({history::Type::kWipe, history::Outcome::kOk, 0, died_ns_, world_->now_ns(), 0, 0, 0, 0});
    }
  }
  world_->Note(absl::StrCat("server ", number_, " starts, its table is empty"));
}

// Fills memory, and then makes holes in all blocks: a longer item needs units that were emptied. A cache never refuses;
// it is full when more items were put than have room.
void SimServer::MakeSparse(kv::Table* table) {
  const auto key = [](int i) { return absl::StrCat("filler ", i); };
  const auto most = static_cast<int>(table->stats().region_bytes / kSparseBytes);
  int keys = 0;
  while (keys < most) {
    const std::string name = key(keys);
    const kv::Code code =
        table->Put(table->HashOf(name), name, std::string(kSparseBytes, 'f'), kv::Condition::kAlways, 0, 0).code;
    if (code == kv::Code::kMakingRoom) continue;
    if (code != kv::Code::kOk) break;
    ++keys;
  }
  rdma::sim::Random alike(rdma::sim::Mix(world_->plan.seed) + 6);
  rdma::sim::Random& random = world_->plan.replicas > 0 ? alike : world_->random;
  for (int i = 0; i < keys; ++i) {
    if (random.OneIn(2)) table->Delete(table->HashOf(key(i)), key(i), kv::Condition::kAlways, 0, 0);
  }
}

// Leaves the smallest member room for about half of what the first turn puts, and some holes in blocks. Zeros, which
// are stored quickly.
void SimServer::AlmostFill(kv::Table* table) {
  rdma::sim::Random random(rdma::sim::Mix(world_->plan.seed) + 7);
  const auto name = [](int i) { return absl::StrCat("filler ", i); };
  const uint64_t wanted = FillingBytes(world_->plan.seed, 0).average() * static_cast<uint64_t>(world_->plan.keys) / 2;
  const kv::TableStats empty = table->stats();
  const uint64_t left = empty.reserve_bytes + random.Below(wanted / 2) + RegionBytes() - kv::kMinRegionBytes;
  int count = 0;
  for (; table->stats().free_bytes > left; ++count) {
    const uint64_t most = std::min<uint64_t>(table->stats().free_bytes - left, 130'000);
    const uint64_t bytes = random.OneIn(3) ? most : random.Between(100, 9'000);
    table->Put(table->HashOf(name(count)), name(count), std::string(bytes, '\0'), kv::Condition::kAlways, 0, 0);
  }
  for (int i = 0; i < count; ++i) {
    if (random.OneIn(40)) table->Delete(table->HashOf(name(i)), name(i), kv::Condition::kAlways, 0, 0);
  }
}

// The region of the counters' cells; empty if there are none.
absl::Span<char> SimServer::CreateCounters(uint64_t incarnation) {
  if (!world_->plan.counters || world_->plan.replicas > 0) return {};
  const uint64_t bytes = kv::FirstCell() + static_cast<uint64_t>(world_->plan.cells) * kv::kCellStrideBytes;
  char* const region = TakeMemory((bytes + 4'095) / 4'096 * 4'096);
  kv::FormatCellRegion({region, bytes}, incarnation);
  parts_->counters =
      std::make_unique<server::Counters>(parts_->table.get(), parts_->locks.get(), &clock_, server::ServerTime(),
                                         absl::MakeSpan(region, bytes), std::make_unique<SimCellWriter>(region));
  return {region, bytes};
}

std::string SimServer::State() const {
  if (parts_ == nullptr || parts_->group == nullptr) return absl::StrCat("server ", number_);
  return absl::StrCat("server ", number_, ": ", absl::StrReplaceAll(parts_->group->Ask("status"), {{"\n", "; "}}));
}

bool SimServer::Holds(absl::string_view key) const {
  kv::ItemView item;
  return parts_ != nullptr && parts_->table->Get(parts_->table->HashOf(key), key, &item).code == kv::Code::kOk;
}

uint64_t SimServer::cells_waiting() const {
  return alive() && parts_->counters != nullptr ? parts_->counters->stats().cells_quarantined : 0;
}

rdma::sim::SimClock SimServer::ClockAt(int64_t true_ns) const {
  for (const auto& [until_ns, clock] : past_clocks_) {
    if (true_ns < until_ns) return clock;
  }
  return clock_;
}

uint64_t SimServer::no_memory() const {
  uint64_t replies = 0;
  for (size_t i = 0; alive() && i < parts_->workers.size(); ++i) {
    replies += parts_->workers[i]->stats().replies[static_cast<size_t>(kv::Code::kNoMemory)].value();
  }
  return replies;
}

void SimServer::Kill() {
  if (!alive() || !may_die()) return;
  if (busy_) {
    kill_wanted_ = true;
    return;
  }
  Destroy();
}

void SimServer::Destroy(bool in_order) {
  if (!alive()) return;
  world_->Note(absl::StrCat("server ", number_, " dies"));
  died_ns_ = world_->now_ns();
  ending_ = true;
  world_->network.Kill(party());
  if (parts_->group != nullptr) parts_->group->Stop();
  if (parts_->group != nullptr && in_order) parts_->group->RecordDeparture();
  parts_.reset();
  ending_ = false;
  kill_wanted_ = deposed_ = false;
  leaves_until_ns_ = 0;
}

void SimServer::Wake() {
  woken_ = true;
  if (scheduled_ || busy_ || !alive()) return;
  scheduled_ = true;
  const int64_t delay_ns = world_->random.Between(0, world_->random.OneIn(8) ? 5'000 : 200);
  world_->scheduler.At(std::max(world_->now_ns() + delay_ns, stopped_until_ns_), [this] { Poll(); });
}

void SimServer::Poll() {
  scheduled_ = false;
  if (!alive() || busy_) return;
  if (world_->now_ns() < stopped_until_ns_) return Wake();
  SimServer* const outer = std::exchange(running, this);
  busy_ = true;
  woken_ = false;
  size_t done = 0;
  int64_t due_ns = server::Worker::kNever;
  try {
    done += parts_->acceptor->Poll();
    for (const auto& worker : parts_->workers) {
      done += worker->Poll();
      due_ns = std::min(due_ns, worker->due_ns());
    }
    if (parts_->group != nullptr && StepGroup()) ++done;
  } catch (const Killed&) {
    kill_wanted_ = true;
  }
  busy_ = false;
  running = outer;
  if (kill_wanted_) return Destroy();
  if (deposed_) return BeginAnew();
  if (leaves_until_ns_ != 0) {
    const bool has_left = parts_->group->StepLeaving() || world_->now_ns() >= leaves_until_ns_;
    if (has_left && may_die()) return BeginAnew();
  }
  if (done > 0 || woken_) return Wake();
  for (const auto& worker : parts_->workers) {
    if (!worker->Arm()) return Wake();
  }
  if (due_ns != server::Worker::kNever) {
    world_->scheduler.At(std::max(world_->now_ns() + 1, world_->now_ns() + due_ns - clock_.NowNs()),
                         [this] { Wake(); });
  }
}

void SimServer::Stored(const void* at) {
  World& world = *running->world_;
  world.scheduler.Spend(world.plan.store_ns);
  // More often where a client READ recently.
  if (world.network.RecentlyRead(at) && world.random.PerMillion(world.plan.nested_near)) running->stores_left_ = 0;
  if (--running->stores_left_ <= 0) running->Pause();
}

// Between two stores: the others go on.
void SimServer::Pause() {
  World& world = *world_;
  stores_left_ = world.random.Between(1, 2'000'000 / (world.plan.nested + 1));
  if (world.nesting >= 3) return;
  // A few round trips, so that a client can READ twice.
  const int64_t trip_ns = world.plan.network.max_delay_ns;
  int64_t ns = world.random.Between(50, trip_ns * (world.random.OneIn(2) ? 2 : world.random.OneIn(3) ? 50 : 10));
  if (world.has(Fault::kServerStopBetweenStores) &&
      world.random.PerMillion(world.plan.rate(Fault::kServerStopBetweenStores))) {
    world.Strikes(Fault::kServerStopBetweenStores);
    ns = world.random.Between(1'000'000, world.random.OneIn(2) ? 20'000'000 : 300'000'000);
    world.Note(absl::StrCat("server ", number_, " is stopped between two stores for ", ns, " ns"));
  }
  StandStill(ns);
}

// Waits before the change is made that the server requested.
void SimServer::AwaitDirectory() {
  World& world = *world_;
  if (!world.plan.slow_directory || world.healed || world.opening || running != this || world.nesting >= 3) return;
  StandStill(world.random.OneIn(10) ? world.random.Between(1'000'000, 200'000'000)
                                    : world.random.Between(1'000, 100'000));
}

void SimServer::StandStill(int64_t ns) {
  World& world = *world_;
  ++world.nesting;
  ++world.pauses;
  const int64_t since_ns = world.now_ns();
  world.scheduler.RunUntil(since_ns + ns);
  --world.nesting;
  // Also where the pause was short: a client may have been stopped meanwhile, in a call of its own.
  if (world.now_ns() - since_ns > 1'000'000) world.long_pauses.emplace_back(since_ns, world.now_ns());
  running = this;
  kill_wanted_ = kill_wanted_ && may_die();
  if (kill_wanted_) throw Killed();
}

}  // namespace farlook::sim
