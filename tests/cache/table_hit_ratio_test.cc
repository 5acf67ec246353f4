// Eviction, measured by the hits that are left: a table whose readers report every fourth get, against caches that know
// of every get. The same through servers and clients: hit_ratio_test.cc.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/common/cache_trace.h"
#include "bench/common/reference_caches.h"
#include "gtest/gtest.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::cache {
namespace {

constexpr uint64_t kValueBytes = 2000, kItemBytes = 2140;

class TableCache {
 public:
  TableCache(uint64_t items, int partitions) : memory_(RegionFor(items)) {
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 42;
    options.partitions = partitions;
    options.evict = true;
    table_ = *kv::Table::Create(memory_.span(), options);
    reader_ = std::make_unique<kv::TestReader>(memory_.span());
  }

  bool Get(uint64_t key) {
    now_ns_ += 1000;
    if (!reader_->Get(Name(key)).has_value()) return false;
    if (++gets_ % 4 == 0) table_->Touched(reader_->lookup().slot());
    return true;
  }
  void Put(uint64_t key, bool refill) {
    now_ns_ += 1000;
    const std::string name = Name(key);
    kv::PutParams params;
    params.refill = refill;
    kv::WriteResult result;
    do {
      result = table_->Put(table_->HashOf(name), name, std::string(kValueBytes, 'v'), params, now_ns_);
    } while (result.code == kv::Code::kMakingRoom);
    ASSERT_EQ(result.code, kv::Code::kOk);
  }
  uint64_t items() const { return table_->stats().keys; }
  kv::TableStats stats() const { return table_->stats(); }

 private:
  static uint64_t RegionFor(uint64_t items) {
    return std::max<uint64_t>(items * kItemBytes + (4 << 20), 16 << 20) / (2 << 20) * (2 << 20);
  }
  static std::string Name(uint64_t key) { return std::to_string(key); }

  kv::TestMemory memory_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<kv::TestReader> reader_;
  uint64_t gets_ = 0;
  int64_t now_ns_ = 0;
};

TEST(TableHitRatioTest, IsNearThatOfCachesThatKnowAll) {
  const bool full = std::getenv("FARLOOK_FULL_LENGTH") != nullptr;
  const uint64_t keys = full ? 1'000'000 : 100'000, steps = full ? 10'000'000 : 300'000;
  int partitions = 1;
  for (bench::CacheWorkload workload : bench::CacheWorkloads(keys)) {
    if (!full && workload.share < .07) workload.share = .07;  // the smallest region has room for this many
    TableCache table(static_cast<uint64_t>(static_cast<double>(keys) * workload.share), partitions);
    const double ours = bench::HitRatio(workload, steps, table);
    const double lru = bench::HitRatio(workload, steps, bench::LruCache(table.items()));
    const double s3 = bench::HitRatio(workload, steps, bench::S3FifoCache(table.items()));
    std::printf("%-16s %d partitions, %6llu items: %.1f, LRU %.1f, S3-FIFO %.1f; %llu ghosts, %llu bytes of metadata\n",
                workload.name, partitions, static_cast<unsigned long long>(table.items()), ours, lru, s3,
                static_cast<unsigned long long>(table.stats().ghost_hits),
                static_cast<unsigned long long>(table.stats().eviction_bytes));
    std::fflush(stdout);
    // A short run is judged while eviction still learns which new items are wanted.
    EXPECT_GE(ours, lru - .5 - (full ? 0 : 1)) << workload.name;
    EXPECT_GE(ours, s3 - 3.5) << workload.name;
    partitions = partitions == 4 ? 1 : 2 * partitions;
  }
}

}  // namespace
}  // namespace farlook::cache
