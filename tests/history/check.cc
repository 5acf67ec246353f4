#include "tests/history/check.h"

#include <algorithm>
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
  return operation.type != Type::kCompareAndSet &&
         (!IsOfCounter(operation.type) || operation.type == Type::kDeleteCounter);
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
  };
  // An operation that has effects, or says something.
  struct Entry {
    const Operation* operation;
    int64_t end_ns;      // of what may take effect at any later time: never
    bool optional;       // it may never have taken effect
    bool reads;          // never changes the key
    State writes;        // state afterwards, if it makes the key a value, or absent
    uint32_t found = 0;  // state that it must meet, 0 if it does not say
    uint32_t needs = 0;  // the same, also where only the version says so
    uint32_t later = 0;  // links of the entries not yet placed, in order of begin
    uint32_t earlier = 0;
    bool alike = false;  // optional, and nothing tells it from others of its type that have begun
  };

  bool Prepare(std::string* why);
  bool HasVersion(State state, uint64_t version) const;
  bool Fits(const Entry& entry, State state) const;
  bool FitsCounter(const Entry& entry, State state) const;
  State After(const Entry& entry, State state) const;
  // An add that may have happened, or not, and that nobody was told of.
  static bool IsUnknownAdd(const Entry& entry) { return entry.optional && entry.operation->type == Type::kFetchAdd; }
  void ChoicesAt(State state, Frame* frame);
  void AddBridges(State state, int64_t first_end_ns, Frame* frame);
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
  bool began_anew_ = false;
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

bool Search::Prepare(std::string* why) {
  std::vector<const Operation*> order;
  for (const Operation& operation : history_) order.push_back(&operation);
  std::stable_sort(order.begin(), order.end(),
                   [](const Operation* a, const Operation* b) { return a->begin_ns < b->begin_ns; });
  version_of_.push_back(0);
  for (const Operation* operation : order) {
    if (operation->write == 0) continue;
    states_[operation->write] = static_cast<uint32_t>(version_of_.size());
    version_of_.push_back(operation->outcome == Outcome::kOk ? operation->version : 0);
  }
  // A write has one version, whoever was told.
  for (const Operation* operation : order) {
    if (operation->found == 0) continue;
    const uint32_t state = StateOf(operation->found);
    if (state == ~0u) {
      *why = absl::StrCat("found a value that nobody wrote: ", ToString(*operation));
      return false;
    }
    uint64_t& version = version_of_[state];
    if (version == 0) version = operation->version;
    if (operation->version != 0 && version != operation->version) {
      *why = absl::StrCat("found with version ", operation->version, " what has version ", version, ": ",
                          ToString(*operation));
      return false;
    }
  }
  std::unordered_set<uint64_t> found;
  std::unordered_set<uint64_t> bases;  // of counters: what they were created or swapped as, and somebody was told
  for (const Operation* operation : order) {
    if (operation->found != 0) found.insert(operation->found);
    if (TellsCounter(*operation)) bases.insert(WriteOfNumber(operation->counter));
    if (operation->type == Type::kCompareSwap) bases.insert(WriteOfNumber(operation->expected_counter));
    began_anew_ = began_anew_ || operation->type == Type::kWipe;
  }
  for (uint32_t state = 1; state < version_of_.size(); ++state) {
    if (version_of_[state] == 0) continue;
    const auto [other, fresh] = versions_.emplace(version_of_[state], state);
    if (fresh || began_anew_) continue;
    *why = absl::StrCat("two writes have version ", other->first);
    return false;
  }
  needed_.resize(version_of_.size());
  entries_.push_back({nullptr, kNever, false, false, kAbsent});
  for (const Operation* operation : order) {
    if (operation->outcome == Outcome::kNothing) continue;
    const bool optional = operation->outcome == Outcome::kPending;
    Entry entry{operation, optional ? kNever : operation->end_ns, optional, false, kAbsent};
    entry.reads = operation->type == Type::kGet || operation->type == Type::kReadCounter ||
                  (operation->outcome != Outcome::kOk && !optional);
    if (entry.reads && entry.optional) continue;  // a get that never ended
    const bool unseen = optional && IsOfCounter(operation->type) && bases.count(WriteOfNumber(operation->operand)) == 0;
    if (unseen && operation->type == Type::kCompareSwap) continue;  // without it nobody is told anything else
    if (operation->write != 0) entry.writes = StateOf(operation->write);
    if (operation->found != 0) entry.found = StateOf(operation->found);
    entry.alike = optional && (IsAlike(*operation) || (unseen && operation->type == Type::kCreateCounter)) &&
                  found.count(operation->write) == 0;
    entry.needs = entry.found;
    const uint64_t met = operation->type == Type::kCompareAndSet && !entry.reads ? operation->expected
                         : entry.reads                                           ? operation->version
                                                                                 : 0;
    if (const auto state = versions_.find(met); state != versions_.end() && !began_anew_) entry.needs = state->second;
    if (!entry.optional) {
      ++required_;
      ++needed_[entry.needs];
    }
    entries_.push_back(entry);
  }
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    entries_[i].later = i + 1 < entries_.size() ? i + 1 : 0;
    entries_[i].earlier = i > 0 ? i - 1 : static_cast<uint32_t>(entries_.size()) - 1;
  }
  return true;
}

// A write that nobody was told the version of may have any that is not another's. Versions count anew when the table
// does.
bool Search::HasVersion(State state, uint64_t version) const {
  if (version_of_[state] != 0) return version_of_[state] == version;
  return began_anew_ || versions_.count(version) == 0;
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
  if (operation.type == Type::kWipe) return true;
  if (IsOfCounter(operation.type)) return FitsCounter(entry, state);
  if (operation.outcome == Outcome::kWrongKind) return IsCounter(state);
  if (IsCounter(state)) return false;
  if (operation.type == Type::kPut) return true;
  if (operation.type == Type::kInsert && !entry.reads) return state == kAbsent;
  if (state == kAbsent) return false;  // all others met the key
  if (entry.found != 0) return state == entry.found;
  if (entry.reads) {
    if (operation.outcome == Outcome::kMismatch && version_of_[state] == operation.expected) return false;
    return operation.version == 0 || HasVersion(state, operation.version);
  }
  return operation.type != Type::kCompareAndSet || HasVersion(state, operation.expected);
}

State Search::After(const Entry& entry, State state) const {
  switch (entry.operation->type) {
    case Type::kCreateCounter:
    case Type::kCompareSwap:
      return CounterIs(entry.operation->operand);
    case Type::kFetchAdd:
      return CounterIs(NumberOf(state) + entry.operation->operand);
    default:
      return entry.writes;
  }
}

void Search::Place(uint32_t i) {
  Entry& entry = entries_[i];
  entries_[entry.earlier].later = entry.later;
  entries_[entry.later].earlier = entry.earlier;
  placed_a_ ^= Scramble(2 * i + 1);
  placed_b_ ^= Scramble(~uint64_t{i} * 0x9e3779b97f4a7c15);
  if (!entry.optional) {
    --required_;
    --needed_[entry.needs];
  }
  ++placed_;
}

void Search::Unplace(uint32_t i) {
  Entry& entry = entries_[i];
  entries_[entry.earlier].later = i;
  entries_[entry.later].earlier = i;
  placed_a_ ^= Scramble(2 * i + 1);
  placed_b_ ^= Scramble(~uint64_t{i} * 0x9e3779b97f4a7c15);
  if (!entry.optional) {
    ++required_;
    ++needed_[entry.needs];
  }
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

// What may be next in a state, among what changes the key.
void Search::ChoicesAt(State state, Frame* frame) {
  std::vector<uint32_t>& choices = frame->choices;
  const Operation* first = nullptr;  // what must come soon
  bool tried[kTypes] = {};           // of those alike, one of each type is enough
  int64_t first_end_ns = kNever;
  for (uint32_t i = entries_[0].later; i != 0 && entries_[i].operation->begin_ns <= first_end_ns;
       i = entries_[i].later) {
    const Entry& entry = entries_[i];
    if (first == nullptr || entry.end_ns < first_end_ns) first = entry.operation;
    first_end_ns = std::min(first_end_ns, entry.end_ns);
    if (entry.reads || !Fits(entry, state)) continue;
    if (IsUnknownAdd(entry)) continue;  // see AddBridges
    if (IsValue(state) && needed_[state] > (!entry.optional && entry.needs == state ? 1u : 0u)) continue;
    if (entry.alike && std::exchange(tried[static_cast<size_t>(entry.operation->type)], true)) continue;
    choices.push_back(i);
  }
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
  if (IsCounter(state)) AddBridges(state, first_end_ns, frame);
}

// From this number of a counter, unknown adds may lead to one that somebody was told, or that an unknown swap expects.
void Search::AddBridges(State state, int64_t first_end_ns, Frame* frame) {
  std::vector<UnknownAdd> adds;
  std::vector<int64_t> targets;
  for (uint32_t i = entries_[0].later; i != 0 && entries_[i].operation->begin_ns <= first_end_ns;
       i = entries_[i].later) {
    const Entry& entry = entries_[i];
    const Operation& operation = *entry.operation;
    if (IsUnknownAdd(entry)) {
      adds.emplace_back(i, operation.operand);
    } else if (TellsCounter(operation)) {
      targets.push_back(operation.counter);
    } else if (operation.type == Type::kCompareSwap && entry.optional) {
      targets.push_back(operation.expected_counter);
    }
  }
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

// Whatever fits without changing anything, and may be next.
void Search::PlaceReads(State state, std::vector<uint32_t>* placed) {
  bool again = true;
  while (again) {
    again = false;
    int64_t first_end_ns = kNever;
    for (uint32_t i = entries_[0].later; i != 0 && entries_[i].operation->begin_ns <= first_end_ns;
         i = entries_[i].later) {
      first_end_ns = std::min(first_end_ns, entries_[i].end_ns);
      if (!entries_[i].reads || !Fits(entries_[i], state)) continue;
      Place(i);
      placed->push_back(i);
      again = true;
    }
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
    frame.placed = std::exchange(placed, {});
    if (seen.emplace(placed_a_, placed_b_ ^ Scramble(state + 77)).second) ChoicesAt(state, &frame);
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
    if (choice < entries_.size()) {
      Place(choice);
      placed.push_back(choice);
      state = After(entries_[choice], state);
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
  if (!Prepare(&result.why)) {
    result.verdict = Verdict::kViolation;
    return result;
  }
  const bool found = Explore(&result.why);
  result.steps = steps_;
  if (!found) result.verdict = steps_ > max_steps_ || !all_tried_ ? Verdict::kGaveUp : Verdict::kViolation;
  return result;
}

}  // namespace

CheckResult Check(const KeyHistory& history, uint64_t max_steps) { return Search(history, max_steps).Run(); }

}  // namespace farlook::history
