// The layout of a group's tables, as stored in the records of groups and of clusters. It must be equal for one table to
// follow another, or to take its items with their versions. The first server chooses the number of partitions.
//
//     bits 31..24: kRecordFormat | 23..16: kv::kLayoutVersion | 15..0: partitions |
#ifndef FARLOOK_CLUSTER_TABLE_LAYOUT_H_
#define FARLOOK_CLUSTER_TABLE_LAYOUT_H_

#include <cstdint>

#include "kv/layout/limits.h"
#include "kv/layout/region.h"

namespace farlook::cluster {

// The format of the records that members send each other (record.h).
inline constexpr uint32_t kRecordFormat = 3;

class TableLayout {
 public:
  TableLayout() = default;  // of no table
  explicit constexpr TableLayout(uint32_t word) : word_(word) {}

  // The layout of this release's tables. REQUIRES 1 <= partitions <= kv::kMaxPartitions.
  static constexpr TableLayout Of(int partitions) {
    static_assert(kRecordFormat < 1u << 8 && kv::kLayoutVersion < 1u << 8 && kv::kMaxPartitions < 1 << 16);
    return TableLayout(kRecordFormat << 24 | static_cast<uint32_t>(kv::kLayoutVersion) << 16 |
                       static_cast<uint32_t>(partitions));
  }

  constexpr uint32_t word() const { return word_; }
  constexpr bool empty() const { return word_ == 0; }
  constexpr int partitions() const { return static_cast<int>(word_ & 0xffff); }
  // Returns whether they differ at most in the number of partitions, which each table can choose.
  constexpr bool IsLike(TableLayout other) const { return word_ >> 16 == other.word_ >> 16; }

  bool operator==(const TableLayout&) const = default;

 private:
  uint32_t word_ = 0;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_TABLE_LAYOUT_H_
