#include "client/cli/cluster/slot_plan.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace farlook::cli {
namespace {

using Groups = std::vector<GroupSlots>;

constexpr size_t kNone = SIZE_MAX;

// Decides how many slots each group gives or takes; the slots are chosen later.
class Amounts {
 public:
  explicit Amounts(const Groups& groups) : before_(groups.size()), after_(groups.size()) {
    for (size_t i = 0; i < groups.size(); ++i) before_[i] = after_[i] = groups[i].slots.count();
  }

  size_t of(size_t group) const { return after_[group]; }
  void Move(size_t from, size_t to) {
    --after_[from];
    ++after_[to];
  }
  // The first of those with the most, or the fewest, except `other`.
  size_t Most(size_t other = kNone) const {
    return Best(other, [this](size_t a, size_t b) { return after_[a] > after_[b]; });
  }
  size_t Fewest(size_t other = kNone) const {
    return Best(other, [this](size_t a, size_t b) { return after_[a] < after_[b]; });
  }

  struct Part {
    size_t group = 0, count = 0;
  };
  // The groups that give, or take, and their amounts; the greatest first, so that equal amounts are adjacent.
  std::vector<Part> Givers() const { return Parts(before_, after_); }
  std::vector<Part> Takers() const { return Parts(after_, before_); }

 private:
  template <typename Better>
  size_t Best(size_t other, Better better) const {
    size_t best = kNone;
    for (size_t i = 0; i < after_.size(); ++i) {
      if (i != other && (best == kNone || better(i, best))) best = i;
    }
    return best;
  }

  static std::vector<Part> Parts(const std::vector<size_t>& more, const std::vector<size_t>& less) {
    std::vector<Part> parts;
    for (size_t i = 0; i < more.size(); ++i) {
      if (more[i] > less[i]) parts.push_back({i, more[i] - less[i]});
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.count > b.count; });
    return parts;
  }

  std::vector<size_t> before_, after_;
};

size_t Length(const kv::SlotRange& range) { return range.last - range.first + 1; }
bool IsBefore(const kv::SlotRange& range, const kv::SlotSet& slots) {
  return range.last + 1 < kv::kClusterSlots && slots[range.last + 1];
}
bool IsBehind(const kv::SlotRange& range, const kv::SlotSet& slots) {
  return range.first > 0 && slots[range.first - 1];
}

// Takes whole ranges, the longest first, until one is long enough for the rest. Of those that are, it prefers one of
// the exact length, then one that can be cut where it touches a range of `to`, then the longest. So at most one range
// is cut, and one piece of it remains.
kv::SlotSet Take(size_t count, const kv::SlotSet& from, const kv::SlotSet& to) {
  std::vector<kv::SlotRange> ranges = kv::RangesOf(from);
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const kv::SlotRange& a, const kv::SlotRange& b) { return Length(a) > Length(b); });
  kv::SlotSet taken;
  const auto take = [&](const kv::SlotRange& range) {
    for (size_t slot = range.first; slot <= range.last; ++slot) taken.set(slot);
    count -= Length(range);
  };
  auto longest = ranges.begin();
  while (count > Length(*longest)) take(*longest++);
  const kv::SlotSet near = to | taken;
  const auto rank = [&](const kv::SlotRange& range) {
    if (Length(range) == count) return 2;
    return Length(range) > count && (IsBefore(range, near) || IsBehind(range, near)) ? 1 : 0;
  };
  kv::SlotRange range = *std::max_element(
      longest, ranges.end(), [&](const kv::SlotRange& a, const kv::SlotRange& b) { return rank(a) < rank(b); });
  if (IsBefore(range, near)) {
    range.first = range.last + 1 - count;
  } else {
    range.last = range.first + count - 1;
  }
  take(range);
  return taken;
}

std::vector<SlotMove> MovesOf(const Amounts& amounts, Groups groups) {
  std::vector<SlotMove> moves;
  std::vector<Amounts::Part> givers = amounts.Givers(), takers = amounts.Takers();
  for (size_t g = 0, t = 0; g < givers.size();) {
    GroupSlots& from = groups[givers[g].group];
    GroupSlots& to = groups[takers[t].group];
    const size_t count = std::min(givers[g].count, takers[t].count);
    const kv::SlotSet slots = Take(count, from.slots, to.slots);
    from.slots &= ~slots;
    to.slots |= slots;
    moves.push_back({from.name, to.name, slots});
    if ((givers[g].count -= count) == 0) ++g;
    if ((takers[t].count -= count) == 0) ++t;
  }
  return moves;
}

void Sort(Groups* groups) {
  std::sort(groups->begin(), groups->end(), [](const GroupSlots& a, const GroupSlots& b) { return a.name < b.name; });
}

size_t IndexOf(absl::string_view name, const Groups& groups) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [name](const GroupSlots& group) { return group.name == name; });
  return found == groups.end() ? kNone : static_cast<size_t>(found - groups.begin());
}

}  // namespace

std::vector<SlotMove> PlanBalance(Groups groups) {
  if (groups.empty()) return {};
  Sort(&groups);
  Amounts amounts(groups);
  // A group that gives has more than the average, and ends with no less than that, rounded down: none both gives and
  // takes.
  for (;;) {
    const size_t most = amounts.Most(), fewest = amounts.Fewest();
    if (amounts.of(most) - amounts.of(fewest) <= 1) return MovesOf(amounts, std::move(groups));
    amounts.Move(most, fewest);
  }
}

std::vector<SlotMove> PlanShare(absl::string_view group, Groups groups) {
  Sort(&groups);
  const size_t taker = IndexOf(group, groups);
  if (taker == kNone) return {};
  Amounts amounts(groups);
  size_t sum = 0;
  for (size_t i = 0; i < groups.size(); ++i) sum += amounts.of(i);
  while (amounts.of(taker) < sum / groups.size()) amounts.Move(amounts.Most(taker), taker);
  return MovesOf(amounts, std::move(groups));
}

std::vector<SlotMove> PlanRemoval(absl::string_view group, Groups groups) {
  Sort(&groups);
  const size_t giver = IndexOf(group, groups);
  if (giver == kNone || groups.size() == 1) return {};
  Amounts amounts(groups);
  while (amounts.of(giver) > 0) amounts.Move(giver, amounts.Fewest(giver));
  return MovesOf(amounts, std::move(groups));
}

std::vector<SlotMove> CutToFit(const std::vector<SlotMove>& moves, size_t max_text_bytes) {
  std::vector<SlotMove> pieces;
  for (const SlotMove& move : moves) {
    pieces.push_back({move.from, move.to, {}});
    for (const kv::SlotRange& range : kv::RangesOf(move.slots)) {
      kv::SlotSet longer = pieces.back().slots;
      for (size_t slot = range.first; slot <= range.last; ++slot) longer.set(slot);
      if (kv::FormatSlots(longer).size() > max_text_bytes) {
        longer &= ~pieces.back().slots;
        pieces.push_back({move.from, move.to, {}});
      }
      pieces.back().slots = longer;
    }
  }
  return pieces;
}

Groups SlotsAfter(Groups groups, const std::vector<SlotMove>& moves) {
  for (const SlotMove& move : moves) {
    for (GroupSlots& group : groups) {
      if (group.name == move.from) group.slots &= ~move.slots;
      if (group.name == move.to) group.slots |= move.slots;
    }
  }
  return groups;
}

}  // namespace farlook::cli
