// Decides whether an operation may be next in a state, and which state it leads to.
#include "tests/history/search.h"
#include "tests/history/values.h"

namespace farlook::history {
uint64_t VersionMet(const Operation& operation) {
  if (IsOfCounter(operation.type)) return 0;
  if (operation.type == Type::kCompareAndSet &&
      (operation.outcome == Outcome::kOk || operation.outcome == Outcome::kPending)) {
    return operation.expected;
  }
  const bool changed = operation.outcome == Outcome::kOk && operation.type != Type::kGet;
  return changed || operation.outcome == Outcome::kPending ? 0 : operation.version;
}

// A write whose version no client received has the version that the first operation that saw it returns, unless that
// version belongs to another write.
bool Search::HasVersion(const Entry& entry, State state) const {
  const uint64_t met = VersionMet(*entry.operation);
  if (met == 0) return true;
  if (version_of_[state] != 0) return version_of_[state] == met;
  return entry.loose != 0 && (bound_ == entry.loose || (bound_ == 0 && loose_[entry.loose].placed == 0));
}

// Returns whether no other operation must still see the key's value before that entry changes it.
bool Search::MayBeOverwritten(const Entry& entry, State state) const {
  if (!IsValue(state)) return true;
  if (needed_[state] > (!entry.optional && entry.needs == state ? 1u : 0u)) return false;
  const uint32_t loose = bound_ != 0 ? bound_ : entry.loose;
  return loose == 0 || loose_[loose].left <= (!entry.optional && entry.loose == loose ? 1u : 0u);
}

// Returns whether a counter would have given this answer in that state.
bool Search::FitsCounter(const Entry& entry, State state) const {
  const Operation& operation = *entry.operation;
  if (operation.outcome == Outcome::kWrongKind) return IsValue(state);
  if (operation.type == Type::kCreateCounter && !entry.reads) return state == kAbsent;
  if (operation.type == Type::kAddOrCreate && state == kAbsent) {
    return !HasCounterValue(operation) || operation.counter == operation.expected_counter;
  }
  if (!IsCounter(state)) return false;
  if (HasCounterValue(operation)) return state == CounterIs(operation.counter);
  // An operation of unknown outcome.
  return operation.type != Type::kCompareSwap || state == CounterIs(operation.expected_counter);
}

// Returns whether the key would have given this answer in that state.
bool Search::Fits(const Entry& entry, State state) const {
  const Operation& operation = *entry.operation;
  if (operation.outcome == Outcome::kNotFound) return state == kAbsent && operation.type != Type::kAddOrCreate;
  if (operation.type == Type::kWipe || operation.type == Type::kExpire) return true;
  if (IsOfCounter(operation.type)) return FitsCounter(entry, state);
  if (operation.outcome == Outcome::kWrongKind) return IsCounter(state);
  if (IsCounter(state)) return false;
  if (operation.type == Type::kPut) return true;
  if (operation.type == Type::kInsert && !entry.reads) return state == kAbsent;
  if (state == kAbsent) return false;  // all others met the key
  if (entry.found != 0) return state == entry.found;
  if (entry.reads) {
    if (operation.outcome == Outcome::kMismatch &&
        (version_of_[state] == operation.expected || operation.version == operation.expected)) {
      return false;
    }
  }
  return HasVersion(entry, state);
}

State Search::After(const Entry& entry, State state) const {
  switch (entry.operation->type) {
    case Type::kCreateCounter:
    case Type::kCompareSwap:
      return CounterIs(entry.operation->operand);
    case Type::kFetchAdd:
      return CounterIs(NumberOf(state) + entry.operation->operand);
    case Type::kAddOrCreate: {
      const int64_t before = IsCounter(state) ? NumberOf(state) : entry.operation->expected_counter;
      return CounterIs(before + entry.operation->operand);
    }
    case Type::kExpire:
      return state == entry.expires ? kAbsent : state;
    default:
      return entry.writes;
  }
}

}  // namespace farlook::history
