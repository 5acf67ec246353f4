#include "kv/table/recovery.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/cache/piece_marks.h"
#include "kv/index/segment_pool.h"
#include "kv/index/shared_directory.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"
#include "kv/table/partition.h"

namespace farlook::kv {
namespace {

// Numbers of buckets: a bucket's items, and then their cells, are fetched so long before its turn.
constexpr uint32_t kItemsAhead = 4, kCellsAhead = 2;

uint64_t VersionOf(const char* item) { return LoadWord(item + kVersionOffset); }
ItemLengths LengthsOf(const char* item) { return ItemLengths::From(LoadWord(item + kLengthsOffset)); }
absl::string_view KeyOf(const char* item) { return {item + kItemHeaderBytes, LengthsOf(item).key_bytes}; }
uint64_t BytesOf(ItemLengths lengths) { return ItemBytes(lengths.key_bytes, lengths.value_bytes); }

absl::StatusOr<RegionHeader> HeaderOf(absl::Span<char> region) {
  const auto word = [&](uint64_t offset) { return LoadWord(region.data() + offset); };
  if (region.size() < kMinRegionBytes || region.size() > kMaxRegionBytes || word(0) != kRegionMagic) {
    return absl::FailedPreconditionError("no Farlook region");
  }
  if (word(8) != kLayoutVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a region of layout version ", word(8), ", and this server continues version ", kLayoutVersion));
  }
  auto header = DecodeRegionHeader(std::string(region.data(), kRegionHeaderBytes), kMaxRegionBytes);
  if (!header.ok()) return absl::DataLossError(header.status().message());
  if (header->region_bytes != region.size() / kPageBytes * kPageBytes) {
    return absl::FailedPreconditionError(absl::StrCat("a region of ", header->region_bytes, " bytes, in memory of ",
                                                      region.size(), " bytes: give the server the same memory"));
  }
  if (header->partitions < 1 || header->partitions > kMaxPartitions || !std::has_single_bit(header->partitions)) {
    return absl::DataLossError(absl::StrCat("region header: ", header->partitions, " partitions"));
  }
  const RegionHeader same = RegionHeader::For(header->region_bytes, static_cast<int>(header->partitions));
  if (header->directory_offset != same.directory_offset || header->marks_offset != same.marks_offset ||
      header->redo_offset != same.redo_offset || header->map_offset != same.map_offset ||
      header->map_entries != same.map_entries || header->incarnation == 0) {
    return absl::DataLossError("region header: the offsets are not those of this layout");
  }
  if (word(kEpochWordOffset) != 0) {
    return absl::FailedPreconditionError("the region of a group's member: it has writes that were never committed");
  }
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Table>> Recovery::Run(absl::Span<char> region, TableOptions options,
                                                     const RecoveryOptions& recovery, int64_t now_ns,
                                                     RecoveryReport* report) {
  const auto header = HeaderOf(region);
  if (!header.ok()) return header.status();
  options.incarnation = header->incarnation;
  options.hash_seed = header->hash_seed;
  options.partitions = static_cast<int>(header->partitions);
  if (options.max_value_bytes > kMaxValueBytes || options.first_version >= kMaxFirstVersion) {
    return absl::InvalidArgumentError("a value's limit, or a first version, above its limit");
  }
  auto table = std::unique_ptr<Table>(new Table(region.subspan(0, header->region_bytes), options, *header));
  if ((table->marks_ != nullptr && !table->marks_->ok()) || !table->segments_->ok()) {
    return absl::ResourceExhaustedError("no memory for what is known of items and segments");
  }
  *report = {};
  Recovery run(table.get(), *header, recovery, now_ns, report);
  if (absl::Status status = run.Read(); !status.ok()) return status;
  run.Write();
  return table;
}

Recovery::Recovery(Table* table, const RegionHeader& header, const RecoveryOptions& options, int64_t now_ns,
                   RecoveryReport* report)
    : table_(table),
      region_(table->region_.data()),
      header_(header),
      options_(options),
      now_ns_(now_ns),
      report_(report),
      directory_(region_, header, table->partition_bits_),
      heap_(table->heap_.get()) {}

absl::Status Recovery::Read() {
  if (absl::Status status = CheckMarks(); !status.ok()) return status;
  if (absl::Status status = heap_.Read(); !status.ok()) return status;
  if (absl::Status status = directory_.Read(); !status.ok()) return status;
  for (const Segment& segment : directory_.segments()) {
    if (heap_.IsIndexUnit(segment.offset)) continue;
    return absl::DataLossError(
        absl::StrCat("page map: the segment at ", segment.offset, " is in no unit of the index"));
  }
  return absl::OkStatus();
}

absl::Status Recovery::CheckMarks() const {
  const uint64_t most = LoadWord(region_ + header_.MarksOf(0) + kMaxValueMark);
  if (most != table_->options_.max_value_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("a table of values up to ", most, " bytes, and this server's are up to ",
                     table_->options_.max_value_bytes, ": give the server the same --max_value_bytes"));
  }
  for (uint64_t i = 0; i < header_.partitions; ++i) {
    const uint64_t versions = LoadWord(region_ + header_.MarksOf(i) + kVersionMark);
    if (versions != 0 && (versions >= kEndOfVersions || versions % header_.partitions != i)) {
      return absl::DataLossError(absl::StrCat("marks: the versions of partition ", i, " end at ", versions));
    }
  }
  return absl::OkStatus();
}

void Recovery::Write() {
  heap_.Adopt();
  directory_.Mend();
  report_->mended_entries = directory_.mended();
  const std::vector<Segment>& segments = directory_.segments();
  for (auto begin = segments.begin(); begin != segments.end();) {
    const int partition = table_->PartitionAt(begin->position);
    auto end = begin;
    while (end != segments.end() && table_->PartitionAt(end->position) == partition) ++end;
    ReadPartition(table_->partitions_[static_cast<size_t>(partition)].get(),
                  absl::MakeConstSpan(&*begin, static_cast<size_t>(end - begin)));
    begin = end;
  }
  RetireSegments();
  for (const auto& partition : table_->partitions_) EndMoves(*partition);
  EndDropped();
  heap_.Finish();
  // Copies of the directory may lead to a segment that was retired now.
  table_->directory_->IncreaseEpoch();
}

void Recovery::ReadPartition(Partition* partition, absl::Span<const Segment> segments) {
  for (const Segment& segment : segments) {
    const uint32_t keys = ReadSegment(partition, segment);
    partition->index_.Adopt(segment.offset, segment.position, segment.depth, keys);
  }
  // Noting an expiry may look at other items, so it follows when all were checked.
  for (const auto& [hash, expiry_ms] : expiries_) partition->NoteExpiry(hash, expiry_ms);
  expiries_.clear();
  partition->TakeIndexFigures();
  // All pieces are whole now.
  StoreWord(partition->marks_ + kRedoTarget, 0);
}

// Fetches the beginnings of a bucket's items, and their blocks.
void Recovery::PrefetchItems(const char* segment, uint32_t bucket) const {
  if (bucket >= kBuckets) return;
  for (uint32_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(segment + uint64_t{bucket} * kBucketBytes + 8 * i));
    if (!slot.ValidIn(header_.region_bytes)) continue;
    const char* const item = region_ + slot.offset();
    __builtin_prefetch(item);
    __builtin_prefetch(item + kItemHeaderBytes);  // the key
    heap_.PrefetchBlock(slot);
  }
}

void Recovery::PrefetchCells(const char* segment, uint32_t bucket) const {
  if (bucket >= kBuckets) return;
  for (uint32_t i = 1; i < kWordsPerBucket; ++i) {
    const Slot slot(LoadWord(segment + uint64_t{bucket} * kBucketBytes + 8 * i));
    if (slot.ValidIn(header_.region_bytes)) heap_.PrefetchCell(slot);
  }
}

// Returns the number of keys.
uint32_t Recovery::ReadSegment(Partition* partition, const Segment& segment) {
  char* const memory = region_ + segment.offset;
  uint32_t keys = 0;
  for (uint32_t bucket = 0; bucket < kItemsAhead; ++bucket) PrefetchItems(memory, bucket);
  for (uint32_t word = 0; word < kSegmentWords; ++word) {
    if (word % kWordsPerBucket == 0) {
      PrefetchItems(memory, word / kWordsPerBucket + kItemsAhead);
      PrefetchCells(memory, word / kWordsPerBucket + kCellsAhead);
      continue;
    }
    char* const at = memory + 8 * uint64_t{word};
    const Slot slot(LoadWord(at));
    if (slot.empty()) continue;
    uint64_t hash = 0;
    Verdict verdict = Judge(*partition, segment, word, slot, &hash);
    const bool claims = verdict == Verdict::kKeep || verdict == Verdict::kRedo;
    if (claims && !heap_.Claim(partition->number(), slot)) verdict = Verdict::kDrop;
    char* const item = region_ + slot.offset();
    switch (verdict) {
      case Verdict::kRedo:
        Redo(*partition, item);
        [[fallthrough]];
      case Verdict::kKeep:
        Keep(partition, slot, hash);
        ++keys;
        break;
      case Verdict::kEndCounter:
        StoreWord(item + kVersionOffset, VersionOf(item) | kDeadBit);
        StoreWord(at, 0);
        ++report_->ended_counters;
        break;
      case Verdict::kCopy:
        StoreWord(at, 0);
        ++report_->copies;
        break;
      case Verdict::kDrop:
        Drop(at, slot);
        break;
    }
  }
  return keys;
}

// A slot leads to a whole item, alive or not, or to one that the redo piece completes; else it is dropped. Nothing is
// stored.
Recovery::Verdict Recovery::Judge(const Partition& partition, const Segment& segment, uint32_t word, Slot slot,
                                  uint64_t* hash) const {
  if (!slot.ValidIn(header_.region_bytes) || !heap_.MayBe(partition.number(), slot)) return Verdict::kDrop;
  const char* item = region_ + slot.offset();
  const uint64_t version = VersionOf(item) & ~kDeadBit;
  if (version == 0 || version >= kEndOfVersions || version % header_.partitions != partition.prefix_) {
    return Verdict::kDrop;
  }
  Verdict verdict = Verdict::kKeep;
  if (!IsWhole(item, slot.bytes(), version, options_.verify || (VersionOf(item) & kDeadBit) != 0)) {
    if (!MayRedo(partition, slot)) return Verdict::kDrop;
    verdict = Verdict::kRedo;
    item = partition.redo_;
  }
  *hash = (*partition.hasher_)(KeyOf(item));
  if (slot.fingerprint() != FingerprintOf(*hash)) return Verdict::kDrop;
  const uint32_t main = BucketOf(*hash), bucket = word / kWordsPerBucket;
  if (bucket != main) {
    const uint32_t link = BucketInfo(LoadWord(region_ + segment.offset + uint64_t{main} * kBucketBytes)).link();
    if (link == 0 || bucket != LinkedBucket(link)) return Verdict::kDrop;
  }
  if ((PositionOf(*hash) ^ segment.position) >> (64 - segment.depth) != 0) return Verdict::kCopy;
  if (LengthsOf(item).kind == ItemKind::kCounter && options_.is_live != nullptr) {
    const uint64_t cell = LoadWord(item + ValueOffset(KeyOf(item).size()));
    if (!options_.is_live(cell)) return Verdict::kEndCounter;
  }
  return verdict;
}

// Returns whether the item is complete, if its version were alive and its expiry not being changed.
bool Recovery::IsWhole(const char* item, uint64_t bytes, uint64_t version, bool verify) const {
  const ItemLengths lengths = LengthsOf(item);
  if (!IsKeyLength(lengths.key_bytes) || BytesOf(lengths) > bytes || lengths.kind > ItemKind::kCounter ||
      (lengths.kind == ItemKind::kCounter && lengths.value_bytes != sizeof(uint64_t))) {
    return false;
  }
  const uint64_t expiry = LoadWord(item + kExpiryOffset);
  if (!ExpiryFits(version, expiry) && !ExpiryFits(version, InvertTag(expiry))) return false;
  if (!verify) return true;
  const absl::string_view head(reinterpret_cast<const char*>(&version), sizeof version);
  return table_->hasher_(head, {item + kLengthsOffset, BytesOf(lengths) - kLengthsOffset}) ==
         LoadWord(item + kChecksumOffset);
}

bool Recovery::MayRedo(const Partition& partition, Slot slot) const {
  const char* const redo = partition.redo_;
  const uint64_t version = VersionOf(region_ + slot.offset());
  return LoadWord(partition.marks_ + kRedoTarget) == slot.word() && (version & kDeadBit) != 0 &&
         VersionOf(redo) == version &&
         IsWhole(redo, std::min(kRedoBytes, slot.bytes()), version & ~kDeadBit, /*verify=*/true);
}

// Completes all but the version. The redo piece stays as it is, so this may be interrupted and repeated.
void Recovery::Redo(const Partition& partition, char* item) {
  const char* const redo = partition.redo_;
  for (uint64_t at = kLengthsOffset; at < BytesOf(LengthsOf(redo)); at += 8) StoreWord(item + at, LoadWord(redo + at));
  StoreWord(item + kChecksumOffset, LoadWord(redo + kChecksumOffset));
  StoreWord(item + kExpiryOffset, LoadWord(redo + kExpiryOffset));
  ++report_->redone;
}

// Takes over a whole item whose piece was claimed.
void Recovery::Keep(Partition* partition, Slot slot, uint64_t hash) {
  char* const item = region_ + slot.offset();
  const uint64_t stored = VersionOf(item), version = stored & ~kDeadBit;
  uint64_t expiry = LoadWord(item + kExpiryOffset);
  if (!ExpiryFits(version, expiry)) {
    expiry = InvertTag(expiry);
    StoreWord(item + kExpiryOffset, expiry);
    report_->revived += stored == version;
  }
  if (stored != version) {
    StoreWord(item + kVersionOffset, version);
    ++report_->revived;
  }
  partition->RaiseVersions(version);
  const ItemLengths lengths = LengthsOf(item);
  partition->keys_ += 1;
  partition->key_bytes_ += lengths.key_bytes;
  partition->value_bytes_ += lengths.value_bytes;
  if (ExpiryTimeMs(expiry) != 0) expiries_.emplace_back(hash, ExpiryTimeMs(expiry));
  if (partition->eviction_ != nullptr) {
    // Nothing is known of its uses, so it does not begin young, as a key that was just put would.
    partition->NoteWritten(hash, slot, lengths, /*refill=*/false, /*was_old=*/true, now_ns_);
  }
  ++report_->keys;
}

// A client that remembers an item whose slot is dropped must not find it any more. But the slot may be wrong where the
// item is right, so all memory that no slot names is searched at the end; the mark says so to a later recovery. What
// lies in a piece, after its item, is ended here.
void Recovery::Drop(char* at, Slot slot) {
  StoreWord(region_ + header_.MarksOf(0) + kDroppedSlots, 1);
  if (slot.ValidIn(header_.region_bytes)) {
    const uint64_t piece = heap_.PieceAt(slot.offset());
    char* const item = region_ + slot.offset();
    if (piece != 0 && slot.offset() >= piece + BytesOf(LengthsOf(region_ + piece))) {
      StoreWord(item + kVersionOffset, VersionOf(item) | kDeadBit);
    }
  }
  StoreWord(at, 0);
  ++report_->dropped;
}

void Recovery::EndDropped() {
  char* const mark = region_ + header_.MarksOf(0) + kDroppedSlots;
  if (LoadWord(mark) == 0) return;
  heap_.EndHoles();
  StoreWord(mark, 0);
}

void Recovery::RetireSegments() {
  std::vector<std::pair<uint64_t, uint8_t>> used;  // offset, partition
  for (const Segment& segment : directory_.segments()) {
    used.emplace_back(segment.offset, static_cast<uint8_t>(table_->PartitionAt(segment.position)));
  }
  std::sort(used.begin(), used.end());
  auto next = used.begin();
  for (const uint64_t unit : heap_.index_units()) {
    uint8_t owners[kSegmentsPerUnit];
    for (uint64_t i = 0; i < kSegmentsPerUnit; ++i) {
      const uint64_t offset = unit + i * kSegmentBytes;
      owners[i] = SegmentPool::kNoOwner;
      if (next != used.end() && next->first == offset) {
        owners[i] = (next++)->second;
        continue;
      }
      ++report_->retired_segments;
      for (uint32_t b = 0; b < kBuckets; ++b) {
        char* const info = region_ + offset + uint64_t{b} * kBucketBytes;
        if (LoadWord(info) != 0) StoreWord(info, 0);
      }
    }
    table_->segments_->Adopt(unit, owners);
  }
}

// While an item moves, it is alive at both places. Where it has no slot, a reader that remembers the place would find
// it there for ever.
void Recovery::EndMoves(const Partition& partition) {
  for (const uint64_t mark : {kMoveFrom, kMoveTo}) {
    const uint64_t offset = LoadWord(partition.marks_ + mark);
    if (offset % kGranuleBytes != 0 || !heap_.IsHole(offset)) continue;
    char* const item = region_ + offset;
    if ((VersionOf(item) & kDeadBit) == 0) {
      StoreWord(item + kVersionOffset, VersionOf(item) | kDeadBit);
      ++report_->ended_moves;
    }
    StoreWord(item + kExpiryOffset, 0);
  }
}

}  // namespace farlook::kv
