#include "tests/history/check.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/history/bridge.h"
#include "tests/history/search.h"

namespace farlook::history {
namespace {

// The most sets of unknown adds that are tried between one number of a counter and another.
constexpr size_t kMostBridges = 8;

}  // namespace

// Calls `visit` for each entry that has no predecessor left, in order of begin; it may place it.
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

// Counts an entry that certainly took effect: it is placed, or no longer.
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

// REQUIRES it was placed last.
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

// Finds the entries that may be next in a state, among those that change the key or decide something. They decide which
// version the key's value has, or that an operation did not happen in its time.
void Search::ChoicesAt(State state, Frame* frame) {
  std::vector<uint32_t>& choices = frame->choices;
  std::vector<uint32_t> deciding;    // one for each version, the first to begin
  std::vector<Tried> tried;          // of those alike
  const Operation* first = nullptr;  // what must follow soon
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
    if (IsUnknownAdd(entry)) return;                                                          // see AddBridges
    if (operation.type == Type::kExpire && entry.optional && state != entry.expires) return;  // changes nothing
    if (After(entry, state) != state && !MayBeOverwritten(entry, state)) return;
    if (entry.alike) {
      // An entry that began first in its session, and may not follow later than the other, is as good.
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
  // The likely one last: the least version, since versions grow where there is one server; then the one that ends
  // early.
  std::sort(choices.begin(), choices.end(), [this](uint32_t x, uint32_t y) {
    const uint64_t x_version = VersionWritten(x), y_version = VersionWritten(y);
    if (x_version != y_version) return x_version > y_version;
    return entries_[x].end_ns != entries_[y].end_ns ? entries_[x].end_ns > entries_[y].end_ns : x > y;
  });
  // Deletes have none. They are placed between the first and the second choice.
  const auto versioned =
      std::find_if(choices.begin(), choices.end(), [this](uint32_t x) { return VersionWritten(x) != ~0ull; });
  const auto deletes = std::stable_partition(
      choices.begin(), versioned, [this](uint32_t x) { return entries_[x].optional || entries_[x].writes != kAbsent; });
  if (choices.end() - versioned > 1) std::rotate(deletes, versioned, choices.end() - 1);
  if (IsCounter(state)) AddBridges(state, frame);
  choices.insert(choices.end(), deciding.begin(), deciding.end());
}

// From this number of a counter, unknown adds may lead to one that a client received, or that an unknown swap expects.
void Search::AddBridges(State state, Frame* frame) {
  std::vector<UnknownAdd> adds;
  std::vector<int64_t> targets;
  ForEachNext([&](uint32_t i) {
    const Entry& entry = entries_[i];
    const Operation& operation = *entry.operation;
    if (IsUnknownAdd(entry)) {
      adds.emplace_back(i, operation.operand);
    } else if (HasCounterValue(operation)) {
      targets.push_back(operation.counter);
    } else if (operation.type == Type::kCompareSwap && entry.optional) {
      targets.push_back(operation.expected_counter);
    }
  });
  if (adds.empty()) return;
  // In the order of the requests, each once.
  std::vector<int64_t> done = {NumberOf(state)};
  // Before entries that certainly happened and fit as they are, behind all others.
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

CheckResult Check(const KeyHistory& history, uint64_t max_steps) { return Search(history, max_steps).Run(); }

}  // namespace farlook::history
