// The operations that the client of a simulated run starts.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/limits.h"
#include "tests/history/outcome.h"
#include "tests/history/values.h"
#include "tests/sim/client.h"

namespace farlook::sim {
namespace {

using history::Outcome;
using history::Writes;
using OpType = history::Type;

// A caller's memory: for short values only, or for all.
constexpr std::array<size_t, 2> kBufferBytes = {300, 500'000};  // the second for longer ones where they occur

client::Kind KindOf(OpType type) {
  switch (type) {
    case OpType::kDelete:
      return client::Kind::kDelete;
    case OpType::kCreateCounter:
      return client::Kind::kCreateCounter;
    case OpType::kFetchAdd:
    case OpType::kAddOrCreate:
      return client::Kind::kFetchAdd;
    case OpType::kCompareSwap:
      return client::Kind::kCompareSwap;
    case OpType::kReadCounter:
      return client::Kind::kReadCounter;
    case OpType::kDeleteCounter:
      return client::Kind::kDeleteCounter;
    case OpType::kGet:
      return client::Kind::kGet;
    default:
      return client::Kind::kPut;  // with a condition
  }
}

}  // namespace

uint32_t SimClient::DrawBytes() {
  rdma::sim::Random& random = world_->random;
  if (world_->plan.long_values) {
    // Items of less than a page, of two, and of three.
    return static_cast<uint32_t>(random.OneIn(4)   ? random.Between(8, 600'000)
                                 : random.OneIn(2) ? random.Between(kv::kPageBytes, 2 * kv::kPageBytes)
                                                   : random.Between(2 * kv::kPageBytes, history::kMaxValueBytes));
  }
  if (world_->plan.large_values && !random.OneIn(4)) {
    // Alternates between two sizes, so that blocks become sparse.
    constexpr uint32_t kTurns[] = {60'000, 130'000}, kCacheTurns[] = {200'000, 400'000};
    const int turn = 5 * world_->operations_left / world_->plan.operations % 2;
    return world_->plan.evicts ? kCacheTurns[turn] : kTurns[turn];
  }
  if (world_->plan.moves) {
    // Mostly lengths that fit into the sparse blocks; now and then one that needs units which some of them must free.
    constexpr uint32_t kOthers[] = {5'000, 9'000, 20'000, 40'000};
    const int turn = 8 * world_->operations_left / world_->plan.operations;
    return random.OneIn(5) ? kOthers[turn % 4] : kSparseBytes - static_cast<uint32_t>(random.Below(60));
  }
  if (world_->plan.fills) {
    const LengthRange lengths = FillingBytes(world_->plan.seed, FillingTurn());
    return static_cast<uint32_t>(random.Between(lengths.least, lengths.most));
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

// Draws the next operation and its key.
void SimClient::Draw(Ask* ask, int* drawn) {
  rdma::sim::Random& random = world_->random;
  int keys = world_->plan.keys;
  // Growth continues all through the run.
  if (world_->plan.grows) {
    const int begun = world_->plan.operations - world_->operations_left;
    keys = std::clamp(keys * begun / world_->plan.operations * (world_->plan.shrinks ? 5 : 1) * 5 / 4,
                      std::min(keys, 12), keys);
  }
  int key = static_cast<int>(random.Below(static_cast<uint64_t>(keys)));
  if (random.OneIn(world_->plan.fills ? 8 : 2)) key = world_->plan.grows ? keys - 1 - key / 8 : key / 8;
  if (world_->plan.counters && random.OneIn(2)) {
    key = static_cast<int>(random.Below(static_cast<uint64_t>(std::min(world_->plan.keys, World::kCounterKeys))));
    key |= key + 2 < world_->plan.keys ? 2 : 0;
  }
  const bool counter = world_->NamesCounters(key) && (!world_->NamesValues(key) || random.OneIn(2));
  *ask = counter ? DrawOfCounter(world_->NamesValues(key)) : DrawOfValue();
  *drawn = key;
}

void SimClient::BeginAny() {
  Ask ask;
  int key = 0;
  Draw(&ask, &key);
  Begin(ask, key, /*must_answer=*/false);
}

// A blocking call, as client.h makes them, for one operation or for several. An operation that has ended when the call
// returns was READ at once, while others continued. While the call waits for the rest this client begins nothing else.
int SimClient::Call() {
  rdma::sim::Random& random = world_->random;
  std::vector<client::Operation*> operations;
  const auto count = static_cast<size_t>(random.OneIn(2) ? 1 : random.Between(2, 12));
  while (operations.size() < count) {
    Ask ask;
    int key = 0;
    Draw(&ask, &key);
    if (world_->random.OneIn(2) && world_->NamesValues(key)) ask = {OpType::kGet, /*exists=*/random.OneIn(10)};
    if (!operations.empty() && world_->operations_left > 0) --world_->operations_left;
    Slot* slot = Prepare(ask, key, /*must_answer=*/false);
    slot->operation.blocking = true;
    waiting_.push_back(slot);
    operations.push_back(&slot->operation);
  }
  const int64_t since_ns = world_->now_ns();
  busy_ = true;
  const rdma::sim::Party reader = std::exchange(world_->reader, party());
  // Operations of one core together.
  std::vector<std::pair<client::ClientCore*, std::vector<client::Operation*>>> each;
  if (cores_->one()) {
    each.emplace_back(&cores_->home(), operations);
  } else {
    const auto sorted = cores_->Sort(operations, /*all_of_keys=*/true);
    for (size_t i = 0; i < cores_->all().size(); ++i) {
      if (!sorted[i].empty()) each.emplace_back(cores_->all()[i], sorted[i]);
    }
    for (client::Operation* operation : sorted.back()) {
      cores_->moved()->Start(operation, client::ClientCore::kNoDeadline);
    }
  }
  for (const auto& [core, some] : each) {
    count == 1 ? core->StartUntimed(some[0], some[0]->kind) : core->StartUntimed(some);
  }
  world_->reader = reader;  // the client whose call continues, if any
  busy_ = false;
  stopped_ns_ += world_->now_ns() - since_ns;
  for (const auto& [core, some] : each) core->ProgressNowAndThen();
  for (const auto& [core, some] : each) core->SetDeadlines(some);
  const size_t all = waiting_.size();
  EndCalls();
  if (cores_->local()) {
    ended_at_once_ += all - waiting_.size();
  } else if (world_->plan.network.capabilities.reads_at_once) {
    read_at_once_ += all - waiting_.size();
  }
  Wake();
  return static_cast<int>(count);
}

// Ends the operations of a blocking call.
void SimClient::EndCalls() {
  std::erase_if(waiting_, [this](Slot* slot) {
    if (!slot->operation.done) return false;
    Ended(slot);
    return true;
  });
}

int SimClient::FillingTurn() const {
  return kFillingTurns * (world_->plan.operations - world_->operations_left) / (world_->plan.operations + 1);
}

// While the server is stopped some operation in flight must be a read.
bool SimClient::OnlyReads() const { return read_only_ || writes_under_way_ * 2 >= world_->plan.in_flight; }

SimClient::Ask SimClient::DrawOfValue() {
  rdma::sim::Random& random = world_->random;
  if (world_->plan.expires && !OnlyReads() && random.OneIn(8)) {
    constexpr client::Kind kTouches[] = {client::Kind::kTouch, client::Kind::kGetAndTouch, client::Kind::kPersist};
    return {OpType::kGet, /*exists=*/false, kTouches[random.Below(random.OneIn(4) ? 3 : 2)]};
  }
  if (world_->plan.fills && !OnlyReads() && !random.OneIn(4)) {
    constexpr OpType kTurns[] = {OpType::kPut, OpType::kReplace, OpType::kDelete};
    return {kTurns[FillingTurn() % 3]};
  }
  const uint64_t dice = random.Below(100);
  if (dice < 40 || OnlyReads()) return {OpType::kGet, /*exists=*/random.OneIn(10)};
  // The second half of such a run.
  if (world_->plan.shrinks && world_->operations_left * 2 < world_->plan.operations && !random.OneIn(8)) {
    return {OpType::kDelete};
  }
  if (dice < 66) return {OpType::kPut};
  if (dice < 74) return {OpType::kInsert};
  if (dice < 79) return {OpType::kReplace};
  if (dice < 88) return {OpType::kCompareAndSet};
  return {world_->plan.grows && !random.OneIn(4) ? OpType::kInsert : OpType::kDelete};
}

SimClient::Ask SimClient::DrawOfCounter(bool also_value) {
  rdma::sim::Random& random = world_->random;
  if (world_->plan.expires && also_value && !OnlyReads() && random.OneIn(100)) {
    return {OpType::kGet, /*exists=*/false, random.OneIn(2) ? client::Kind::kTouch : client::Kind::kPersist};
  }
  const uint64_t dice = random.Below(100);
  if (dice < 20 || OnlyReads()) return {random.OneIn(4) ? OpType::kGet : OpType::kReadCounter};
  if (dice < 70) return {dice < 64 ? OpType::kFetchAdd : OpType::kAddOrCreate};
  if (dice < 82) return {OpType::kCompareSwap};
  // Counters that expire live that long.
  if (dice < 95 || (world_->plan.expires && !random.OneIn(20))) return {OpType::kCreateCounter};
  return {OpType::kDeleteCounter};
}

SimClient::Slot* SimClient::FreeSlot() {
  auto found = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->free; });
  if (found == slots_.end()) found = slots_.insert(found, std::make_unique<Slot>());
  return found->get();
}

SimClient::Slot* SimClient::Prepare(Ask ask, int key, bool must_answer) {
  rdma::sim::Random& random = world_->random;
  Slot& slot = *FreeSlot();
  slot.free = false;
  slot.key = key;
  slot.must_answer = must_answer;
  const OpType type = ask.type;
  client::Operation& operation = slot.operation = client::Operation();
  operation.kind = ask.exists ? client::Kind::kExists : ask.touch != client::Kind::kGet ? ask.touch : KindOf(type);
  operation.key = world_->keys[static_cast<size_t>(key)];
  operation.owner = &slot;
  history::Operation record;
  record.type = type;
  record.client = number_;
  record.begin_ns = world_->now_ns();
  record.began = ++places_;
  // Client and server promise this order for small and for pulled writes.
  if (Writes(record.type) && !history::IsOfCounter(record.type)) record.session = life_;
  const bool of_counter = history::IsOfCounter(record.type);
  const uint64_t write = world_->writes.size();
  if (Makes(type)) {
    const uint32_t bytes = of_counter ? 0 : DrawBytes();
    world_->writes.push_back({server_, key, bytes});
    if (!of_counter) {
      record.write = write;
      slot.value = history::MakeValue(write, bytes);
      operation.value = slot.value;
    }
  }
  operation.keep = world_->plan.evicts && Makes(type) && !of_counter && IsKept(key);
  if (Writes(record.type)) ++writes_under_way_;
  if (type == OpType::kCompareAndSet) {
    const uint64_t seen = versions_[static_cast<size_t>(key)];
    record.expected = seen != 0 && !random.OneIn(8) ? seen : 1 + random.Below(2'000);
    operation.condition = Condition::IfVersion(record.expected);
  }
  if (type == OpType::kInsert) operation.condition = Condition::IfAbsent();
  if (type == OpType::kReplace) operation.condition = Condition::IfPresent();
  if (of_counter) AskCounter(&slot, write, &record);
  if (client::WantsValue(operation.kind)) {
    if (!must_answer && random.OneIn(4)) {
      const size_t which = random.OneIn(2) ? 0 : 1;
      std::unique_ptr<char[]>& buffer = slot.buffers[which];
      const size_t bytes = which == 1 && world_->plan.long_values ? history::kMaxValueBytes : kBufferBytes[which];
      if (buffer == nullptr) buffer.reset(new char[bytes]);  // not cleared, as that would take long
      operation.to.buffer = absl::MakeSpan(buffer.get(), bytes);
    } else {
      operation.to.string = &slot.found;
    }
  }
  if (!must_answer && random.OneIn(10)) operation.timeout_ms = random.Between(1, 50);
  const int64_t timeout_ms = operation.timeout_ms > 0 ? operation.timeout_ms : world_->plan.timeout_ms;
  slot.timeout_ns = timeout_ms * 1'000'000;
  slot.due_ns = clock_.NowNs() + slot.timeout_ns;
  slot.stopped_ns = stopped_ns_;
  slot.clock_known_ns = ClockKnownSince();
  auto& history = world_->HistoryOf(server_, key);
  slot.place = history.size();
  if (world_->plan.expires) Lend(ask, key, slot.place, &operation);
  history.push_back(record);
  return &slot;
}

// Half of the values end soon (fewer where memory must be full), others when the one before would have; most counters
// within a run.
void SimClient::Lend(Ask ask, int key, size_t place, client::Operation* operation) {
  rdma::sim::Random& random = world_->random;
  if (history::IsOfCounter(ask.type)) {
    if ((ask.type != OpType::kCreateCounter && ask.type != OpType::kAddOrCreate) || random.OneIn(3)) return;
    operation->ttl_ms = random.Between(1, random.OneIn(2) ? 20 : 400);
    world_->LeasesOf(server_, key).push_back({place, operation->ttl_ms});
    return;
  }
  const bool touches = ask.touch != client::Kind::kGet;
  const bool ends =
      touches ? ask.touch != client::Kind::kPersist : Makes(ask.type) && random.OneIn(world_->plan.evicts ? 8 : 2);
  if (ends) operation->ttl_ms = random.Between(1, 6);
  operation->keep_ttl = !touches && !ends && Makes(ask.type) && random.OneIn(2);
  if (touches || ends || operation->keep_ttl) {
    world_->LeasesOf(server_, key).push_back({place, operation->ttl_ms, touches, /*apart=*/false, operation->keep_ttl});
  }
}

void SimClient::Begin(Ask ask, int key, bool must_answer) {
  client::Operation* const operation = &Prepare(ask, key, must_answer)->operation;
  cores_->Start({&operation, 1});
}

// The numbers of an operation on a counter; `write` is the operation's own number if it creates one.
void SimClient::AskCounter(Slot* slot, uint64_t write, history::Operation* record) {
  client::Operation* const operation = &slot->operation;
  rdma::sim::Random& random = world_->random;
  switch (record->type) {
    case OpType::kFetchAdd:
    case OpType::kAddOrCreate: {
      // Deltas of all sizes: a sum identifies the adds that it contains.
      const int64_t delta = random.Between(1, random.OneIn(30) ? 3 : history::kMaxDelta);
      operation->operand = random.OneIn(3) ? -delta : delta;
      operation->exactly_once = random.OneIn(4);
      operation->create = record->type == OpType::kAddOrCreate;
      if (operation->create) operation->expected = history::FirstNumberOf(write);
      break;
    }
    case OpType::kCompareSwap:
      operation->expected = numbers_[static_cast<size_t>(slot->key)];
      if (random.OneIn(8)) operation->expected = history::FirstNumberOf(1 + random.Below(write));
      operation->exactly_once = random.OneIn(8);
      operation->operand = history::FirstNumberOf(write);
      break;
    case OpType::kCreateCounter:
      operation->operand = history::FirstNumberOf(write);
      break;
    default:
      break;
  }
  record->operand = operation->operand;
  record->expected_counter = operation->expected;
}

}  // namespace farlook::sim
