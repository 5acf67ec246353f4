#include "tests/sim/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::sim {
namespace {

using history::Outcome;
using history::Type;

// What values are made of, behind their number.
const std::string& Filler() {
  static const std::string* const filler = [] {
    auto* text = new std::string;
    rdma::sim::Random random(4711);
    while (text->size() < (1 << 20)) {
      const uint64_t word = random.Next();
      text->append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    return text;
  }();
  return *filler;
}

Type TypeOf(Operation::Type type) {
  switch (type) {
    case Operation::Type::kPut:
      return Type::kPut;
    case Operation::Type::kInsert:
      return Type::kInsert;
    case Operation::Type::kReplace:
      return Type::kReplace;
    case Operation::Type::kCompareAndSet:
      return Type::kCompareAndSet;
    case Operation::Type::kDelete:
      return Type::kDelete;
    default:
      return Type::kGet;
  }
}

bool Writes(Operation::Type type) { return TypeOf(type) != Type::kGet; }

}  // namespace

SimClient::SimClient(World* world, int number, int server, std::string address)
    : world_(world),
      number_(number),
      server_(server),
      address_(std::move(address)),
      read_only_(number > world->plan.servers && world->random.OneIn(8)),
      clock_(&world->scheduler),
      versions_(static_cast<size_t>(world->plan.keys)) {}

void SimClient::Start() {
  ClientOptions options;
  options.timeout_ms = world_->plan.timeout_ms;
  options.read_only = read_only_;
  options.max_in_flight = static_cast<uint32_t>(world_->random.Between(1, 16));
  options.location_cache_bytes = world_->random.OneIn(4) ? 0 : world_->plan.cache_bytes;
  ++life_;
  wake_ns_ = 0;
  confirmed_ = false;
  core_ = std::make_unique<client::ClientCore>(world_->network.CreateEndpoint(number_,
                                                                              [this, life = life_] {
                                                                                if (life == life_) Wake();
                                                                              }),
                                               address_, options, clock_, world_->random.Next());
  Wake();
}

void SimClient::AddStats() {
  const ClientStats& stats = core_->stats();
  total_.gets += stats.gets;
  total_.hits += stats.hits;
  total_.misses += stats.misses;
  total_.puts += stats.puts;
  total_.read_retries += stats.read_retries;
  total_.cached_hits += stats.cached_hits;
  total_.stale_locations += stats.stale_locations;
  total_.directory_refreshes += stats.directory_refreshes;
  total_.server_gets += stats.server_gets;
  total_.pulled_values += stats.pulled_values;
  total_.reconnects += stats.reconnects;
  total_.resent_requests += stats.resent_requests;
  total_.timeouts += stats.timeouts;
  total_.incarnation_changes += stats.incarnation_changes;
}

std::string SimClient::State() {
  if (!alive()) return absl::StrCat("client ", number_, " is dead");
  const ClientStats& stats = core_->stats();
  return absl::StrCat("client ", number_, ": ", core_->in_flight(), " operations under way, ",
                      core_->ready() ? "connected" : "not connected", ", next look in ", core_->wait_ms(),
                      " ms; reconnects ", stats.reconnects, ", bucket READs ", stats.bucket_reads, ", item READs ",
                      stats.item_reads, ", gets by message ", stats.server_gets, ", timeouts ", stats.timeouts,
                      ", keys still to be read ", std::max(0, world_->plan.keys - next_read_));
}

void SimClient::Kill() {
  if (!alive()) return;
  AddStats();
  ending_ = true;
  ++life_;
  core_.reset();
  ending_ = false;
  // Writes may yet be done; nobody waits for them.
  slots_.clear();
  writes_under_way_ = 0;
}

void SimClient::Stop(int64_t ns) {
  world_->Note(absl::StrCat("client ", number_, " is stopped for ", ns, " ns"));
  stopped_until_ns_ = world_->now_ns() + ns;
  stopped_ns_ += ns;
  world_->network.Stop(number_, ns);
}

void SimClient::WakeAfter(int64_t ns) {
  const int64_t at_ns = std::max(world_->now_ns() + ns, stopped_until_ns_);
  if (!alive() || (wake_ns_ != 0 && wake_ns_ <= at_ns)) return;
  wake_ns_ = at_ns;
  world_->scheduler.At(at_ns, [this, at_ns, life = life_] {
    if (life != life_ || wake_ns_ != at_ns) return;
    wake_ns_ = 0;
    Poll();
  });
}

void SimClient::ReadAll() {
  next_read_ = 0;
  Wake();
}

void SimClient::Poll() {
  if (world_->now_ns() < stopped_until_ns_) return WakeAfter(0);
  std::array<Operation*, 8> done;
  while (const size_t count = core_->Poll(absl::MakeSpan(done))) {
    for (size_t i = 0; i < count; ++i) Ended(static_cast<Slot*>(done[i]->tag));
  }
  const auto most = static_cast<size_t>(world_->plan.in_flight);
  while (next_read_ < world_->plan.keys && core_->in_flight() < most) {
    Begin(Operation::Type::kGet, next_read_++, /*must_answer=*/true);
  }
  while (world_->operations_left > 0 && core_->in_flight() < most && world_->now_ns() >= world_->quiet_until_ns) {
    --world_->operations_left;
    BeginAny();
    if (world_->random.PerMillion(world_->plan.pauses)) {
      world_->quiet_until_ns = world_->now_ns() + world_->random.Between(0, 60'000'000);
    }
    if (on_begin) on_begin();
    if (!alive()) return;
    if (world_->now_ns() < stopped_until_ns_) return WakeAfter(0);
  }
  if (world_->operations_left > 0 && world_->quiet_until_ns > world_->now_ns()) {
    WakeAfter(world_->quiet_until_ns - world_->now_ns());
  }
  const int64_t wait_ms = core_->wait_ms();
  if (wait_ms >= 0) WakeAfter(std::max<int64_t>(1'000, wait_ms * 1'000'000));
}

uint32_t SimClient::DrawBytes() {
  rdma::sim::Random& random = world_->random;
  if (world_->plan.large_values && !random.OneIn(4)) {
    // Of one size and then of another, by turns: slabs become sparse.
    constexpr uint32_t kTurns[] = {60'000, 130'000};
    return kTurns[5 * world_->operations_left / world_->plan.operations % 2];
  }
  switch (world_->plan.values) {
    case 0:
      return static_cast<uint32_t>(random.Between(8, 24));
    case 1:
      return static_cast<uint32_t>(random.Between(8, 200));
    case 2:
      return static_cast<uint32_t>(random.OneIn(25) ? random.Between(4'000, 9'000) : random.Between(8, 600));
    default:
      return 40;
  }
}

std::string SimClient::MakeValue(uint64_t number, uint32_t bytes) const {
  std::string value(bytes, '\0');
  std::memcpy(value.data(), &number, sizeof number);
  Filler().copy(value.data() + 8, bytes - 8, number * 8 % 4'096);
  return value;
}

void SimClient::BeginAny() {
  rdma::sim::Random& random = world_->random;
  int keys = world_->plan.keys;
  // Growth goes on all through the run.
  if (world_->plan.grows) {
    const int begun = world_->plan.operations - world_->operations_left;
    keys = std::clamp(keys * begun / world_->plan.operations * 5 / 4, std::min(keys, 12), keys);
  }
  int key = static_cast<int>(random.Below(static_cast<uint64_t>(keys)));
  if (random.OneIn(2)) key = world_->plan.grows ? keys - 1 - key / 8 : key / 8;
  const uint64_t dice = random.Below(100);
  using OpType = Operation::Type;
  OpType type = OpType::kGet;
  // While the server stands still somebody must go on reading.
  const bool only_read = read_only_ || writes_under_way_ * 2 >= world_->plan.in_flight;
  if (dice < 40 || only_read) {
    type = random.OneIn(10) ? OpType::kExists : OpType::kGet;
  } else if (dice < 66) {
    type = OpType::kPut;
  } else if (dice < 74) {
    type = OpType::kInsert;
  } else if (dice < 79) {
    type = OpType::kReplace;
  } else if (dice < 88) {
    type = OpType::kCompareAndSet;
  } else {
    type = world_->plan.grows && !random.OneIn(4) ? OpType::kInsert : OpType::kDelete;
  }
  Begin(type, key, /*must_answer=*/false);
}

void SimClient::Begin(Operation::Type type, int key, bool must_answer) {
  rdma::sim::Random& random = world_->random;
  auto found = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->free; });
  if (found == slots_.end()) found = slots_.insert(found, std::make_unique<Slot>());
  Slot& slot = **found;
  slot.free = false;
  slot.key = key;
  slot.must_answer = must_answer;
  Operation& operation = slot.operation = Operation();
  operation.type = type;
  operation.key = world_->keys[static_cast<size_t>(key)];
  operation.tag = &slot;
  history::Operation record;
  record.type = TypeOf(type);
  record.client = number_;
  record.begin_ns = world_->now_ns();
  if (Writes(type) && type != Operation::Type::kDelete) {
    record.write = world_->writes.size();
    const uint32_t bytes = DrawBytes();
    world_->writes.push_back({server_, key, bytes});
    slot.value = MakeValue(record.write, bytes);
    operation.value = slot.value;
  }
  if (Writes(type)) ++writes_under_way_;
  if (type == Operation::Type::kCompareAndSet) {
    const uint64_t seen = versions_[static_cast<size_t>(key)];
    operation.version = record.expected = seen != 0 && !random.OneIn(8) ? seen : 1 + random.Below(2'000);
  }
  if (type == Operation::Type::kGet) {
    if (!must_answer && random.OneIn(4)) {
      slot.buffer.resize(random.OneIn(2) ? 300 : 500'000);
      operation.buffer = absl::MakeSpan(slot.buffer);
    } else {
      operation.string = &slot.found;
    }
  }
  if (!must_answer && random.OneIn(10)) operation.timeout_ms = random.Between(1, 50);
  const int64_t timeout_ms = operation.timeout_ms > 0 ? operation.timeout_ms : world_->plan.timeout_ms;
  slot.timeout_ns = timeout_ms * 1'000'000;
  slot.due_ns = clock_.NowNs() + slot.timeout_ns;
  slot.stopped_ns = stopped_ns_;
  auto& history = world_->HistoryOf(server_, key);
  slot.place = history.size();
  history.push_back(record);
  core_->Start(&operation);
}

// What a get found must be whole, of this key, and say which write it is of.
void SimClient::Found(const Slot& slot, history::Operation* record) {
  const Operation& operation = slot.operation;
  const absl::string_view value = operation.string != nullptr
                                      ? absl::string_view(slot.found)
                                      : absl::string_view(slot.buffer.data(), operation.value_bytes);
  uint64_t number = 0;
  if (value.size() >= 8) std::memcpy(&number, value.data(), 8);
  if (number == 0 || number >= world_->writes.size()) return world_->Violate("a get found what nobody wrote");
  const World::Write& write = world_->writes[number];
  if (write.server != server_ || write.key != slot.key) {
    return world_->Violate(absl::StrCat("a get of key ", slot.key, " of server ", server_, " found write #", number,
                                        " of key ", write.key, " of server ", write.server));
  }
  if (write.bytes != value.size() ||
      value.substr(8) != absl::string_view(Filler()).substr(number * 8 % 4'096, write.bytes - 8)) {
    return world_->Violate(absl::StrCat("a get found write #", number, " not as it was written"));
  }
  record->found = number;
}

void SimClient::Ended(Slot* slot) {
  const Operation& operation = slot->operation;
  history::Operation& record = world_->HistoryOf(server_, slot->key)[slot->place];
  record.end_ns = world_->now_ns();
  record.version = operation.version;
  const bool writes = Writes(operation.type);
  if (writes) --writes_under_way_;
  switch (operation.status.code()) {
    case absl::StatusCode::kOk:
      record.outcome = Outcome::kOk;
      if (operation.type == Operation::Type::kGet) Found(*slot, &record);
      if (writes) confirmed_ = true;
      break;
    case absl::StatusCode::kNotFound:
      record.outcome = Outcome::kNotFound;
      break;
    case absl::StatusCode::kAlreadyExists:
      record.outcome = Outcome::kExists;
      break;
    case absl::StatusCode::kAborted:  // without a version: the table is another, nothing was sent
      record.outcome = operation.version != 0 ? Outcome::kMismatch : Outcome::kNothing;
      break;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
      record.outcome = writes ? Outcome::kPending : Outcome::kNothing;
      record.version = 0;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied:
      record.outcome = Outcome::kNothing;
      break;
    default:
      world_->Violate(absl::StrCat("an operation ended with ", operation.status.ToString()));
  }
  if (operation.version != 0 && record.outcome != Outcome::kPending) {
    versions_[static_cast<size_t>(slot->key)] = operation.version;
  }
  const int64_t late_ns = clock_.NowNs() - slot->due_ns - 2 * (stopped_ns_ - slot->stopped_ns);
  if (late_ns > slot->timeout_ns / 8 + 20'000'000) {  // a clock may be wrong by as much
    world_->Violate(absl::StrCat("an operation outlived its deadline by ", late_ns, " ns: ", ToString(record)));
  }
  if (world_->nesting > 0) ++world_->ended_in_pauses;
  slot->free = true;
  if (slot->must_answer && record.outcome != Outcome::kOk && record.outcome != Outcome::kNotFound) {
    next_read_ = std::min(next_read_, slot->key);
  }
}

}  // namespace farlook::sim
