#include "kv/table/table.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/cache/piece_marks.h"
#include "kv/heap/compactor.h"
#include "kv/heap/heap.h"
#include "kv/heap/partition_locks.h"
#include "kv/index/segment_pool.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/size_class.h"
#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {

absl::StatusOr<std::unique_ptr<Table>> Table::Create(absl::Span<char> region, const TableOptions& options) {
  if (region.size() < kMinRegionBytes || region.size() > kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a region of ", region.size(), " bytes: it must have ",
                                                   kMinRegionBytes >> 20, " MiB to ", kMaxRegionBytes >> 40, " TiB"));
  }
  if (options.partitions < 1 || options.partitions > kMaxPartitions ||
      !std::has_single_bit(static_cast<unsigned>(options.partitions))) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.partitions, " partitions: it must be a power of two up to 64"));
  }
  if (options.max_value_bytes > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("values of up to ", options.max_value_bytes, " bytes: the limit is ", kMaxValueBytes));
  }
  if (options.first_version >= kMaxFirstVersion) return absl::InvalidArgumentError("first version above 2^47");
  if (options.incarnation == 0) return absl::InvalidArgumentError("incarnation 0");
  region = region.subspan(0, region.size() / kPageBytes * kPageBytes);
  RegionHeader header = RegionHeader::For(region.size(), options.partitions);
  header.incarnation = options.incarnation;
  header.hash_seed = options.hash_seed;
  header.level = std::max(kStepBits, std::countr_zero(static_cast<unsigned>(options.partitions)));
  WriteRegionHeader(region.data(), header);
  StoreWord(region.data() + header.MarksOf(0) + kMaxValueMark, options.max_value_bytes);
  auto table = std::unique_ptr<Table>(new Table(region, options, header));
  if (table->marks_ != nullptr && !table->marks_->ok()) {
    return absl::ResourceExhaustedError(
        "no memory for what a cache knows of its items: give it less memory, or evict "
        "nothing");
  }
  if (!table->segments_->ok()) return absl::ResourceExhaustedError("no memory for what is known of segments");
  for (auto& partition : table->partitions_) {
    if (!partition->Init()) {
      return absl::InvalidArgumentError(absl::StrCat("a region of ", region.size(), " bytes has no room for ",
                                                     options.partitions, " partitions: give it more memory"));
    }
  }
  return table;
}

Table::Table(absl::Span<char> region, const TableOptions& options, const RegionHeader& header)
    : region_(region),
      options_(options),
      hasher_(options.hash_seed),
      partition_bits_(std::countr_zero(static_cast<unsigned>(options.partitions))) {
  heap_ = std::make_unique<Heap>(region_.data(), header);
  if (options.keeps_expired) heap_->KeepForCopies();
  locks_ = std::make_unique<PartitionLocks>(options.partitions);
  compactor_ = std::make_unique<Compactor>(heap_.get(), locks_.get());
  directory_ = std::make_unique<SharedDirectory>(region_.data(), header);
  segments_ = std::make_unique<SegmentPool>(region_.size(), heap_.get(), directory_.get());
  if (options.evict) marks_ = std::make_unique<PieceMarks>(region_.size());
  for (int i = 0; i < options.partitions; ++i) {
    partitions_.push_back(std::make_unique<Partition>(region_, &hasher_, heap_.get(), compactor_.get(), segments_.get(),
                                                      directory_.get(), marks_.get(), static_cast<uint64_t>(i),
                                                      partition_bits_, options_));
    compactor_->Add(partitions_.back().get());
  }
}

Table::~Table() = default;

int Table::partitions() const { return options_.partitions; }

WriteResult Table::Touch(uint64_t hash, absl::string_view key, uint64_t expiry_ms, int64_t now_ns) {
  return partitions_[PartitionOf(hash)]->Touch(hash, key, expiry_ms, now_ns);
}

WriteResult Table::Delete(uint64_t hash, absl::string_view key, Condition condition, uint64_t version, int64_t now_ns) {
  return partitions_[PartitionOf(hash)]->Delete(hash, key, condition, version, now_ns);
}

WriteResult Table::Erase(uint64_t hash, absl::string_view key, bool has_expired, int64_t now_ns) {
  return partitions_[PartitionOf(hash)]->Erase(hash, key, has_expired, now_ns);
}

WriteResult Table::Get(uint64_t hash, absl::string_view key, ItemView* item) const {
  return partitions_[PartitionOf(hash)]->Get(hash, key, item);
}

WriteResult Table::InsertCounter(uint64_t hash, absl::string_view key, uint64_t cell, uint64_t expiry_ms,
                                 int64_t now_ns) {
  if (Pretends()) [[unlikely]]
    return {Code::kMakingRoom, 0, Slot()};
  return partitions_[PartitionOf(hash)]->InsertCounter(hash, key, cell, expiry_ms, now_ns);
}

WriteResult Table::DeleteCounter(uint64_t hash, absl::string_view key, int64_t now_ns) {
  return partitions_[PartitionOf(hash)]->DeleteCounter(hash, key, now_ns);
}

TidyResult Table::Tidy(int partition, int64_t now_ns) {
  const TidyResult result = partitions_[static_cast<size_t>(partition)]->Tidy(now_ns);
  return result == TidyResult::kNothing && segments_->waiting() ? TidyResult::kWaits : result;
}

bool Table::untidy() const { return segments_->waiting(); }

Code Table::FindCounter(uint64_t hash, absl::string_view key, uint64_t* cell) const {
  ItemView item;
  const WriteResult found = Get(hash, key, &item);
  if (found.code != Code::kOk) return found.code;
  if (item.kind != ItemKind::kCounter) return Code::kWrongKind;
  *cell = LoadWord(item.value.data());
  return Code::kOk;
}

Code Table::Reserve(uint64_t hash, absl::string_view key, uint64_t value_bytes, Reservation* reservation,
                    int64_t now_ns, bool may_step, uint8_t flags, ItemKind kind) {
  if (Pretends()) [[unlikely]]
    return Code::kMakingRoom;
  return partitions_[PartitionOf(hash)]->Reserve(hash, key, value_bytes, {kind, flags}, reservation, now_ns, may_step);
}

Code Table::ReserveCopy(uint64_t hash, absl::string_view key, uint64_t value_bytes, uint64_t version,
                        Reservation* reservation, int64_t now_ns, uint8_t flags, ItemKind kind, Reach reach) {
  if (Pretends()) [[unlikely]]
    return Code::kMakingRoom;
  return partitions_[PartitionOf(hash)]->ReserveCopy(hash, key, value_bytes, version, reservation, now_ns,
                                                     {kind, flags}, reach);
}

Code Table::SetAsideForIndex(uint64_t units, int partition, int64_t now_ns) {
  heap_->SetAsideForIndex(units);
  return units == 0 ? Code::kOk : partitions_[static_cast<size_t>(partition)]->SetAside(now_ns);
}

Room Table::RoomForCopies() const {
  // A long piece finds contiguous units at once, or units that moving frees. Others may lie in between, so there must
  // be several times as many.
  constexpr uint64_t kUnitsForOne = 3;
  const uint64_t sure = compactor_->SureUnits(), left = heap_->LeftOfCopies();
  const uint64_t units = sure - std::min(sure, left), bytes = units * kUnitBytes;
  const uint64_t after_bytes = (bytes - std::min(bytes, kLargeShape.bytes())) / kUnitsForOne;
  return {bytes, std::max(heap_->LongestCopy(units), after_bytes)};
}

bool Table::AwaitsPublish() const { return heap_->SpareAwaitsItem(); }

void Table::ForgetStuck() { compactor_->ForgetStuck(); }

WriteResult Table::Publish(const Reservation& reservation, const PutParams& params, int64_t now_ns) {
  if (Pretends()) [[unlikely]]
    return {Code::kMakingRoom, 0, Slot()};
  return partitions_[PartitionOf(reservation.hash)]->Publish(reservation, params, now_ns);
}

void Table::Abandon(const Reservation& reservation) {
  partitions_[PartitionOf(reservation.hash)]->Abandon(reservation);
}

bool Table::Touched(Slot slot) {
  return marks_ != nullptr && slot.ValidIn(region_.size()) && marks_->Touch(slot.offset());
}

size_t Table::Touched(const TouchedLocations& touched) {
  constexpr size_t kAhead = 16;  // overlaps cache misses
  if (marks_ == nullptr) return 0;
  size_t known = 0;
  for (size_t i = 0; i < touched.size() + kAhead; ++i) {
    if (i < touched.size() && touched.slot(i).ValidIn(region_.size())) marks_->Prefetch(touched.slot(i).offset());
    if (i >= kAhead) known += Touched(touched.slot(i - kAhead));
  }
  return known;
}

uint64_t Table::NewestVersion(int partition) const {
  return partitions_[static_cast<size_t>(partition)]->newest_version();
}

int Table::PartitionOfVersion(uint64_t version) const { return static_cast<int>(version & (partitions_.size() - 1)); }

void Table::RaiseVersions(uint64_t version) {
  partitions_[static_cast<size_t>(PartitionOfVersion(version))]->RaiseVersions(version);
}

bool Table::Walk(int partition, WalkPlace* place, size_t budget,
                 absl::FunctionRef<void(uint64_t hash, const ItemView& item)> see) const {
  return partitions_[static_cast<size_t>(partition)]->WalkItems(place, budget, see);
}

ExpiryIndex::Tick Table::ExpiryDue(int partition) const { return partitions_[partition]->expiry_due(); }

bool Table::Sweep(int partition, size_t budget, int64_t now_ns, std::vector<ExpiredItem>* left, bool to_now) {
  return partitions_[partition]->Sweep(budget, now_ns, left, to_now);
}

bool Table::Swept(int partition, uint64_t time_us) const { return partitions_[partition]->SweptUs() >= time_us; }

bool Table::Swept(uint64_t time_us) const { return compactor_->Swept(time_us); }

[[gnu::always_inline]] inline void Table::PrefetchBucketHere(KeyPlace* place) const {
  const uint64_t position = PositionOf(place->hash);
  partitions_[static_cast<size_t>(PartitionAt(position))]->LookAhead(position, place);
  __builtin_prefetch(place->bucket);
  __builtin_prefetch(place->bucket + kLineBytes);
}

void Table::PrefetchBucket(KeyPlace* place) const { PrefetchBucketHere(place); }

void Table::PrefetchItem(KeyPlace* place) const { partitions_[PartitionOf(place->hash)]->PrefetchItem(place); }

void Table::Prefetch(absl::Span<KeyPlace> places) const {
  for (KeyPlace& place : places) PrefetchBucketHere(&place);
  for (KeyPlace& place : places) partitions_[PartitionOf(place.hash)]->PrefetchItem(&place);
}

// The store must be visible before the caller reads the clock: that time decides when a successor may serve.
void Table::ShowEpoch(EpochWord word) { StoreWordFenced(region_.data() + kEpochWordOffset, word.bits()); }

TableStats Table::stats() const {
  TableStats stats;
  for (const auto& partition : partitions_) partition->AddTo(&stats);
  stats.region_bytes = region_.size();
  const HeapStats heap = heap_->stats();
  for (size_t i = 0; i < stats.blocks.size(); ++i) {
    const HeapStats::Kind& kind = heap.kinds[i];
    stats.blocks[i] = {kind.blocks, kind.bytes, kind.used_bytes};
    stats.used_bytes += kind.used_bytes;
  }
  stats.free_bytes = heap.free_bytes;
  stats.reserve_bytes = heap.reserve_bytes;
  stats.overhead_bytes = heap.overhead_bytes;
  stats.reclaimable_bytes = compactor_->reclaimable_bytes();
  constexpr uint64_t kHead = kItemHeaderBytes + kMaxKeyBytes;
  const uint64_t most_bytes = SizeClassBytes(SizeClassFor(ItemBytes(kMaxKeyBytes, options_.max_value_bytes)));
  const auto value_in = [&](uint64_t bytes) {
    if (bytes <= kHead) return uint64_t{0};
    SizeClass piece = SizeClassFor(bytes);
    if (SizeClassBytes(piece) > bytes) --piece;
    return std::min(std::max(SizeClassBytes(piece), kHead) - kHead, options_.max_value_bytes);
  };
  const uint64_t now_bytes = heap_->LongestPiece(most_bytes);
  stats.largest_value_bytes = value_in(now_bytes);
  // A promise: after moving, pieces may not fill their blocks, and items that cannot be moved may be in the way.
  const uint64_t after_bytes = compactor_->LongestPiece(most_bytes) / 2;
  const uint64_t margin_bytes = std::max(kLargeShape.bytes(), region_.size() / 32);
  stats.largest_after_bytes = value_in(std::max(now_bytes, after_bytes - std::min(after_bytes, margin_bytes)));
  stats.level = directory_->level();
  stats.index_bytes = segments_->unit_bytes() + (uint64_t{8} << stats.level);
  stats.segment_bytes = segments_->segment_bytes();
  stats.segments = directory_->segments();
  return stats;
}

}  // namespace farlook::kv
