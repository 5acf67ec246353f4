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
  return IsOneOf(operation.kind, Kind::kGet, Kind::kExists) && kv::IsKeyLength(operation.key.size());
}

// None of them has ended.
ABSL_ATTRIBUTE_NOINLINE size_t LeaveAlone(absl::Span<Operation* const> operations) {
  for (Operation* operation : operations) operation->done = false;
  return 0;
}

// Of any address: it never faults. Volatile, as GCC leaves out loops, and calls, that do nothing but prefetch.
inline void PrefetchLine(const char* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*at));
#else
  __builtin_prefetch(at);
#endif
}

// The lines of an item.
inline void Prefetch(const char* from, uint64_t bytes) {
  const char* const last = from + bytes - 1;
  for (; from < last; from += kv::kLineBytes) PrefetchLine(from);
  PrefetchLine(last);
}

// So much of an item is prefetched with those of all others of its batch. The rest of a longer one comes when it is its
// turn in so many: then memory is at work while the items before it are verified, not only before.
constexpr uint64_t kFirstBytes = 256;
constexpr ptrdiff_t kAhead = 4;

}  // namespace

void DirectReads::Connect(const Ready& ready) {
  if (!enabled_ || !ready.connection->capabilities().local) return;
  if (batch_ == nullptr) batch_.reset(new (std::nothrow) Batch);
  if (batch_ == nullptr) return;  // without it, the general path does
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

// Where it ends nothing, others time what they do.
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

// RunBatch() without what makes misses overlap: of one, the processor itself has all lines of a bucket, and all of an
// item, under way at once.
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
  const Get* rest = end;  // of it, and of those after it, the rest is to be prefetched, if there is any
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

// Whether what was loaded before this call was the server's, and may be believed.
inline bool DirectReads::MayBelieve() {
  if (watch_ != nullptr) [[unlikely]]
    return watch_->OpenNow();
  return connection_->alive();
}

// They have ended.
inline void DirectReads::Count(size_t found, size_t absent) {
  ClientStats& stats = *parts_.stats;
  stats.gets += found + absent;
  stats.hits += found;
  stats.misses += absent;
  stats.bucket_reads += found + absent;
  stats.item_reads += found;
}

// Where it is to be looked for. False: it is left alone.
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

// Which item is to be READ, if any.
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

// Whether a READ of its bucket says so. That counts if EndAbsent() does.
inline bool DirectReads::IsAbsent(const Get& get, char* copy) const {
  kv::LoadGranules(copy, get.bucket, kv::kBucketBytes);
  const kv::DirectoryEntry entry = context_.directory->Find(get.hash);
  return entry.ValidIn(context_.region_bytes) && kv::ProvesAbsence(copy, entry, get.hash);
}

// Ends them, if that may be believed now. Their READs began after `since_ns`.
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

// Whether the operation ends with this item, which is a private copy.
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
