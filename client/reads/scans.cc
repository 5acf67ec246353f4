#include "client/reads/scans.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "client/op/work_request_id.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"

namespace farlook::client {

using Step = kv::Scan::Step;

namespace {

// Number of items that are prefetched ahead of the copy on this host, and the most bytes of each. The processor fetches
// the following bytes by itself.
constexpr size_t kAhead = 12;
constexpr uint64_t kFirstBytes = 256;

// Accepts any address: it never faults. Volatile, since GCC removes loops that only prefetch.
inline void Prefetch(const char* from, uint64_t bytes) {
  for (const char* const end = from + std::min(bytes, kFirstBytes); from < end; from += kv::kLineBytes) {
#if defined(__x86_64__)
    asm volatile("prefetcht0 %0" : : "m"(*from));
#else
    __builtin_prefetch(from);
#endif
  }
}

}  // namespace

void Scans::Connect(const Ready& ready) {
  ready_ = ready;
  connection_ = ready.connection;
  mapped_ = connection_->capabilities().local
                ? connection_->Mapped(ready.table.address, ready.context.region_bytes, ready.table.rkey)
                : nullptr;
  piece_bytes_ = connection_->capabilities().max_read_bytes / kv::kBucketBytes * kv::kBucketBytes;
  if (!operations_.empty()) Begin();
}

void Scans::Lost() {
  connection_ = nullptr;
  mapped_ = nullptr;
  ready_ = {};
  pending_ = 0;
  stalled_ = abandoned_ = false;
  wait_ = Wait::kNothing;
  if (operations_.empty()) buffer_ = nullptr;
}

void Scans::Start(Operation* operation) {
  operation->engine = this;
  operations_.Push(operation);
  if (connection_ != nullptr && operations_.front() == operation) Begin();
}

void Scans::Begin() {
  if (pending_ > 0) {  // READs of a cancelled operation
    abandoned_ = true;
    return;
  }
  ScanOperation* const operation = current();
  operation->read_bytes = 0;
  Advance(scan_.Start(ready_.context, operation->part, operation->most_bytes, operation->filter));
}

void Scans::Advance(Step step) {
  wait_ = Wait::kNothing;
  for (;;) {
    switch (step) {
      case Step::kRead:
        if (!Place()) return;
        if (!CopyHere()) return Post();
        step = Feed();
        continue;
      case Step::kRefresh:
        if (!Refresh()) return;
        step = scan_.Resume();
        continue;
      case Step::kDone:
        if (!scan_.SameEntries()) {
          step = scan_.Resume();
          continue;
        }
        if (Trust()) Judge();
        return;
      case Step::kOvertaken:
        return End(absl::AbortedError("a scan was overtaken by writers too often, or a write has stopped halfway"));
    }
  }
}

// Provides memory for the wanted bytes. Returns false if the operation has ended, since there is none.
bool Scans::Place() {
  const uint64_t bytes = scan_.wanted_bytes();
  if (buffer_ == nullptr || buffer_->bytes().size() < bytes) {
    buffer_ = nullptr;
    auto buffer = parts_.endpoint->Allocate(std::max<uint64_t>(bytes, current()->most_bytes + kv::kSegmentBytes),
                                            /*readable_by_peers=*/false);
    if (!buffer.ok()) {
      End(buffer.status());
      return false;
    }
    buffer_ = *std::move(buffer);
  }
  current()->read_bytes += bytes;
  next_ = 0;
  within_ = 0;
  filled_ = 0;
  since_ns_ = parts_.time->NowNs();
  wait_ = Wait::kReads;
  return true;
}

// On this host: copies the wanted bytes, as READs would fetch them. Returns false if the table is not mapped, or the
// server is gone: then a READ shows that.
bool Scans::CopyHere() {
  if (mapped_ == nullptr) return false;
  const auto wanted = scan_.wanted();
  char* to = buffer_->bytes().data();
  for (size_t i = 0; i < std::min(kAhead, wanted.size()); ++i) Prefetch(mapped_ + wanted[i].offset, wanted[i].bytes);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i + kAhead < wanted.size()) Prefetch(mapped_ + wanted[i + kAhead].offset, wanted[i + kAhead].bytes);
    kv::LoadGranules(to, mapped_ + wanted[i].offset, wanted[i].bytes);
    to += wanted[i].bytes;
  }
  return connection_->alive();
}

// The wanted bytes are in the buffer.
Step Scans::Feed() {
  const bool late = scan_.wants_segment() && parts_.time->NowNs() - since_ns_ > kv::kMaxBucketReadNs;
  return scan_.Feed(buffer_->bytes().data(), late);
}

void Scans::Post() {
  stalled_ = false;
  const auto wanted = scan_.wanted();
  while (next_ < wanted.size()) {
    const kv::Range& range = wanted[next_];
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(range.bytes - within_, piece_bytes_));
    const rdma::Sge to = {buffer_->bytes().data() + filled_, bytes};
    // The memory belongs to the transport until all have completed, or until the connection is destroyed.
    if (!connection_->PostRead(WorkRequestId::Of(WorkRequestId::Owner::kScans), {&to, 1},
                               ready_.table.address + range.offset + within_, ready_.table.rkey)) {
      stalled_ = true;
      parts_.posted->more = true;
      return;
    }
    ++pending_;
    filled_ += bytes;
    within_ += bytes;
    if (within_ == range.bytes) {
      ++next_;
      within_ = 0;
    }
    parts_.posted->fetches = true;
  }
}

void Scans::Completed() {
  if (pending_ == 0 || --pending_ > 0) return;
  if (std::exchange(abandoned_, false)) {
    if (!operations_.empty()) Begin();
    return;
  }
  if (operations_.empty()) {  // cancelled
    buffer_ = nullptr;
    return;
  }
  if (stalled_) return Post();
  if (next_ < scan_.wanted().size()) return;
  Advance(Feed());
}

// Returns true if the entry has already changed; false if it waits for the directory.
bool Scans::Refresh() {
  if (parts_.directory->busy()) {
    wait_ = Wait::kOthers;
    return false;
  }
  if (parts_.directory->RefreshAt(scan_.position(), scan_.stale_entry())) return true;
  ++parts_.stats->directory_refreshes;
  parts_.posted->fetches |= parts_.directory->Post();
  parts_.posted->more |= parts_.directory->wants_post();
  wait_ = Wait::kRefresh;
  return false;
}

// Returns whether the segment was in the index; false if it waits for the directory.
bool Scans::Trust() {
  if (parts_.directory->directory()->TrustedAt(parts_.time->NowNs())) return true;
  wait_ = Wait::kTrust;
  if (parts_.directory->busy()) return false;
  ++parts_.stats->directory_refreshes;
  parts_.directory->Confirm();
  parts_.posted->fetches |= parts_.directory->Post();
  parts_.posted->more |= parts_.directory->wants_post();
  return false;
}

void Scans::Refreshed() {
  if (operations_.empty() || connection_ == nullptr) return;
  if (wait_ == Wait::kOthers) return Advance(Step::kRefresh);
  if (wait_ == Wait::kTrust) return Advance(Step::kDone);
  if (wait_ == Wait::kRefresh) Advance(scan_.Resume());
}

void Scans::Judge() {
  if (ready_.watch == nullptr) return Done();
  completed_ns_ = parts_.time->NowNs();
  begun_ = ready_.watch->begun();
  wait_ = Wait::kBelief;
  JudgeAgain();
}

// If the group's servers do not confirm the epoch, the step waits. Either they do later, or the group has another
// epoch, and the step begins again over the next connection.
void Scans::JudgeAgain() {
  if (wait_ != Wait::kBelief || operations_.empty()) return;
  if (ready_.watch->Judge(completed_ns_, begun_) == EpochWatch::Verdict::kBelieved) Done();
}

void Scans::Done() {
  ScanOperation* const operation = current();
  operation->covered = scan_.covered();
  std::swap(operation->found, scan_.found());
  operation->hash_seed = ready_.context.hasher->seed();
  operation->now_us = ready_.context.clock == nullptr ? 0 : ready_.context.clock->Now().hi;
  operation->slots = ready_.welcome->slots;
  End(absl::OkStatus());
}

void Scans::Pump() {
  if (stalled_ && !operations_.empty() && !abandoned_) Post();
}

// Ends the first operation.
void Scans::End(absl::Status status) {
  wait_ = Wait::kNothing;
  Operation* const operation = operations_.Pop();
  parts_.finished->End(operation, std::move(status));
  if (!operations_.empty()) Begin();
}

void Scans::Cancel(Operation* operation) {
  const bool served = operations_.front() == operation;
  operation->Linked<QueueTag>::Unlink();
  if (!served || connection_ == nullptr) return;
  wait_ = Wait::kNothing;
  stalled_ = false;
  abandoned_ = pending_ > 0;
  if (!operations_.empty()) Begin();
}

void Scans::Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  operations_.Extract([which](const Operation* operation) { return which(*operation); }, take);
}

}  // namespace farlook::client
