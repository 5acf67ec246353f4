#include "tests/history/bridge.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace farlook::history {
namespace {

// No search takes longer.
constexpr uint64_t kMaxSteps = 1 << 16;

class SubsetSearch {
 public:
  SubsetSearch(std::vector<UnknownAdd> adds, size_t most, bool* all) : adds_(std::move(adds)), most_(most), all_(all) {
    // The largest first: then what the rest can still do is soon too little.
    std::stable_sort(adds_.begin(), adds_.end(), [](const UnknownAdd& a, const UnknownAdd& b) {
      const int64_t x = std::abs(a.second), y = std::abs(b.second);
      return x != y ? x > y : a.second > b.second;
    });
    up_.resize(adds_.size() + 1);
    down_.resize(adds_.size() + 1);
    for (size_t i = adds_.size(); i-- > 0;) {
      up_[i] = up_[i + 1] + std::max<int64_t>(0, adds_[i].second);
      down_[i] = down_[i + 1] + std::min<int64_t>(0, adds_[i].second);
    }
  }

  std::vector<std::vector<uint32_t>> Run(int64_t sum) {
    From(0, sum);
    return std::move(found_);
  }

 private:
  void From(size_t i, int64_t rest) {
    if (++steps_ > kMaxSteps || found_.size() >= most_) {
      *all_ = false;
      return;
    }
    // Nobody sees what adds nothing: a set ends where the sum is right.
    if (rest == 0) {
      found_.push_back(taken_);
      return;
    }
    if (i == adds_.size() || rest > up_[i] || rest < down_[i]) return;
    taken_.push_back(adds_[i].first);
    From(i + 1, rest - adds_[i].second);
    taken_.pop_back();
    // Without this one, without all that are like it.
    size_t next = i + 1;
    while (next < adds_.size() && adds_[next].second == adds_[i].second) ++next;
    From(next, rest);
  }

  std::vector<UnknownAdd> adds_;
  const size_t most_;
  bool* const all_;
  std::vector<int64_t> up_, down_;  // what those from i on add up to at most and at least
  std::vector<uint32_t> taken_;
  std::vector<std::vector<uint32_t>> found_;
  uint64_t steps_ = 0;
};

}  // namespace

std::vector<std::vector<uint32_t>> SetsWithSum(std::vector<UnknownAdd> adds, int64_t sum, size_t most, bool* all) {
  return SubsetSearch(std::move(adds), most, all).Run(sum);
}

}  // namespace farlook::history
