#include "tests/history/check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/history/bridge.h"
#include "tests/history/state.h"
#include "tests/history/values.h"

namespace farlook::history {
namespace {

// Sets of unknown adds that are tried between one number of a counter and another.
constexpr size_t kMostBridges = 8;

// Whether, if it was never seen, it might as well have been any other of its type.
bool IsAlike(const Operation& operation) {
  return operation.type != Type::kCompareAndSet && operation.type != Type::kExpire &&
         (!IsOfCounter(operation.type) || operation.type == Type::kDeleteCounter);
}

// The version that the key's value had when the operation met it, which it says; 0: it does not.
uint64_t VersionMet(const Operation& operation) {
  if (IsOfCounter(operation.type)) return 0;
  if (operation.type == Type::kCompareAndSet &&
      (operation.outcome == Outcome::kOk || operation.outcome == Outcome::kPending)) {
    return operation.expected;
  }
  const bool changed = operation.outcome == Outcome::kOk && operation.type != Type::kGet;
  return changed || operation.outcome == Outcome::kPending ? 0 : operation.version;
}

// An operation, and the moments between which it took effect.
struct Timed {
  const Operation* operation;
  int64_t begin_ns, end_ns;  // the end of what may take effect at any later time: never
};

// By begin, and those of one client as they began: none of them began before one that it began earlier.
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

class Search {
 public:
  Search(const KeyHistory& history, uint64_t max_steps) : history_(history), max_steps_(max_steps) {}

  CheckResult Run();

 private:
  // A place from which the search goes on: what may come next there, and what was placed on the way to it.
  struct Frame {
    // By index of the entry; from the number of entries on, by index of a bridge. The best is the last.
    std::vector<uint32_t> choices;
    std::vector<uint32_t> placed;
    std::vector<std::vector<uint32_t>> bridges;
    State state;
    uint32_t bound;
  };
  // An operation that has effects, or says something.
  struct Entry {
    const Operation* operation;
    int64_t begin_ns;
    int64_t end_ns;        // of what may take effect at any later time: never
    bool optional;         // it may never have taken effect
    bool reads;            // never changes the key
    State writes;          // state afterwards, if it makes the key a value, or absent
    uint32_t found = 0;    // state that it must meet, 0 if it does not say
    uint32_t needs = 0;    // the same, also where only the version says so
    uint32_t loose = 0;    // index of the version that it met, where that is not known to be any write's
    uint32_t client = 0;   // index
    uint32_t session = 0;  // index; 0: concurrent ones are in any order
    uint32_t later = 0;    // links of the entries not yet placed, in order of begin
    uint32_t earlier = 0;
    State expires = kAbsent;  // of a kExpire: which value ends
    bool alike = false;       // optional, and nothing tells it from others of its type that have begun
  };
  // A version that somebody was told, of a write whose own outcome is unknown.
  struct Loose {
    uint32_t left = 0;    // of those that certainly met it, not yet placed
    uint32_t placed = 0;  // of all that met it
  };
  // Those of a type and session that were tried as the next one.
  struct Tried {
    Type type;
    uint32_t session;
    int64_t until_ns;
  };

  bool PrepareWrites(const std::vector<Timed>& order, std::string* why);
  bool PrepareVersions(std::string* why);
  void PrepareEntries(const std::vector<Timed>& order);
  Entry EntryOf(const Timed& timed) const;
  template <typename Visit>
  void ForEachNext(Visit visit);
  bool HasVersion(const Entry& entry, State state) const;
  // Whether it would be the first to say which version the key's value has.
  bool Binds(const Entry& entry) const { return entry.loose != 0 && bound_ == 0; }
  // Whether what may yet have happened happens now or never. Both only while ForEachNext() visits the entry.
  bool IsTooLateForSome(const Entry& entry) const { return entry.begin_ns > soonest_until_ns_; }
  bool MayBeOverwritten(const Entry& entry, State state) const;
  bool Fits(const Entry& entry, State state) const;
  bool FitsCounter(const Entry& entry, State state) const;
  State After(const Entry& entry, State state) const;
  // An add that may have happened, or not, and that nobody was told of.
  static bool IsUnknownAdd(const Entry& entry) { return entry.optional && entry.operation->type == Type::kFetchAdd; }
  void ChoicesAt(State state, Frame* frame);
  void AddBridges(State state, Frame* frame);
  void PlaceReads(State state, std::vector<uint32_t>* placed);
  bool Explore(std::string* why);
  std::string Stuck() const;
  // What a write's version is, if anybody was told.
  uint64_t VersionWritten(uint32_t i) const {
    const uint64_t version = version_of_[entries_[i].writes];
    return version != 0 ? version : ~0ull;
  }
  void Place(uint32_t i);
  void Unplace(uint32_t i);
  void Count(uint32_t i, bool placed);
  uint32_t StateOf(uint64_t write) const {
    const auto found = states_.find(write);
    return found == states_.end() ? ~0u : found->second;
  }

  const KeyHistory& history_;
  const uint64_t max_steps_;
  uint64_t steps_ = 0;
  std::vector<Entry> entries_;  // [0] is head and tail of the list
  std::unordered_map<uint64_t, uint32_t> states_;
  std::vector<uint64_t> version_of_;                 // by state; 0: nobody was told
  std::unordered_map<uint64_t, uint32_t> versions_;  // states by their version, where it is known
  // How many must still meet each state: none may overwrite it before. It never comes again.
  std::vector<uint32_t> needed_;
  std::vector<Loose> loose_;           // [0] is none
  uint32_t bound_ = 0;                 // which of them the key's present value was found to have
  std::vector<uint64_t> first_ended_;  // by client: of what is not placed, the earliest end in its own order
  int64_t soonest_until_ns_ = kNever;  // of what is not placed and may be, as far as visited
  std::vector<bool> held_up_;          // by session: a write that certainly took effect is not placed
  // Of what is placed, one for each in the order of placing: the latest begin; and by session the latest write.
  std::vector<int64_t> latest_begin_ns_;
  std::vector<std::vector<uint64_t>> latest_write_;
  size_t required_ = 0;  // not placed, and not optional

  // Which entries are placed, as a hash: the XOR of random numbers, one for each. The memory holds 128 bits.
  static uint64_t Scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t placed_a_ = 0, placed_b_ = 0;
  uint32_t most_placed_ = 0, placed_ = 0;
  bool all_tried_ = true;        // no set of unknown adds was left out
  State stuck_state_ = kAbsent;  // where the longest attempt ended, and before what
  const Operation* stuck_ = nullptr;
};

// Numbers the states, and learns the version of each write from whoever was told.
bool Search::PrepareWrites(const std::vector<Timed>& order, std::string* why) {
  version_of_.push_back(0);
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    if (operation.write == 0) continue;
    states_[operation.write] = static_cast<uint32_t>(version_of_.size());
    version_of_.push_back(operation.outcome == Outcome::kOk ? operation.version : 0);
  }
  // A write has one version, whoever was told.
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

// A version is of one write, also where the table began anew in between: it then counts from a random number.
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
  std::unordered_set<uint64_t> bases;  // of counters: what they were created or swapped as, and somebody was told
  for (const Timed& timed : order) {
    const Operation& operation = *timed.operation;
    if (operation.found != 0) found.insert(operation.found);
    if (TellsCounter(operation)) bases.insert(WriteOfNumber(operation.counter));
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
    if (unseen && operation.type == Type::kCompareSwap) continue;  // without it nobody is told anything else
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

// Calls `visit` for each entry that nothing else has to come before, in order of begin; it may place it.
template <typename Visit>
void Search::ForEachNext(Visit visit) {
  std::fill(first_ended_.begin(), first_ended_.end(), std::numeric_limits<uint64_t>::max());
  std::fill(held_up_.begin(), held_up_.end(), false);
  soonest_until_ns_ = kNever;
  int64_t first_end_ns = kNever;
  for (uint32_t i = entries_[0].later; i != 0 && entries_[i].begin_ns <= first_end_ns; i = entries_[i].later) {
    const Entry& entry = entries_[i];
    const Operation& operation = *entry.operation;
    first_end_ns = std::min(first_end_ns, entry.end_ns);
    const bool in_time =
        !entry.optional || (operation.until_ns >= latest_begin_ns_.back() &&
                            (entry.session == 0 || operation.began > latest_write_[entry.session].back()));
    const bool next = operation.began == 0 || first_ended_[entry.client] > operation.began;
    const bool in_order = entry.session == 0 || !held_up_[entry.session];
    if (!entry.optional) {
      if (operation.ended != 0) {
        first_ended_[entry.client] = std::min(first_ended_[entry.client], operation.ended);
      }
      if (entry.session != 0) held_up_[entry.session] = true;
    }
    if (entry.optional && in_time) soonest_until_ns_ = std::min(soonest_until_ns_, operation.until_ns);
    if (in_time && next && in_order) visit(i);
  }
}

// A write that nobody was told the version of has the one that the first says who met it, unless that is another's.
bool Search::HasVersion(const Entry& entry, State state) const {
  const uint64_t met = VersionMet(*entry.operation);
  if (met == 0) return true;
  if (version_of_[state] != 0) return version_of_[state] == met;
  return entry.loose != 0 && (bound_ == entry.loose || (bound_ == 0 && loose_[entry.loose].placed == 0));
}

// Whether nobody else must still meet the key's value before that entry changes it.
bool Search::MayBeOverwritten(const Entry& entry, State state) const {
  if (!IsValue(state)) return true;
  if (needed_[state] > (!entry.optional && entry.needs == state ? 1u : 0u)) return false;
  const uint32_t loose = bound_ != 0 ? bound_ : entry.loose;
  return loose == 0 || loose_[loose].left <= (!entry.optional && entry.loose == loose ? 1u : 0u);
}

// Whether a counter would have said this, the key being in that state.
bool Search::FitsCounter(const Entry& entry, State state) const {
  const Operation& operation = *entry.operation;
  if (operation.outcome == Outcome::kWrongKind) return IsValue(state);
  if (operation.type == Type::kCreateCounter && !entry.reads) return state == kAbsent;
  if (!IsCounter(state)) return false;
  if (TellsCounter(operation)) return state == CounterIs(operation.counter);
  // Of unknown outcome.
  return operation.type != Type::kCompareSwap || state == CounterIs(operation.expected_counter);
}

// Whether the key would have said this, being in that state.
bool Search::Fits(const Entry& entry, State state) const {
  const Operation& operation = *entry.operation;
  if (operation.outcome == Outcome::kNotFound) return state == kAbsent;
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
    case Type::kExpire:
      return state == entry.expires ? kAbsent : state;
    default:
      return entry.writes;
  }
}

// Of what certainly took effect: it is placed, or not any more.
void Search::Count(uint32_t i, bool placed) {
  const Entry& entry = entries_[i];
  const uint32_t one = placed ? ~0u : 1u;
  required_ += placed ? ~size_t{0} : 1;
  needed_[entry.needs] += one;
  loose_[entry.loose].left += one;
}

void Search::Place(uint32_t i) {
  Entry& entry = entries_[i];
  entries_[entry.earlier].later = entry.later;
  entries_[entry.later].earlier = entry.earlier;
  placed_a_ ^= Scramble(2 * i + 1);
  placed_b_ ^= Scramble(~uint64_t{i} * 0x9e3779b97f4a7c15);
  if (!entry.optional) Count(i, /*placed=*/true);
  ++loose_[entry.loose].placed;
  latest_begin_ns_.push_back(std::max(latest_begin_ns_.back(), entry.begin_ns));
  if (entry.session != 0) {
    std::vector<uint64_t>& latest = latest_write_[entry.session];
    latest.push_back(entry.reads ? latest.back() : std::max(latest.back(), entry.operation->began));
  }
  ++placed_;
}

// REQUIRES it was the last to be placed.
void Search::Unplace(uint32_t i) {
  Entry& entry = entries_[i];
  entries_[entry.earlier].later = i;
  entries_[entry.later].earlier = i;
  placed_a_ ^= Scramble(2 * i + 1);
  placed_b_ ^= Scramble(~uint64_t{i} * 0x9e3779b97f4a7c15);
  if (!entry.optional) Count(i, /*placed=*/false);
  --loose_[entry.loose].placed;
  latest_begin_ns_.pop_back();
  if (entry.session != 0) latest_write_[entry.session].pop_back();
  --placed_;
}

std::string Search::Stuck() const {
  std::string is = "absent";
  if (IsCounter(stuck_state_)) is = absl::StrCat("a counter of ", NumberOf(stuck_state_));
  for (const auto& [write, state] : states_) {
    if (state == stuck_state_) is = absl::StrCat("#", write);
  }
  return absl::StrCat("with the key being ", is, ", this cannot come next: ", ToString(*stuck_));
}

// What may be next in a state, among what changes the key, or decides something: which version the key's value has, or
// that something did not happen in its time.
void Search::ChoicesAt(State state, Frame* frame) {
  std::vector<uint32_t>& choices = frame->choices;
  std::vector<uint32_t> deciding;    // one for each version, the first to begin
  std::vector<Tried> tried;          // of those alike
  const Operation* first = nullptr;  // what must come soon
  int64_t first_end_ns = kNever;
  ForEachNext([&](uint32_t i) {
    const Entry& entry = entries_[i];
    const Operation& operation = *entry.operation;
    if (first == nullptr || entry.end_ns < first_end_ns) {
      first = entry.operation;
      first_end_ns = entry.end_ns;
    }
    if (!Fits(entry, state)) return;
    if (entry.reads) {
      const auto same = [&](uint32_t other) { return entries_[other].loose == entry.loose; };
      if (!Binds(entry) && !IsTooLateForSome(entry)) return;  // see PlaceReads
      if (std::none_of(deciding.begin(), deciding.end(), same)) deciding.push_back(i);
      return;
    }
    if (IsUnknownAdd(entry)) return;  // see AddBridges
    if (After(entry, state) != state && !MayBeOverwritten(entry, state)) return;
    if (entry.alike) {
      // Who began first in its session, and may come no longer than the other, is as good.
      const auto as_good = [&](const Tried& other) {
        return other.type == operation.type && other.session == entry.session && other.until_ns <= operation.until_ns;
      };
      if (std::any_of(tried.begin(), tried.end(), as_good)) return;
      tried.push_back({operation.type, entry.session, operation.until_ns});
    }
    choices.push_back(i);
  });
  if (placed_ >= most_placed_) {
    most_placed_ = placed_;
    stuck_state_ = state;
    stuck_ = first;
  }
  // The likely one last: the least version, since versions grow where there is one server; then what ends early.
  std::sort(choices.begin(), choices.end(), [this](uint32_t x, uint32_t y) {
    const uint64_t x_version = VersionWritten(x), y_version = VersionWritten(y);
    if (x_version != y_version) return x_version > y_version;
    return entries_[x].end_ns != entries_[y].end_ns ? entries_[x].end_ns > entries_[y].end_ns : x > y;
  });
  // Deletes have none. They come between the first and the second choice.
  const auto versioned =
      std::find_if(choices.begin(), choices.end(), [this](uint32_t x) { return VersionWritten(x) != ~0ull; });
  const auto deletes = std::stable_partition(
      choices.begin(), versioned, [this](uint32_t x) { return entries_[x].optional || entries_[x].writes != kAbsent; });
  if (choices.end() - versioned > 1) std::rotate(deletes, versioned, choices.end() - 1);
  if (IsCounter(state)) AddBridges(state, frame);
  choices.insert(choices.end(), deciding.begin(), deciding.end());
}

// From this number of a counter, unknown adds may lead to one that somebody was told, or that an unknown swap expects.
void Search::AddBridges(State state, Frame* frame) {
  std::vector<UnknownAdd> adds;
  std::vector<int64_t> targets;
  ForEachNext([&](uint32_t i) {
    const Entry& entry = entries_[i];
    const Operation& operation = *entry.operation;
    if (IsUnknownAdd(entry)) {
      adds.emplace_back(i, operation.operand);
    } else if (TellsCounter(operation)) {
      targets.push_back(operation.counter);
    } else if (operation.type == Type::kCompareSwap && entry.optional) {
      targets.push_back(operation.expected_counter);
    }
  });
  if (adds.empty()) return;
  // In the order in which they were asked for, each once.
  std::vector<int64_t> done = {NumberOf(state)};
  // Before what certainly happened and fits as it is, behind all else.
  const auto certain =
      std::find_if(frame->choices.begin(), frame->choices.end(), [this](uint32_t i) { return !entries_[i].optional; });
  std::vector<uint32_t> choices;
  for (const int64_t target : targets) {
    if (std::find(done.begin(), done.end(), target) != done.end()) continue;
    done.push_back(target);
    for (auto& set : SetsWithSum(adds, target - NumberOf(state), kMostBridges, &all_tried_)) {
      choices.push_back(static_cast<uint32_t>(entries_.size() + frame->bridges.size()));
      frame->bridges.push_back(std::move(set));
    }
  }
  std::reverse(choices.begin(), choices.end());
  frame->choices.insert(certain, choices.begin(), choices.end());
}

// Whatever fits without changing or deciding anything, and may be next.
void Search::PlaceReads(State state, std::vector<uint32_t>* placed) {
  bool again = true;
  while (again) {
    again = false;
    ForEachNext([&](uint32_t i) {
      const Entry& entry = entries_[i];
      if (!entry.reads || Binds(entry) || IsTooLateForSome(entry) || !Fits(entry, state)) return;
      Place(i);
      placed->push_back(i);
      again = true;
    });
  }
}

// Depth first, with its own stack: histories are long.
bool Search::Explore(std::string* why) {
  struct PairHash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& p) const { return p.first; }
  };
  std::unordered_set<std::pair<uint64_t, uint64_t>, PairHash> seen;
  std::vector<Frame> stack;
  State state = kAbsent;
  std::vector<uint32_t> placed;
  while (true) {
    if (++steps_ > max_steps_) return false;
    PlaceReads(state, &placed);
    if (required_ == 0) return true;
    Frame& frame = stack.emplace_back();
    frame.state = state;
    frame.bound = bound_;
    frame.placed = std::exchange(placed, {});
    if (seen.emplace(placed_a_, placed_b_ ^ Scramble(state + 77) ^ Scramble(~uint64_t{bound_})).second)
      ChoicesAt(state, &frame);
    // The next choice of the last frame that has one.
    while (stack.back().choices.empty()) {
      Frame& last = stack.back();
      for (auto i = last.placed.rbegin(); i != last.placed.rend(); ++i) Unplace(*i);
      stack.pop_back();
      if (stack.empty()) {
        *why = Stuck();
        return false;
      }
    }
    Frame& last = stack.back();
    const uint32_t choice = last.choices.back();
    last.choices.pop_back();
    state = last.state;
    bound_ = last.bound;
    if (choice < entries_.size()) {
      const Entry& entry = entries_[choice];
      if (!entry.reads && (entry.expires == kAbsent || state == entry.expires)) bound_ = 0;
      if (entry.reads && entry.loose != 0) bound_ = entry.loose;
      Place(choice);
      placed.push_back(choice);
      if (!entry.reads) state = After(entry, state);
    } else {
      for (const uint32_t i : last.bridges[choice - entries_.size()]) {
        Place(i);
        placed.push_back(i);
        state = After(entries_[i], state);
      }
    }
  }
}

CheckResult Search::Run() {
  CheckResult result;
  const std::vector<Timed> order = InOrder(history_);
  if (!PrepareWrites(order, &result.why)) {
    result.verdict = Verdict::kViolation;
    return result;
  }
  PrepareEntries(order);
  const bool found = Explore(&result.why);
  result.steps = steps_;
  if (!found) result.verdict = steps_ > max_steps_ || !all_tried_ ? Verdict::kGaveUp : Verdict::kViolation;
  return result;
}

}  // namespace

CheckResult Check(const KeyHistory& history, uint64_t max_steps) { return Search(history, max_steps).Run(); }

}  // namespace farlook::history
