// The data that a search computes before it begins.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/history/search.h"
#include "tests/history/values.h"

namespace farlook::history {
namespace {

// Returns whether the operation, if it was never seen, is equivalent to any other of its type.
bool IsAlike(const Operation& operation) {
  return operation.type != Type::kCompareAndSet && operation.type != Type::kExpire &&
         (!IsOfCounter(operation.type) || operation.type == Type::kDeleteCounter);
}

}  // namespace

std::vector<Timed> InOrder(const KeyHistory& history) {
  std::vector<Timed> order;
  std::map<int, std::vector<Timed*>> clients;
  for (const Operation& operation : history) {
    if (operation.outcome == Outcome::kNothing) continue;
    order.push_back(
        {&operation, operation.begin_ns, operation.outcome == Outcome::kPending ? kNever : operation.end_ns});
  }
  for (Timed& timed : order) {
    if (timed.operation->began != 0) clients[timed.operation->client].push_back(&timed);
  }
  for (auto& [client, all] : clients) {
    std::sort(all.begin(), all.end(),
              [](const Timed* a, const Timed* b) { return a->operation->began < b->operation->began; });
    int64_t latest_ns = std::numeric_limits<int64_t>::min();
    for (Timed* timed : all) timed->begin_ns = latest_ns = std::max(latest_ns, timed->begin_ns);
  }
  std::stable_sort(order.begin(), order.end(), [](const Timed& a, const Timed& b) {
    return std::tuple(a.begin_ns, a.operation->client, a.operation->began) <
           std::tuple(b.begin_ns, b.operation->client, b.operation->began);
  });
  return order;
}

// Numbers the states, and finds the version of each write in the answers.
bool Search::PrepareWrites(const std::vector<Timed>& order, std::string* why) {
  version_of_.push_back(0);
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    if (operation.write == 0) continue;
    states_[operation.write] = static_cast<uint32_t>(version_of_.size());
    version_of_.push_back(operation.outcome == Outcome::kOk ? operation.version : 0);
  }
  // A write has one version, in all answers.
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    if (operation.found == 0) continue;
    const uint32_t state = StateOf(operation.found);
    if (state == ~0u) {
      *why = absl::StrCat("found a value that nobody wrote: ", ToString(operation));
      return false;
    }
    uint64_t& version = version_of_[state];
    if (version == 0) version = operation.version;
    if (operation.version != 0 && version != operation.version) {
      *why = absl::StrCat("found with version ", operation.version, " what has version ", version, ": ",
                          ToString(operation));
      return false;
    }
  }
  return PrepareVersions(why);
}

// A version belongs to one write, also where the table began again in between: it then counts from a random number.
bool Search::PrepareVersions(std::string* why) {
  for (uint32_t state = 1; state < version_of_.size(); ++state) {
    if (version_of_[state] == 0) continue;
    const auto [other, fresh] = versions_.emplace(version_of_[state], state);
    if (fresh) continue;
    *why = absl::StrCat("two writes have version ", other->first);
    return false;
  }
  return true;
}

Search::Entry Search::EntryOf(const Timed& timed) const {
  const Operation& operation = *timed.operation;
  Entry entry{&operation, timed.begin_ns, timed.end_ns, operation.outcome == Outcome::kPending, false, kAbsent};
  entry.reads = operation.type == Type::kGet || operation.type == Type::kReadCounter ||
                (operation.outcome != Outcome::kOk && !entry.optional);
  if (operation.write != 0) entry.writes = StateOf(operation.write);
  if (operation.type == Type::kExpire) {
    entry.expires = StateOf(operation.found);
  } else if (operation.found != 0) {
    entry.found = StateOf(operation.found);
  }
  return entry;
}

void Search::PrepareEntries(const std::vector<Timed>& order) {
  std::unordered_set<uint64_t> found;
  std::unordered_set<uint64_t> bases;  // of counters: created or swapped numbers that a client received
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    if (operation.found != 0 && operation.type != Type::kExpire) found.insert(operation.found);
    if (HasCounterValue(operation)) bases.insert(WriteOfNumber(operation.counter));
    if (operation.type == Type::kCompareSwap) bases.insert(WriteOfNumber(operation.expected_counter));
  }
  std::map<int, uint32_t> clients;
  std::map<std::pair<int, uint64_t>, uint32_t> sessions;
  std::unordered_map<uint64_t, uint32_t> loose;
  needed_.resize(version_of_.size());
  loose_.emplace_back();
  entries_.push_back({nullptr, 0, kNever, false, false, kAbsent});
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    Entry entry = EntryOf(timed);
    if (entry.reads && entry.optional) continue;  // a get that never ended
    const bool unseen =
        entry.optional && IsOfCounter(operation.type) && bases.count(WriteOfNumber(operation.operand)) == 0;
    if (unseen && operation.type == Type::kCompareSwap) continue;  // without it no other answer changes
    entry.alike = entry.optional && (IsAlike(operation) || (unseen && operation.type == Type::kCreateCounter)) &&
                  found.count(operation.write) == 0;
    entry.needs = entry.found;
    const uint64_t met = entry.found != 0 ? 0 : VersionMet(operation);
    if (const auto state = versions_.find(met); state != versions_.end()) {
      entry.needs = state->second;
    } else if (met != 0) {
      entry.loose = loose.emplace(met, static_cast<uint32_t>(loose_.size())).first->second;
      loose_.resize(std::max<size_t>(loose_.size(), entry.loose + 1));
    }
    entry.client = clients.emplace(operation.client, static_cast<uint32_t>(clients.size())).first->second;
    if (operation.session != 0) {
      const auto next = static_cast<uint32_t>(sessions.size() + 1);
      entry.session = sessions.emplace(std::pair(operation.client, operation.session), next).first->second;
    }
    entries_.push_back(entry);
    if (!entry.optional) Count(static_cast<uint32_t>(entries_.size() - 1), /*placed=*/false);
  }
  first_ended_.resize(clients.size());
  held_up_.resize(sessions.size() + 1);
  latest_begin_ns_.push_back(std::numeric_limits<int64_t>::min());
  latest_write_.assign(sessions.size() + 1, {0});
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    entries_[i].later = i + 1 < entries_.size() ? i + 1 : 0;
    entries_[i].earlier = i > 0 ? i - 1 : static_cast<uint32_t>(entries_.size()) - 1;
  }
}

}  // namespace farlook::history
