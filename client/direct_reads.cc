#include "client/direct_reads.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/directory.h"
#include "kv/fingerprints.h"
#include "kv/item.h"
#include "kv/limits.h"
#include "kv/segment.h"
#include "kv/words.h"

namespace farlook::client {
namespace {

bool IsGet(const Operation& operation) {
  return (operation.kind == Kind::kGet || operation.kind == Kind::kExists) &&
         operation.key.size() - kv::kMinKeyBytes <= kv::kMaxKeyBytes - kv::kMinKeyBytes;
}

// None of them has ended.
ABSL_ATTRIBUTE_NOINLINE size_t LeaveAlone(absl::Span<Operation* const> operations) {
  for (Operation* operation : operations) operation->done = false;
  return 0;
}

// The lines of an item. Of any address: it never faults.
inline void Prefetch(const char* from, uint64_t bytes) {
  const char* const last = from + bytes - 1;
  for (; from < last; from += kv::kLineBytes) __builtin_prefetch(from);
  __builtin_prefetch(last);
}

}  // namespace

void DirectReads::Connect(const Ready& ready) {
  if (!enabled_ || !ready.connection->capabilities().local) return;
  if (batch_ == nullptr) batch_.reset(new (std::nothrow) Batch);
  if (batch_ == nullptr) return;  // without it, the general path does
  connection_ = ready.connection;
  table_ = ready.table;
  context_ = ready.context;
  watch_ = ready.watch;
  last_segment_ = context_.region_bytes - kv::kSegmentBytes;
  last_item_ = context_.region_bytes - kMostItemBytes;
}

size_t DirectReads::Run(absl::Span<Operation* const> operations) {
  if (parts_.latencies->Due()) [[unlikely]]
    return RunTimed(operations);
  return RunAll(operations);
}

// Where it ends nothing, others time what they do.
ABSL_ATTRIBUTE_NOINLINE size_t DirectReads::RunTimed(absl::Span<Operation* const> operations) {
  const OperationTiming timing = parts_.latencies->Begin();
  const size_t ended = RunAll(operations);
  if (ended > 0) parts_.latencies->End(timing, &parts_.stats->get_times);
  return ended;
}

inline size_t DirectReads::RunAll(absl::Span<Operation* const> operations) {
  if (operations.size() <= kBatch) [[likely]]
    return RunBatch(operations);
  size_t ended = 0;
  for (; !operations.empty(); operations.remove_prefix(std::min(kBatch, operations.size()))) {
    ended += RunBatch(operations.subspan(0, kBatch));
  }
  return ended;
}

size_t DirectReads::RunBatch(absl::Span<Operation* const> operations) {
  const int64_t since_ns = parts_.time->last_ns();
  const char* const table = connection_->Mapped(table_.address, context_.region_bytes, table_.rkey);
  if (table == nullptr) [[unlikely]]
    return LeaveAlone(operations);
  const size_t count = Begin(operations, table);
  Get* const gets = batch_->gets;
  Get* const end = gets + count;
  for (Get* get = gets; get != end; ++get) FollowBucket(get, table);
  Counts counts;
  char *copy = batch_->copies[0], *next_copy = batch_->copies[1];
  if (count > 0) kv::LoadGranules(copy, gets->item, gets->bytes);
  for (Get* get = gets; get != end; std::swap(copy, next_copy)) {
    const Get& taken = *get++;
    if (get != end) kv::LoadGranules(next_copy, get->item, get->bytes);
    if (taken.bytes == 0) [[unlikely]] {
      batch_->absent[counts.absent] = taken.operation;
      counts.absent += IsAbsent(taken, copy);
      continue;
    }
    if (!Take(taken, copy)) [[unlikely]]
      continue;
    ++counts.found;
  }
  if (!connection_->alive()) [[unlikely]]
    return LeaveAlone(operations);
  if (watch_ != nullptr && !watch_->OpenNow()) [[unlikely]]
    return LeaveAlone(operations);
  if (counts.absent > 0 && !EndAbsent(counts.absent, since_ns)) [[unlikely]]
    counts.absent = 0;
  const size_t ended = counts.found + counts.absent;
  ClientStats& stats = *parts_.stats;
  stats.gets += ended;
  stats.hits += counts.found;
  stats.misses += counts.absent;
  stats.bucket_reads += ended;
  stats.item_reads += counts.found;
  return ended;
}

// Where each is to be looked for. Returns how many there are, in `gets`.
inline size_t DirectReads::Begin(absl::Span<Operation* const> operations, const char* table) {
  Get* get = batch_->gets;
  for (Operation* operation : operations) {
    operation->done = false;
    if (!IsGet(*operation)) [[unlikely]]
      continue;
    uint64_t hash = operation->hash;
    if (!hashes_are_given_) [[likely]]
      hash = (*context_.hasher)(operation->key);
    get->operation = operation;
    get->hash = hash;
    const uint64_t segment = context_.directory->Find(hash).offset();
    if (segment > last_segment_) [[unlikely]]
      continue;
    get->bucket = table + segment + kv::BucketOf(hash) * kv::kBucketBytes;
    __builtin_prefetch(get->bucket);
    __builtin_prefetch(get->bucket + kv::kBucketBytes / 2);
    ++get;
  }
  return static_cast<size_t>(get - batch_->gets);
}

// Which item is to be READ, if any.
inline void DirectReads::FollowBucket(Get* get, const char* table) {
  const uint32_t likely = kv::LikelyWords(get->bucket, kv::FingerprintOf(get->hash));
  if (likely == 0) {
    get->item = table;
    get->bytes = 0;
    return;
  }
  get->slot = kv::Slot(kv::LoadWord(get->bucket + 8 * static_cast<uint64_t>(std::countr_zero(likely))));
  const uint64_t offset = get->slot.offset();
  const uint64_t bytes = get->slot.bytes();
  const bool fits = bytes <= kMostItemBytes && offset <= last_item_;
  get->item = fits ? table + offset : table;
  get->bytes = fits ? bytes : kv::kGranuleBytes;
  Prefetch(get->item, get->bytes);
}

// Whether a READ of its bucket says so. That counts if EndAbsent() does.
inline bool DirectReads::IsAbsent(const Get& get, char* copy) const {
  kv::LoadGranules(copy, get.bucket, kv::kBucketBytes);
  const kv::DirectoryEntry entry = context_.directory->Find(get.hash);
  return entry.ValidIn(context_.region_bytes) && kv::ProvesAbsence(copy, entry, get.hash);
}

// Ends those of batch_->absent, if that may be believed now. Their READs began after `since_ns`.
bool DirectReads::EndAbsent(size_t count, int64_t since_ns) {
  const int64_t now_ns = parts_.time->NowNs();
  if (now_ns - since_ns > kv::kMaxBucketReadNs) [[unlikely]]
    return false;
  if (!context_.directory->TrustedAt(now_ns)) [[unlikely]]
    return false;
  for (Operation* const operation : absl::MakeSpan(batch_->absent, count)) {
    operation->status = parts_.finished->Absent();
    operation->version = 0;
    operation->value_bytes = 0;
    operation->done = true;
  }
  return true;
}

// Whether the operation ends with this item, which is a private copy.
inline bool DirectReads::Take(const Get& get, const char* item) {
  Operation* const operation = get.operation;
  uint64_t version = 0;
  absl::string_view value;
  if (!kv::IsPlainItem(*context_.hasher, item, get.bytes, operation->key, &version, &value)) [[unlikely]]
    return false;
  if (operation->kind == Kind::kGet && !Copy(value, operation)) [[unlikely]]
    return false;
  if (!operation->status.ok()) [[unlikely]]
    operation->status = absl::OkStatus();
  operation->version = version;
  operation->done = true;
  parts_.touches->Hit(get.slot);
  return true;
}

}  // namespace farlook::client
