// Checks and records the answers to the client of a simulated run.
#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "tests/history/outcome.h"
#include "tests/history/values.h"
#include "tests/sim/client.h"

namespace farlook::sim {

using history::Outcome;
using history::Writes;
using OpType = history::Type;

// A value that a get found must be whole, belong to this key, and name its write.
void SimClient::Found(const Slot& slot, history::Operation* record) {
  const client::Operation& operation = slot.operation;
  const absl::string_view value = operation.to.string != nullptr
                                      ? absl::string_view(slot.found)
                                      : absl::string_view(operation.to.buffer.data(), operation.value_bytes);
  record->found = history::WriteOfValue(value);
  if (!CheckWrite(slot.key, record->found, operation.touched ? "a get that touched" : "a get")) return;
  if (world_->writes[record->found].bytes != value.size() || !history::IsWhole(value, record->found)) {
    world_->Violate(absl::StrCat("a get found write #", record->found, " not as it was written"));
  }
}

// Returns whether `write` is a write to this key.
bool SimClient::CheckWrite(int key, uint64_t write, absl::string_view what) {
  if (write == 0 || write >= world_->writes.size()) {
    world_->Violate(absl::StrCat(what, " found what nobody wrote"));
    return false;
  }
  const World::Write& written = world_->writes[write];
  if (written.server == server_ && written.key == key) return true;
  world_->Violate(absl::StrCat(what, " of key ", key, " of server ", server_, " found write #", write, " of key ",
                               written.key, " of server ", written.server));
  return false;
}

// The number of a counter must belong to this key.
void SimClient::FoundCounter(const Slot& slot, history::Operation* record) {
  const client::Operation& operation = slot.operation;
  record->counter = operation.counter;
  if (record->type == OpType::kCompareSwap && operation.counter != operation.expected) {
    record->outcome = Outcome::kMismatch;
  }
  const uint64_t write = history::WriteOfNumber(operation.counter);
  if (!CheckWrite(slot.key, write, ToString(*record))) return;
  if (world_->writes[write].bytes != 0) world_->Violate(absl::StrCat(ToString(*record), ": that was a value"));
  numbers_[static_cast<size_t>(slot.key)] = operation.counter;
}

// Returns the latest time since which the client's knowledge of the server's clock may be unchanged: the first message
// of its connection, or an answer. The client updates it with each answer after a second has passed.
int64_t SimClient::ClockKnownSince() const {
  constexpr int64_t kFreshNs = 1'060'000'000;  // a second of the slowest clock
  return std::max(welcomed_ns_, answered_ns_ - kFreshNs);
}

// Returns how much later than its end by the client's clock an operation may begin, because the client's estimate of
// the server's clock is wrong. Both clocks have drifted since the last answer, and the client's own may have jumped.
int64_t SimClient::ClocksDiffer(const Slot& slot, int64_t timeout_ns) const {
  const bool drift = world_->plan.has(Fault::kClientClocks) || world_->plan.has(Fault::kServerClocks);
  const int64_t begin_ns = world_->HistoryOf(server_, slot.key)[slot.place].begin_ns;
  int64_t ns = drift ? (begin_ns - slot.clock_known_ns + timeout_ns) / 9 : 0;  // 1.05 / 0.95
  for (const auto& [when_ns, how_far_ns] : jumps_) {
    if (when_ns >= slot.clock_known_ns) ns += how_far_ns + how_far_ns / 9;
  }
  return ns;
}

// A write by message does not begin after its deadline: it takes effect soon after that, or never. Simulation::Judge()
// adds the time for which the server was stopped in the middle of it.
void SimClient::SetUntil(const Slot& slot, history::Operation* record) const {
  constexpr int64_t kAtMostNs = 20'000'000;  // between the server's check of the clock and its last store
  if (record->outcome != Outcome::kPending) return;
  // A write that began in time waits for all members of the group.
  if (world_->plan.replicas > 0) return;
  // Adds of unknown outcome are grouped (AddBridges() in tests/history/check.cc), without times.
  if (record->type == OpType::kFetchAdd || record->type == OpType::kAddOrCreate) return;
  const bool may_be_atomic = record->type == OpType::kCompareSwap;
  if (may_be_atomic && world_->plan.cells_shared && !slot.operation.exactly_once) return;
  const int64_t timeout_ns = slot.timeout_ns + (world_->plan.has(Fault::kClientClocks) ? slot.timeout_ns / 15 : 0);
  record->until_ns =
      record->begin_ns + timeout_ns + (stopped_ns_ - slot.stopped_ns) + ClocksDiffer(slot, timeout_ns) + kAtMostNs;
}

// A session that its client resumes must exist, as long as its server lives and evicts no sessions.
void SimClient::CheckSession(const client::Operation& operation) {
  // A client that is away during two failovers may lose its session.
  if (world_->plan.has(Fault::kEvictions) || world_->plan.replicas > 0 || !absl::IsUnknown(operation.status)) return;
  if (absl::StrContains(operation.status.message(), "no longer knows this client's session")) {
    world_->Violate("a client lost its session, which nobody evicted");
  }
}

void SimClient::Ended(Slot* slot) {
  const client::Operation& operation = slot->operation;
  history::Operation& record = world_->HistoryOf(server_, slot->key)[slot->place];
  record.end_ns = world_->now_ns();
  record.ended = ++places_;
  if (Writes(record.type)) --writes_under_way_;
  const auto outcome = history::OutcomeOf(record.type, operation.status, operation.version != 0);
  if (!outcome.has_value()) {
    world_->Violate(absl::StrCat(ToString(record), " ended with ", operation.status.ToString()));
  }
  record.outcome = outcome.value_or(Outcome::kNothing);
  // A touched item may be a counter; a history cannot record that a counter is present.
  const bool touch = operation.kind == client::Kind::kTouch || operation.kind == client::Kind::kPersist;
  if (touch && world_->NamesCounters(slot->key)) record.outcome = Outcome::kNothing;
  const bool has_version = record.outcome != Outcome::kPending && record.outcome != Outcome::kWrongKind;
  record.version = has_version && !history::IsOfCounter(record.type) ? operation.version : 0;
  if (record.outcome == Outcome::kOk && client::WantsValue(operation.kind)) {
    Found(*slot, &record);
    if (world_->writes[record.found].bytes > kv::kPageBytes) ++long_found_;
  }
  if (HasCounterValue(record)) FoundCounter(*slot, &record);
  if (operation.touched) {
    for (Lease& lease : world_->LeasesOf(server_, slot->key)) lease.apart |= lease.place == slot->place;
  }
  // An atomic on a cell says nothing of the session.
  if (record.outcome == Outcome::kOk && Makes(record.type) && record.type != OpType::kCompareSwap &&
      record.type != OpType::kAddOrCreate) {
    confirmed_ = true;
  }
  const bool answered = record.outcome != Outcome::kPending && record.outcome != Outcome::kNothing;
  if (answered && Writes(record.type) && !history::IsOfCounter(record.type)) answered_ns_ = record.end_ns;
  if (record.version != 0) versions_[static_cast<size_t>(slot->key)] = record.version;
  const int64_t late_ns = clock_.NowNs() - slot->due_ns - 2 * (stopped_ns_ - slot->stopped_ns);
  if (late_ns > slot->timeout_ns / 8 + 20'000'000) {  // a clock may be wrong by as much
    world_->Violate(absl::StrCat("an operation outlived its deadline by ", late_ns, " ns: ", ToString(record)));
  }
  if (operation.status.code() == absl::StatusCode::kDeadlineExceeded) SetUntil(*slot, &record);
  CheckSession(operation);
  if (world_->nesting > 0) ++world_->ended_in_pauses;
  slot->free = true;
  if (slot->must_answer && record.outcome != Outcome::kOk && record.outcome != Outcome::kNotFound &&
      record.outcome != Outcome::kWrongKind) {
    const bool counter = record.type == OpType::kReadCounter;
    next_read_ = std::min(next_read_, slot->key + (counter ? world_->plan.keys : 0));
  }
}

}  // namespace farlook::sim
