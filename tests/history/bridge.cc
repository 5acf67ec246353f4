#include "tests/history/bridge.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace farlook::history {
namespace {

// No search takes longer.
constexpr uint64_t kMaxSteps = 1 << 17;

// Small sets first: few of the unknown adds happen between two numbers that a client received.
class SubsetSearch {
 public:
  SubsetSearch(const std::vector<UnknownAdd>& adds, size_t most, bool* all) : most_(most), all_(all) {
    std::map<int64_t, std::vector<uint32_t>> by_delta;
    for (const auto& [add, delta] : adds) by_delta[delta].push_back(add);
    for (auto& [delta, alike] : by_delta) groups_.push_back({delta, std::move(alike)});
    // The largest first: then the sum of the remaining ones is soon too small.
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return std::abs(a.delta) > std::abs(b.delta); });
    for (size_t i = 0; i < groups_.size(); ++i) group_of_[groups_[i].delta] = i;
  }

  std::vector<std::vector<uint32_t>> Run(size_t adds, int64_t sum) {
    for (size_t size = 1; size <= adds && *all_; ++size) From(0, 0, sum, size);
    return std::move(found_);
  }

 private:
  struct Group {
    int64_t delta;
    std::vector<uint32_t> adds;
  };

  // Finds sets of `left` more adds, from the groups from `first` on, of whose adds `used` are taken.
  void From(size_t first, size_t used, int64_t rest, size_t left) {
    if (++steps_ > kMaxSteps || found_.size() >= most_) {
      *all_ = false;
      return;
    }
    if (left == 1) {
      const auto last = group_of_.find(rest);
      if (last == group_of_.end() || last->second < first) return;
      const std::vector<uint32_t>& adds = groups_[last->second].adds;
      const size_t next = last->second == first ? used : 0;
      if (next == adds.size()) return;
      found_.push_back(taken_);
      found_.back().push_back(adds[next]);
      return;
    }
    for (size_t i = first; i < groups_.size() && *all_; ++i) {
      const Group& group = groups_[i];
      if (std::abs(rest) / static_cast<int64_t>(left) > std::abs(group.delta)) return;
      const size_t next = i == first ? used : 0;
      if (next == group.adds.size()) continue;
      taken_.push_back(group.adds[next]);
      From(i, next + 1, rest - group.delta, left - 1);
      taken_.pop_back();
    }
  }

  const size_t most_;
  bool* const all_;
  std::vector<Group> groups_;
  std::map<int64_t, size_t> group_of_;
  std::vector<uint32_t> taken_;
  std::vector<std::vector<uint32_t>> found_;
  uint64_t steps_ = 0;
};

}  // namespace

std::vector<std::vector<uint32_t>> SetsWithSum(const std::vector<UnknownAdd>& adds, int64_t sum, size_t most,
                                               bool* all) {
  bool these = true;
  auto sets = SubsetSearch(adds, most, &these).Run(adds.size(), sum);
  *all = *all && these;
  return sets;
}

}  // namespace farlook::history
