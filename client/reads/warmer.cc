#include "client/reads/warmer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/op/work_request_id.h"

namespace farlook::client {

void Warmer::Connect(const Ready& ready) {
  connection_ = ready.connection;
  table_ = ready.table;
  region_bytes_ = ready.context.region_bytes;
  const uint64_t most = std::min<uint64_t>(kv::kSegmentBytes, connection_->capabilities().max_read_bytes);
  piece_bytes_ = static_cast<uint32_t>(most / kv::kBucketBytes * kv::kBucketBytes);
  if (!operations_.empty()) Begin();
}

void Warmer::Lost() {
  connection_ = nullptr;
  pieces_.fill(0);
  under_way_ = 0;
  stalled_ = false;
  reload_ = Reload::kDone;
  if (operations_.empty()) buffer_ = nullptr;
}

void Warmer::Start(Operation* operation) {
  operation->engine = this;
  operations_.Push(operation);
  if (connection_ != nullptr && operations_.front() == operation) Begin();
}

void Warmer::Begin() {
  if (connection_->capabilities().local) return End(absl::OkStatus());  // the index itself is in this host's memory
  if (!gets_by_reads_) {
    return End(
        absl::FailedPreconditionError("gets go by messages here (ClientOptions::lookups): nothing can be warmed"));
  }
  if (!parts_.mirror->enabled()) {
    return End(absl::FailedPreconditionError("this client has no index mirror (ClientOptions::mirror_bytes)"));
  }
  if (buffer_ == nullptr) {
    auto buffer = parts_.endpoint->Allocate(kReads * kv::kSegmentBytes, /*readable_by_peers=*/false);
    if (!buffer.ok()) return End(buffer.status());
    buffer_ = *std::move(buffer);
  }
  reload_ = Reload::kWanted;
  ReloadDirectory();
}

void Warmer::ReloadDirectory() {
  if (parts_.directory->busy()) return;  // until Refreshed()
  ++parts_.stats->directory_refreshes;
  parts_.directory->Reload();
  parts_.posted->fetches |= parts_.directory->Post();
  reload_ = Reload::kUnderWay;
}

void Warmer::Refreshed() {
  if (operations_.empty() || reload_ == Reload::kDone) return;
  if (reload_ == Reload::kWanted) return ReloadDirectory();
  reload_ = Reload::kDone;
  entries_ = directory().size();
  entry_ = within_ = 0;
  read_bytes_ = 0;
  Post();
}

// Finds the next piece to READ. Returns false if there is none.
bool Warmer::Next(kv::Range* range) {
  if (directory().size() != entries_) {  // it grew: entries have other indexes now
    entries_ = directory().size();
    entry_ = within_ = 0;
    read_bytes_ = 0;
  }
  for (; entry_ < entries_ && read_bytes_ < parts_.mirror->bytes(); ++entry_, within_ = 0) {
    const kv::DirectoryEntry entry = directory().At(entry_);
    // A segment that was split less often has several adjacent entries.
    if (entry_ > 0 && entry == directory().At(entry_ - 1)) continue;
    if (within_ == kv::kSegmentBytes || !entry.ValidIn(region_bytes_)) continue;
    range->offset = entry.offset() + within_;
    range->bytes = std::min(piece_bytes_, kv::kSegmentBytes - within_);
    return true;
  }
  return false;
}

void Warmer::Post() {
  stalled_ = false;
  if (reload_ != Reload::kDone) return;
  kv::Range range;
  for (size_t i = 0; i < kReads && !stalled_; ++i) {
    if (pieces_[i] != 0) continue;
    if (!Next(&range)) break;
    const rdma::Sge to = {MemoryOf(i), range.bytes};
    // The memory belongs to the transport until Completed(), or until the connection is destroyed.
    if (!connection_->PostRead(WorkRequestId::OfNumber(WorkRequestId::Owner::kSegments, i), {&to, 1},
                               table_.address + range.offset, table_.rkey)) {
      stalled_ = true;
      parts_.posted->more = true;
      break;
    }
    pieces_[i] = range.bytes;
    within_ += range.bytes;
    read_bytes_ += range.bytes;
    ++under_way_;
    ++parts_.stats->warming_reads;
    parts_.posted->fetches = true;
  }
  if (under_way_ == 0 && !stalled_) End(absl::OkStatus());
}

void Warmer::Completed(size_t number) {
  if (number >= kReads || pieces_[number] == 0) return;
  const uint32_t bytes = std::exchange(pieces_[number], 0);
  --under_way_;
  parts_.mirror->Fill(absl::string_view(MemoryOf(number), bytes));
  if (!operations_.empty()) {
    Post();
  } else if (under_way_ == 0) {
    buffer_ = nullptr;  // of a cancelled operation
  }
}

void Warmer::Pump() {
  if (stalled_ && !operations_.empty()) Post();
}

// Ends the first operation.
void Warmer::End(absl::Status status) {
  Operation* const operation = operations_.Pop();
  if (operations_.empty() && under_way_ == 0) buffer_ = nullptr;
  parts_.finished->End(operation, std::move(status));
  if (!operations_.empty()) Begin();
}

void Warmer::Cancel(Operation* operation) {
  const bool served = operations_.front() == operation;
  operation->Linked<QueueTag>::Unlink();
  if (operations_.empty()) {
    stalled_ = false;
    if (under_way_ == 0) buffer_ = nullptr;
  } else if (served && connection_ != nullptr) {
    Begin();
  }
}

void Warmer::Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  operations_.Extract([which](const Operation* operation) { return which(*operation); }, take);
}

}  // namespace farlook::client
