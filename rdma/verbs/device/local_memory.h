// The registered memory of one endpoint: maps addresses to local keys.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_LOCAL_MEMORY_H_
#define FARLOOK_RDMA_VERBS_DEVICE_LOCAL_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace farlook::rdma::verbs {

// Thread safety: none. Finding costs a comparison for the range found last, otherwise a binary search.
class LocalMemory {
 public:
  struct Range {
    const char* begin = nullptr;
    const char* end = nullptr;
    uint32_t lkey = 0;
    bool lands_reads = false;  // READs may fetch into it: always except on iWARP, see bounce.h
  };

  void Add(const Range& range) {
    ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), range, Before), range);
    last_ = Range();
  }

  void Remove(const char* begin) {
    Range gone;
    gone.begin = begin;
    const auto found = std::lower_bound(ranges_.begin(), ranges_.end(), gone, Before);
    if (found != ranges_.end() && found->begin == begin) ranges_.erase(found);
    last_ = Range();
  }

  void Clear() {
    ranges_.clear();
    last_ = Range();
  }

  // Valid until Add(), Remove(), Clear() or the next Find(). Null: not registered, or not entirely in one range.
  const Range* Find(const char* data, uint64_t bytes) {
    if (FindLast(data, bytes) != nullptr) return &last_;
    Range wanted;
    wanted.begin = data;
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), wanted, Before);
    if (after == ranges_.begin()) return nullptr;
    const Range& found = *(after - 1);
    if (!Holds(found, data, bytes)) return nullptr;
    last_ = found;
    return &last_;
  }
  // The same, but null also if it is not the range found last.
  const Range* FindLast(const char* data, uint64_t bytes) const { return Holds(last_, data, bytes) ? &last_ : nullptr; }

 private:
  static bool Before(const Range& a, const Range& b) { return a.begin < b.begin; }
  static bool Holds(const Range& range, const char* data, uint64_t bytes) {
    return data >= range.begin && data < range.end && bytes <= static_cast<uint64_t>(range.end - data);
  }

  std::vector<Range> ranges_;  // sorted by begin; no two overlap
  Range last_;                 // the one found last, or empty
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_LOCAL_MEMORY_H_
