#include "client/reads/direct_reads.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/layout/fingerprints.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"
#include "kv/read/directory.h"

namespace farlook::client {
namespace {

bool IsGet(const Operation& operation) {
  return IsOneOf(operation.kind, Kind::kGet, Kind::kExists) && kv::IsKeyLength(operation.key.size());
}

// None of them has ended.
ABSL_ATTRIBUTE_NOINLINE size_t LeaveAlone(absl::Span<Operation* const> operations) {
  for (Operation* operation : operations) operation->done = false;
  return 0;
}

// Accepts any address: it never faults. Volatile, since GCC removes loops and calls that only prefetch.
inline void PrefetchLine(const char* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*at));
#else
  __builtin_prefetch(at);
#endif
}

// Prefetches the lines of an item.
inline void Prefetch(const char* from, uint64_t bytes) {
  const char* const last = from + bytes - 1;
  for (; from < last; from += kv::kLineBytes) PrefetchLine(from);
  PrefetchLine(last);
}

// Bytes of each item that are prefetched with the whole batch, and the number of items by which the rest of a long item
// is prefetched ahead. So memory is busy also while items are verified.
constexpr uint64_t kFirstBytes = 256;
constexpr ptrdiff_t kAhead = 4;

}  // namespace

void DirectReads::Connect(const Ready& ready) {
  if (!enabled_ || !ready.connection->capabilities().local) return;
  if (batch_ == nullptr) batch_.reset(new (std::nothrow) Batch);
  if (batch_ == nullptr) return;  // then Reads executes the gets
  table_ = ready.connection->Mapped(ready.table.address, ready.context.region_bytes, ready.table.rkey);
  if (table_ == nullptr) return;
  connection_ = ready.connection;
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

bool DirectReads::Run(Operation* operation) {
  if (parts_.latencies->Due()) [[unlikely]]
    return RunTimed(absl::MakeConstSpan(&operation, 1)) == 1;
  return RunOne(operation);
}

// If no get ends here, the general path times it.
ABSL_ATTRIBUTE_NOINLINE size_t DirectReads::RunTimed(absl::Span<Operation* const> operations) {
  const OperationTiming timing = parts_.latencies->Begin();
  const size_t ended = RunAll(operations);
  if (ended > 0) parts_.latencies->End(timing, &parts_.stats->get_times);
  return ended;
}

size_t DirectReads::RunAll(absl::Span<Operation* const> operations) {
  if (operations.size() <= kBatch) [[likely]]
    return RunBatch(operations);
  size_t ended = 0;
  for (; !operations.empty(); operations.remove_prefix(std::min(kBatch, operations.size()))) {
    ended += RunBatch(operations.subspan(0, kBatch));
  }
  return ended;
}

// RunBatch() for a single get, without phases. The processor itself fetches all lines of a bucket or of an item
// concurrently.
bool DirectReads::RunOne(Operation* operation) {
  operation->done = false;
  const int64_t since_ns = parts_.time->last_ns();
  Get get;
  if (!FindBucket(operation, &get)) [[unlikely]]
    return false;
  FollowBucket(&get);
  char* const copy = batch_->copies[0];
  if (get.bytes == 0) [[unlikely]] {
    if (!IsAbsent(get, copy) || !MayBelieve() || !EndAbsent(absl::MakeConstSpan(&operation, 1), since_ns)) return false;
    Count(/*found=*/0, /*absent=*/1);
    return true;
  }
  kv::LoadGranules(copy, get.item, get.bytes);
  if (!MayBelieve() || !Take(get, copy)) [[unlikely]]
    return false;
  Count(/*found=*/1, /*absent=*/0);
  return true;
}

inline void DirectReads::PrefetchRest(const Get& get) {
  if (get.bytes > kFirstBytes) Prefetch(get.item + kFirstBytes, get.bytes - kFirstBytes);
}

size_t DirectReads::RunBatch(absl::Span<Operation* const> operations) {
  const int64_t since_ns = parts_.time->last_ns();
  Get* const gets = batch_->gets;
  Get* end = gets;
  for (Operation* operation : operations) {
    operation->done = false;
    if (!FindBucket(operation, end)) [[unlikely]]
      continue;
    __builtin_prefetch(end->bucket);
    __builtin_prefetch(end->bucket + kv::kBucketBytes / 2);
    ++end;
  }
  const Get* rest = end;  // from here on the rest of long items is to be prefetched
  for (Get* get = gets; get != end; ++get) {
    FollowBucket(get);
    if (get->bytes > kFirstBytes) [[unlikely]] {
      Prefetch(get->item, kFirstBytes);
      rest = gets;
    } else if (get->bytes != 0) [[likely]] {
      Prefetch(get->item, get->bytes);
    }
  }
  while (rest != end && rest - gets < kAhead) PrefetchRest(*rest++);
  size_t found = 0, absent = 0;
  char *copy = batch_->copies[0], *next_copy = batch_->copies[1];
  if (gets != end) kv::LoadGranules(copy, gets->item, gets->bytes);
  for (Get* get = gets; get != end; std::swap(copy, next_copy)) {
    const Get& taken = *get++;
    if (rest != end) [[unlikely]]
      PrefetchRest(*rest++);
    if (get != end) kv::LoadGranules(next_copy, get->item, get->bytes);
    if (taken.bytes == 0) [[unlikely]] {
      batch_->absent[absent] = taken.operation;
      absent += IsAbsent(taken, copy);
      continue;
    }
    if (!Take(taken, copy)) [[unlikely]]
      continue;
    ++found;
  }
  if (!MayBelieve()) [[unlikely]]
    return LeaveAlone(operations);
  if (absent > 0 && !EndAbsent(absl::MakeConstSpan(batch_->absent, absent), since_ns)) [[unlikely]]
    absent = 0;
  Count(found, absent);
  return found + absent;
}

// Returns whether everything loaded before this call belonged to the server and may be believed.
inline bool DirectReads::MayBelieve() {
  if (watch_ != nullptr) [[unlikely]]
    return watch_->OpenNow();
  return connection_->alive();
}

// Counts gets that have ended.
inline void DirectReads::Count(size_t found, size_t absent) {
  ClientStats& stats = *parts_.stats;
  stats.gets += found + absent;
  stats.hits += found;
  stats.misses += absent;
  stats.bucket_reads += found + absent;
  stats.item_reads += found;
}

// Finds the bucket of the key. Returns false if the get is left to Reads.
[[gnu::always_inline]] inline bool DirectReads::FindBucket(Operation* operation, Get* get) const {
  if (!IsGet(*operation)) [[unlikely]]
    return false;
  uint64_t hash = operation->hash;
  if (!hashes_are_given_) [[likely]]
    hash = (*context_.hasher)(operation->key);
  const uint64_t segment = context_.directory->Find(hash).offset();
  if (segment > last_segment_) [[unlikely]]
    return false;
  get->operation = operation;
  get->hash = hash;
  get->bucket = table_ + segment + kv::BucketOf(hash) * kv::kBucketBytes;
  return true;
}

// Finds the item that is to be READ, if any.
[[gnu::always_inline]] inline void DirectReads::FollowBucket(Get* get) const {
  const uint32_t likely = kv::LikelyWords(get->bucket, kv::FingerprintOf(get->hash));
  if (likely == 0) {
    get->item = table_;
    get->bytes = 0;
    return;
  }
  get->slot = kv::Slot(kv::LoadWord(get->bucket + 8 * static_cast<uint64_t>(std::countr_zero(likely))));
  const uint64_t offset = get->slot.offset();
  const uint64_t bytes = get->slot.bytes();
  const bool fits = bytes <= kMostItemBytes && offset <= last_item_;
  get->item = fits ? table_ + offset : table_;
  get->bytes = fits ? bytes : kv::kGranuleBytes;
}

// Returns whether a READ of the bucket shows that the key is absent. The result counts if EndAbsent() returns true.
inline bool DirectReads::IsAbsent(const Get& get, char* copy) const {
  kv::LoadGranules(copy, get.bucket, kv::kBucketBytes);
  const kv::DirectoryEntry entry = context_.directory->Find(get.hash);
  return entry.ValidIn(context_.region_bytes) && kv::ProvesAbsence(copy, entry, get.hash);
}

// Ends the gets if their absence may be believed now. Their READs began after `since_ns`.
bool DirectReads::EndAbsent(absl::Span<Operation* const> absent, int64_t since_ns) {
  const int64_t now_ns = parts_.time->NowNs();
  if (now_ns - since_ns > kv::kMaxBucketReadNs) [[unlikely]]
    return false;
  if (!context_.directory->TrustedAt(now_ns)) [[unlikely]]
    return false;
  for (Operation* const operation : absent) {
    operation->status = parts_.finished->Absent();
    operation->version = 0;
    operation->value_bytes = 0;
    operation->done = true;
  }
  return true;
}

// Ends the operation with this item, a private copy, and returns true; false if the item does not prove itself.
[[gnu::always_inline]] inline bool DirectReads::Take(const Get& get, const char* item) {
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
