#include "client/direct_reads.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/item.h"
#include "kv/limits.h"

namespace farlook::client {
namespace {

using Step = kv::Lookup::Step;

bool IsGet(const Operation& operation) {
  return (operation.kind == Kind::kGet || operation.kind == Kind::kExists) &&
         operation.key.size() - kv::kMinKeyBytes <= kv::kMaxKeyBytes - kv::kMinKeyBytes;
}

// The operation ends with this item, unless that is a counter or too long for the buffer.
inline bool Found(const kv::ItemView& item, Operation* operation) {
  if (item.kind != kv::ItemKind::kValue) [[unlikely]]
    return false;
  if (operation->kind == Kind::kGet && !Copy(item.value, operation)) [[unlikely]]
    return false;
  if (!operation->status.ok()) [[unlikely]]
    operation->status = absl::OkStatus();
  operation->version = item.version;
  operation->done = true;
  return true;
}

}  // namespace

void DirectReads::Connect(const Ready& ready) {
  if (!enabled_ || parts_.cache->enabled() || !ready.connection->capabilities().local) return;
  if (batch_ == nullptr) batch_.reset(new (std::nothrow) Batch);  // staging is not touched before use
  if (batch_ == nullptr) return;                                  // without it, the general path does
  connection_ = ready.connection;
  table_ = ready.table;
  context_ = ready.context;
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
  size_t ended = 0;
  for (; !operations.empty(); operations.remove_prefix(std::min(kBatch, operations.size()))) {
    ended += RunBatch(operations.subspan(0, kBatch));
  }
  return ended;
}

size_t DirectReads::RunBatch(absl::Span<Operation* const> operations) {
  const int64_t since_ns = parts_.time->last_ns();
  next_ = operations.begin();
  end_ = operations.end();
  counts_ = Counts();
  size_t wanting = 0;
  for (Get& get : batch_->gets) {
    if (!Begin(&get)) break;
    batch_->wanting[wanting++] = &get;
  }
  while (wanting > 0) wanting = Turn(wanting);
  if (!connection_->alive()) [[unlikely]] {
    for (Operation* operation : operations) operation->done = false;
    return 0;
  }
  const size_t absent = counts_.absent == 0 ? 0 : EndAbsent(counts_.absent, since_ns);
  ClientStats& stats = *parts_.stats;
  stats.gets += counts_.found + absent;
  stats.hits += counts_.found;
  stats.misses += absent;
  stats.bucket_reads += counts_.bucket_reads;
  stats.item_reads += counts_.item_reads;
  return counts_.found + absent;
}

// Begins the lookup of the next operation that there is. False: there is none.
inline bool DirectReads::Begin(Get* get) {
  while (next_ != end_) {
    Operation* operation = *next_++;
    operation->done = false;
    if (!IsGet(*operation)) [[unlikely]]
      continue;
    get->operation = operation;
    const Step step = get->lookup.Start(context_, operation->key, (*context_.hasher)(operation->key));
    if (step == Step::kRead) [[likely]] {
      Expect(*get);
      return true;
    }
  }
  return false;
}

// READs once for each lookup that wants it, and feeds it. Returns how many want another READ.
inline size_t DirectReads::Turn(size_t wanting) {
  size_t still_wanting = 0;
  for (size_t begin = 0; begin < wanting;) {
    const size_t end = begin + ReadSome(begin, wanting);
    if (begin == end) [[unlikely]] {
      // Reads finds out why.
      Get* get = batch_->wanting[begin++];
      if (Begin(get)) batch_->wanting[still_wanting++] = get;
    }
    for (; begin < end; ++begin) {
      Get* get = batch_->wanting[begin];
      const rdma::NowRead& read = batch_->reads[begin];
      if (Feed(get, absl::string_view(read.to, read.bytes)) || Begin(get)) batch_->wanting[still_wanting++] = get;
    }
  }
  return still_wanting;
}

// READs what lookups want from `begin` on, as many as there are and as the staging memory takes. Returns how many.
inline size_t DirectReads::ReadSome(size_t begin, size_t end) {
  char* to = batch_->staging;
  size_t i = begin;
  for (; i < end; ++i) {
    const kv::Range& wanted = batch_->wanting[i]->lookup.wanted();
    if (wanted.bytes > std::min<size_t>(kMaxItemBytes, static_cast<size_t>(std::end(batch_->staging) - to)))
        [[unlikely]]
      break;
    batch_->reads[i] = {to, table_.address + wanted.offset, wanted.bytes};
    to += (wanted.bytes + kLineBytes - 1) & ~(kLineBytes - 1);
  }
  return connection_->ReadNow(absl::MakeConstSpan(batch_->reads + begin, i - begin), table_.rkey);
}

// Whether the lookup wants another READ.
inline bool DirectReads::Feed(Get* get, absl::string_view bytes) {
  switch (get->lookup.Feed(bytes, /*late=*/false)) {
    case Step::kRead:
      if (get->lookup.rounds() > 1) [[unlikely]]
        return false;
      Expect(*get);
      return true;
    case Step::kFound:
      if (!Found(get->lookup.item(), get->operation)) [[unlikely]]
        return false;
      ++counts_.found;
      parts_.touches->Hit(get->lookup.slot());
      break;
    case Step::kNotFound:
      batch_->absent[counts_.absent++] = get->operation;
      break;
    case Step::kRefresh:
    case Step::kAskServer:
      return false;
  }
  counts_.bucket_reads += get->lookup.bucket_reads();
  counts_.item_reads += get->lookup.item_reads();
  return false;
}

inline void DirectReads::Expect(const Get& get) {
  const kv::Range& wanted = get.lookup.wanted();
  connection_->Prefetch(table_.address + wanted.offset, wanted.bytes, table_.rkey);
}

// Looks whether the directory led to the index, as it did not change since the batch began. False: Reads finds out.
bool DirectReads::Confirm(int64_t now_ns) {
  kv::Directory& directory = *context_.directory;
  if (directory.busy()) return false;
  bool confirmed = false;
  if (directory.Confirm() == kv::Directory::Step::kRead) {
    directory.Posting(now_ns);
    const kv::Range& wanted = directory.wanted();
    const rdma::NowRead read = {batch_->staging, table_.address + wanted.offset, wanted.bytes};
    if (connection_->ReadNow({&read, 1}, table_.rkey) == 1 && connection_->alive()) {
      const auto step = directory.Feed(absl::string_view(batch_->staging, wanted.bytes));
      confirmed = step.ok() && *step == kv::Directory::Step::kDone;
    }
  }
  if (!confirmed) directory.Abandon();
  return confirmed;
}

// Ends those that were not found, if that is known in time, and returns how many.
size_t DirectReads::EndAbsent(size_t count, int64_t since_ns) {
  const int64_t now_ns = parts_.time->NowNs();
  if (now_ns - since_ns > kv::kMaxBucketReadNs) return 0;
  if (!context_.directory->TrustedAt(now_ns) && !Confirm(now_ns)) return 0;
  for (Operation* operation : absl::MakeConstSpan(batch_->absent, count)) {
    operation->version = 0;
    parts_.finished->Begun(operation);
    parts_.finished->EndAbsent(operation);
  }
  return count;
}

}  // namespace farlook::client
