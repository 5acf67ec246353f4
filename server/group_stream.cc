#include "server/group_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

cluster::Record::Kind KindOf(RecordStream::Kind kind) {
  switch (kind) {
    case RecordStream::Kind::kPut:
      return cluster::Record::Kind::kPut;
    case RecordStream::Kind::kDelete:
      return cluster::Record::Kind::kDelete;
    case RecordStream::Kind::kOutcome:
      break;
  }
  return cluster::Record::Kind::kOutcome;
}

}  // namespace

GroupStream::GroupStream(uint64_t epoch, uint64_t primary, uint64_t next, std::deque<cluster::Record> tail,
                         size_t most_bytes)
    : stream_(epoch, primary, next, std::move(tail), most_bytes), epoch_(epoch), committed_(0) {
  absl::MutexLock lock(&mutex_);
  committed_.store(stream_.committed(), std::memory_order_release);
}

uint64_t GroupStream::Append(const Record& record) {
  cluster::Record copy{.kind = KindOf(record.kind),
                       .session = record.session,
                       .number = record.number,
                       .outcome = static_cast<uint8_t>(record.outcome),
                       .version = record.version,
                       .key = std::string(record.key),
                       .value = std::string(record.value)};
  uint64_t sequence = 0;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<uint64_t> appended = stream_.Append(std::move(copy));
    if (!appended.ok()) return 0;
    sequence = *appended;
    if (must_accept_.empty()) committed_.store(stream_.Commit(must_accept_), std::memory_order_release);
  }
  if (appended_) appended_();
  return sequence;
}

uint64_t GroupStream::last() const {
  absl::MutexLock lock(&mutex_);
  return stream_.last();
}

void GroupStream::SetMembers(std::vector<uint64_t> must_accept) {
  {
    absl::MutexLock lock(&mutex_);
    must_accept_ = std::move(must_accept);
  }
  Commit();
}

void GroupStream::EnterEpoch(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  stream_.EnterEpoch(epoch);
  epoch_ = epoch;
}

void GroupStream::Expect(std::vector<uint64_t> backups) {
  absl::MutexLock lock(&mutex_);
  expected_ = std::move(backups);
}

absl::Status GroupStream::Admit(const kv::Follow& follow) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::find(expected_.begin(), expected_.end(), follow.incarnation) == expected_.end()) {
      return absl::PermissionDeniedError("the group does not know this backup, and nobody asked to add it");
    }
    if (follow.epoch != epoch_) {
      return absl::FailedPreconditionError(
          absl::StrCat("the backup follows epoch ", follow.epoch, ", and this is ", epoch_));
    }
  }
  return Follow(follow.incarnation, follow.accepted);
}

absl::Status GroupStream::Follow(uint64_t backup, uint64_t accepted) {
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status status = stream_.Follow(backup, accepted); !status.ok()) return status;
  }
  Commit();
  return absl::OkStatus();
}

void GroupStream::Forget(uint64_t backup) {
  absl::MutexLock lock(&mutex_);
  stream_.Forget(backup);
}

std::string GroupStream::NextBatch(uint64_t backup, size_t most_bytes) {
  absl::MutexLock lock(&mutex_);
  return stream_.NextBatch(backup, most_bytes);
}

absl::Status GroupStream::Accepted(uint64_t backup, uint64_t accepted) {
  {
    absl::MutexLock lock(&mutex_);
    if (absl::Status status = stream_.Accepted(backup, accepted); !status.ok()) return status;
  }
  Commit();
  return absl::OkStatus();
}

void GroupStream::Commit() {
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t committed = stream_.Commit(must_accept_);
    if (committed == committed_.load(std::memory_order_relaxed)) return;
    committed_.store(committed, std::memory_order_release);
  }
  if (advanced_) advanced_();
}

}  // namespace farlook::server
