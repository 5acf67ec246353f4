#include "tests/sim/server.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cluster/configuration.h"
#include "kv/cell_region.h"
#include "kv/item.h"
#include "kv/words.h"
#include "server/cell_writer.h"
#include "server/session.h"
#include "tests/sim/hook.h"
#include "tests/sim/keys.h"

namespace farlook::sim {
namespace {

constexpr size_t kArenaBytes = size_t{4} << 30;
size_t arena_used = 0;
World* running_world = nullptr;
SimServer* running = nullptr;  // the innermost that is within Poll()

// Every store of kv/ to a region comes here.
void StoreShared(uint64_t* at, uint64_t value) {
  if (*at == value) return;  // nobody can tell
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

// Changes cells as CpuCellWriter does: each change is one store, that others see, and that they may come after.
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

void SimServer::Start() {
  running_world = world_;
  // As small as may be; larger where large values must have room to leave holes.
  const uint64_t region_bytes = (world_->plan.long_values                            ? 4
                                 : world_->plan.large_values && !world_->plan.evicts ? 2
                                                                                     : 1) *
                                kv::kMinRegionBytes;
  char* region = TakeMemory(region_bytes);
  ++starts_;
  if (starts_ > 1 && world_->plan.expires && world_->Strikes(Fault::kServerJumps)) {
    past_clocks_.emplace_back(world_->now_ns(), clock_);
    clock_.offset_ns = world_->random.Between(0, 1'000'000'000'000);
  }
  parts_ = std::make_unique<Parts>();
  Parts& parts = *parts_;
  // Each partition has blocks of its own, which are to be sparse.
  // Replicas of a group are alike.
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
  SimServer* const paused = std::exchange(running, nullptr);  // another, which is not the one that stores now
  parts.table = *kv::Table::Create({region, region_bytes}, options);

  // Replicas begin alike. One that begins anew is filled by another.
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
  shared.max_kept_bytes = 300;  // so that connections are not listened to for a while
  shared.table = parts.table.get();
  shared.locks = parts.locks.get();
  shared.clock = &clock_;
  shared.incarnation = options.incarnation;
  shared.counters = parts.counters.get();
  shared.counter_patience_ns = world_->plan.patience_ns;
  shared.workers = worker_count;
  shared.places = &parts.places;
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
      // Not so few that nobody new may come: sessions are evicted by their age, or not kept at all.
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

// As a server's start does. The directory answers: one that does not find it there does not start.
void SimServer::OpenGroup(uint64_t incarnation) {
  server::Group::Options options;
  options.name = group_name();
  options.open_directory = [this] {
    return std::make_unique<cluster::SimulatedDirectory>(&world_->records, [this] {
      AwaitDirectory();
      return world_->DrawDirectoryFault();
    });
  };
  options.incarnation = incarnation;
  options.suspicion = absl::Milliseconds(world_->plan.suspicion_ms);
  options.lease = absl::Milliseconds(world_->plan.lease_ms);
  options.replicas = static_cast<uint32_t>(world_->plan.replicas);
  options.hash_seed = kHashSeed;
  if (world_->plan.groups > 1) {
    options.cluster = World::kCluster;
    options.slots = *kv::ParseSlots(world_->GroupOf(number_) == 0 ? "0-2047" : "2048-4095");
  }
  world_->opening = true;
  parts_->group = *server::Group::Open(std::move(options));
  if (!parts_->group->EnterCluster().ok()) std::abort();
  world_->opening = false;
  parts_->gate = std::make_unique<server::CommitGate>(parts_->table.get(), parts_->locks.get(), &clock_,
                                                      server::ServerTime(), parts_->group->stream());
  parts_->gate->SetServing(parts_->group->serving());
}

void SimServer::JoinGroup() {
  server::Group::Parts parts;
  parts.table = parts_->table.get();
  parts.locks = parts_->locks.get();
  parts.clock = &clock_;
  parts.gate = parts_->gate.get();
  parts.hash_seed = kHashSeed;
  parts.address = address();
  for (const auto& worker : parts_->workers) parts.workers.push_back(worker.get());
  parts.create_endpoint = [this](absl::string_view) -> absl::StatusOr<std::unique_ptr<rdma::Endpoint>> {
    return world_->network.CreateEndpoint(party(), [this] { Wake(); });
  };
  parts.deposed = [this] { deposed_ = true; };
  parts_->group->Attach(std::move(parts));
  has_begun_ = deposed_ = false;
  revision_ = 0;
  look_ns_ = others_ns_ = 0;
  described_epoch_ = 0;
  Wake();
}

void SimServer::HearRecord(cluster::Entry entry) {
  const auto group = cluster::DecodeConfiguration(entry.value);
  std::string text = absl::StrCat("server ", number_, " hears of revision ", entry.revision);
  if (group.ok()) {
    absl::StrAppend(&text, ", epoch ", group->epoch, ":");
    for (const cluster::Replica& member : group->members) {
      absl::StrAppend(&text, " ", member.address, member.kind == cluster::Replica::Kind::kPrimary ? " (primary)" : "");
    }
    if (world_->plan.groups > 1) absl::StrAppend(&text, ", slots ", kv::FormatSlots(group->slots));
    for (const cluster::Move& move : group->moves) {
      constexpr absl::string_view kKinds[] = {"", "taking", "taken", "given"};
      absl::StrAppend(&text, ", ", kKinds[static_cast<size_t>(move.kind)], " ", kv::FormatSlots(move.slots));
      if (move.kind == cluster::Move::Kind::kTaken) world_->moves.insert(move.id);
    }
  }
  if (world_->noting) world_->Note(std::move(text));
  parts_->group->Hear(std::move(entry));
}

// What its two threads of its group do. Whether there may be more to do at once.
bool SimServer::StepGroup() {
  server::Group& group = *parts_->group;
  if (!std::exchange(has_begun_, true)) group.Begin();
  if (world_->now_ns() >= look_ns_) {
    cluster::Entry entry = world_->records.Get(group_name());
    if (entry.revision > revision_) {
      revision_ = entry.revision;
      HearRecord(std::move(entry));
    }
    const bool is_slow = !world_->healed && world_->random.PerMillion(world_->plan.directory_faults / 20);
    look_ns_ = world_->now_ns() + world_->random.Between(1'000, is_slow ? 300'000'000 : 2'000'000);
  }
  if (world_->plan.groups > 1 && world_->now_ns() >= others_ns_) {
    group.LookAtOthers();
    others_ns_ = world_->now_ns() + world_->random.Between(1'000, world_->random.OneIn(4) ? 200'000'000 : 20'000'000);
  }
  const bool more = group.Step();
  ExpectDescribed();
  if (!timer_is_set_) {
    timer_is_set_ = true;
    world_->scheduler.After(absl::ToInt64Nanoseconds(server::Group::kTick), [this] {
      timer_is_set_ = false;
      Wake();
    });
  }
  return more;
}

// What an operator is told is of no earlier epoch than what clients are told.
void SimServer::ExpectDescribed() {
  const uint64_t epoch = parts_->group->serving()->told().epoch;
  if (std::exchange(described_epoch_, epoch) == epoch) return;
  const std::string status = parts_->group->Ask("status");
  if (absl::StrContains(status, absl::StrCat("\nepoch ", epoch, "\n")) || !world_->violation.empty()) return;
  world_->violation = absl::StrCat("server ", number_, " is in epoch ", epoch, ", and describes another one: ", status);
}

// Empty, as a process that takes the place of this one.
void SimServer::BeginAnew() {
  world_->Note(absl::StrCat("server ", number_, " is to begin anew"));
  Destroy(/*in_order=*/true);
  world_->scheduler.After(world_->random.Between(10'000, 5'000'000), [this] {
    if (!alive() && !world_->over) Start();
  });
}

void SimServer::Ask(const std::string& what) {
  if (!alive() || busy_) return;
  const std::string answer = parts_->group->Ask(what);
  world_->Note(absl::StrCat("server ", number_, " is asked: ", what, ": ", answer));
}

// Fills memory, and then makes holes in all blocks: what is longer than those needs units that were emptied. A cache
// never refuses; it is full when so many were put that they cannot all have room.
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
  if (parts_->group != nullptr && in_order) parts_->group->SayLeft();
  parts_.reset();
  ending_ = false;
  kill_wanted_ = deposed_ = false;
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
  // More often where somebody looks.
  if (world.network.RecentlyRead(at) && world.random.PerMillion(world.plan.nested_near)) running->stores_left_ = 0;
  if (--running->stores_left_ <= 0) running->Pause();
}

// Between two stores: the others go on.
void SimServer::Pause() {
  World& world = *world_;
  stores_left_ = world.random.Between(1, 2'000'000 / (world.plan.nested + 1));
  if (world.nesting >= 3) return;
  // A few round trips, so that somebody can look twice.
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

// Before what it asks for is done.
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
  // Also where it was to be short: a client may have been stopped meanwhile, in a call of its own.
  if (world.now_ns() - since_ns > 1'000'000) world.long_pauses.emplace_back(since_ns, world.now_ns());
  running = this;
  kill_wanted_ = kill_wanted_ && may_die();
  if (kill_wanted_) throw Killed();
}

}  // namespace farlook::sim
