#include "bench/micro/table_space.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/common/key_name.h"
#include "bench/common/random.h"
#include "bench/micro/floor_memory.h"
#include "kv/layout/hash.h"
#include "kv/layout/limits.h"
#include "kv/read/directory.h"
#include "kv/read/lookup.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::bench {
namespace {

constexpr int64_t kSizes = 200;
constexpr int64_t kSmall = 1'000'000;  // keys
constexpr int kLookupsPerSize = 2000;
constexpr int64_t kNsPerWrite = 1000;

class SpaceTable {
 public:
  static absl::StatusOr<std::unique_ptr<SpaceTable>> Create(size_t region_bytes) {
    absl::StatusOr<FloorMemory> memory = FloorMemory::Map(region_bytes, PageSize::k2MiB);
    if (!memory.ok()) return memory.status();
    std::memset(memory->data(), 0, memory->size());
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 2;
    absl::StatusOr<std::unique_ptr<kv::Table>> table =
        kv::Table::Create(absl::MakeSpan(memory->data(), memory->size()), options);
    if (!table.ok()) return table.status();
    return std::unique_ptr<SpaceTable>(new SpaceTable(*std::move(memory), *std::move(table)));
  }

  kv::Code Put(int64_t number, absl::string_view value) {
    BuildKeyName(number, &key_);
    return table_->Put(table_->HashOf(key_), key_, value, kv::Condition::kAlways, 0, Tick()).code;
  }

  kv::Code Delete(int64_t number) {
    BuildKeyName(number, &key_);
    return table_->Delete(table_->HashOf(key_), key_, kv::Condition::kAlways, 0, Tick()).code;
  }

  // Puts keys from `first` on until there is no memory. Returns the number after the last, or an error.
  absl::StatusOr<int64_t> Fill(int64_t first, absl::string_view value) {
    while (true) {
      const kv::Code code = Put(first, value);
      if (code == kv::Code::kNoMemory) return first;
      if (code != kv::Code::kOk) return absl::InternalError(absl::StrCat("put: ", kv::CodeName(code)));
      ++first;
    }
  }

  // Average number of bucket READs of a lookup of one of the keys below `keys`; negative if one is not found.
  double BucketReads(int64_t keys, Random* random) {
    kv::Directory directory(memory_.size(), 1 << 20);
    kv::Directory::Step step = directory.Load();
    while (step == kv::Directory::Step::kRead) step = *directory.Feed(Bytes(directory.wanted()));
    const kv::ReaderContext context{&table_->hasher(), &directory, memory_.size()};
    int64_t reads = 0;
    for (int i = 0; i < kLookupsPerSize; ++i) {
      BuildKeyName(static_cast<int64_t>(random->Below(static_cast<uint64_t>(keys))), &key_);
      kv::Lookup::Step found = lookup_.Start(context, key_, table_->HashOf(key_));
      while (found == kv::Lookup::Step::kRead) found = lookup_.Feed(Bytes(lookup_.wanted()), /*late=*/false);
      if (found != kv::Lookup::Step::kFound) return -1;
      reads += lookup_.bucket_reads();
    }
    return static_cast<double>(reads) / kLookupsPerSize;
  }

  kv::TableStats stats() const { return table_->stats(); }

  // Keys' and values' share of the region.
  double Share() const {
    const kv::TableStats now = stats();
    return static_cast<double>(now.key_bytes + now.value_bytes) / static_cast<double>(now.region_bytes);
  }

 private:
  SpaceTable(FloorMemory memory, std::unique_ptr<kv::Table> table)
      : memory_(std::move(memory)), table_(std::move(table)) {}

  template <class Range>
  absl::string_view Bytes(const Range& range) const {
    return {memory_.data() + range.offset, range.bytes};
  }

  int64_t Tick() { return now_ns_ += kNsPerWrite; }

  FloorMemory memory_;
  std::unique_ptr<kv::Table> table_;
  int64_t now_ns_ = 0;  // the table's time
  kv::Lookup lookup_;
  std::string key_;
};

// Keys per slot. Buckets are counted from the segments' bytes, and the slots of a bucket are those that kv/ defines.
double Load(const kv::TableStats& stats) {
  const double buckets = static_cast<double>(stats.segment_bytes) / kv::kBucketBytes;
  return static_cast<double>(stats.keys) / (buckets * kv::kSlotsPerBucket);
}

}  // namespace

absl::StatusOr<IndexCost> MeasureIndex(size_t region_bytes, int64_t keys) {
  absl::StatusOr<std::unique_ptr<SpaceTable>> table = SpaceTable::Create(region_bytes);
  if (!table.ok()) return table.status();
  IndexCost cost;
  Random random(1);
  double sum = 0;
  int64_t samples = 0;
  const int64_t distance = std::max<int64_t>(1, keys / kSizes);
  for (int64_t i = 1; i <= keys; ++i) {
    const kv::Code code = (*table)->Put(i - 1, "8 bytes.");
    if (code != kv::Code::kOk) {
      return absl::ResourceExhaustedError(absl::StrCat("after ", i - 1, " keys: ", kv::CodeName(code)));
    }
    if (i % distance != 0) continue;
    const kv::TableStats stats = (*table)->stats();
    const double bytes_per_key = static_cast<double>(stats.index_bytes) / static_cast<double>(i);
    sum += bytes_per_key;
    ++samples;
    double& worst = i < kSmall ? cost.worst_bytes_per_key_small : cost.worst_bytes_per_key;
    worst = std::max(worst, bytes_per_key);
    cost.highest_load = std::max(cost.highest_load, Load(stats));
    const double reads = (*table)->BucketReads(i, &random);
    if (reads < 0) return absl::InternalError(absl::StrCat("a key is missing among ", i));
    if (reads > cost.worst_bucket_reads) {
      cost.worst_bucket_reads = reads;
      cost.worst_reads_load = Load(stats);
    }
  }
  cost.average_bytes_per_key = sum / static_cast<double>(samples);
  return cost;
}

absl::StatusOr<FillCost> MeasureFill(size_t region_bytes) {
  const std::string large(1000, 'l'), small(100, 's');
  FillCost cost;
  {
    absl::StatusOr<std::unique_ptr<SpaceTable>> table = SpaceTable::Create(region_bytes);
    if (!table.ok()) return table.status();
    const absl::StatusOr<int64_t> count = (*table)->Fill(0, large);
    if (!count.ok()) return count.status();
    cost.fresh = (*table)->Share();
  }
  absl::StatusOr<std::unique_ptr<SpaceTable>> table = SpaceTable::Create(region_bytes);
  if (!table.ok()) return table.status();
  const absl::StatusOr<int64_t> count = (*table)->Fill(0, small);
  if (!count.ok()) return count.status();
  for (int64_t i = 0; i < *count; ++i) {
    const kv::Code code = (*table)->Delete(i);
    if (code != kv::Code::kOk) return absl::InternalError(absl::StrCat("delete: ", kv::CodeName(code)));
  }
  const absl::StatusOr<int64_t> again = (*table)->Fill(*count, large);
  if (!again.ok()) return again.status();
  cost.reused = (*table)->Share();
  return cost;
}

absl::StatusOr<kv::RoomFigures> MeasureRoomOf(size_t region_bytes, int workers, kv::Mix mix) {
  constexpr uint64_t kOverwrites = 20'000;
  absl::StatusOr<FloorMemory> memory = FloorMemory::Map(region_bytes, PageSize::k2MiB);
  if (!memory.ok()) return memory.status();
  return kv::MeasureRoom(absl::MakeSpan(memory->data(), memory->size()),
                         {kv::PartitionsFor(region_bytes, workers), /*seed=*/1}, mix, kOverwrites);
}

}  // namespace farlook::bench
