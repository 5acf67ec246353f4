#include "server/replication/group_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

absl::Status GivenUp() {
  return absl::AbortedError("this backup has a later connection, or is no longer allowed to follow");
}

}  // namespace

GroupStream::GroupStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail,
                         size_t most_bytes)
    : most_bytes_(most_bytes) {
  Lead(epoch, primary, next, tail);
}

void GroupStream::Lead(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail,
                       const std::vector<uint64_t>& members) {
  absl::MutexLock lock(&mutex_);
  stream_ = std::make_unique<cluster::OutgoingStream>(epoch, primary, next, tail, most_bytes_);
  epoch_ = epoch;
  must_accept_.reset();
  expected_.clear();
  budget_.Clear();
  for (const uint64_t member : members) expected_[member];
  committed_.store(stream_->committed(), std::memory_order_release);
}

void GroupStream::Cease() {
  absl::MutexLock lock(&mutex_);
  stream_.reset();
  must_accept_.reset();
  expected_.clear();
}

uint64_t GroupStream::Append(absl::Span<const cluster::Record> records, Growth growth) {
  std::shared_ptr<char[]> encoded;
  if (const size_t bytes = cluster::BytesOf(records); bytes >= cluster::OutgoingStream::kLongBytes) {
    encoded = std::make_shared_for_overwrite<char[]>(bytes);
    char* to = encoded.get();
    for (const cluster::Record& record : records) {
      cluster::EncodeRecord(record, to);
      to += record.bytes();
    }
  }
  uint64_t sequence = 0;
  bool has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr) return 0;
    // Another thread may have used the room since the caller looked. Then the commit of its record is notified.
    if (growth.bytes != 0 && growth.is_refused && !budget_.HasRoomFor(growth.bytes)) return 0;
    const absl::StatusOr<uint64_t> appended = stream_->Append(records, std::move(encoded));
    if (!appended.ok()) {
      refused_at_bytes_ = stream_->kept_bytes();
      return 0;
    }
    sequence = *appended;
    budget_.Appended(sequence, growth.bytes);
    if (must_accept_.has_value() && must_accept_->empty()) {
      const bool was_refused = refused_at_bytes_ != 0;
      Advance();
      has_room = was_refused && refused_at_bytes_ == 0;
    }
  }
  // The caller of Append() checks for itself whether its records are already committed.
  if (has_room) notifier()->NotifyTurn();
  notifier()->NotifyRecord();
  return sequence;
}

uint64_t GroupStream::last() const {
  absl::MutexLock lock(&mutex_);
  return stream_ == nullptr ? 0 : stream_->last();
}

size_t GroupStream::kept_bytes() const {
  absl::MutexLock lock(&mutex_);
  return stream_ == nullptr ? 0 : stream_->kept_bytes();
}

bool GroupStream::AwaitRoom(size_t most_bytes) {
  absl::MutexLock lock(&mutex_);
  if (stream_ == nullptr || stream_->kept_bytes() <= most_bytes) return false;
  awaited_bytes_ = most_bytes;
  return true;
}

void GroupStream::SetMembers(std::vector<uint64_t> must_accept) {
  bool advanced = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr) return;
    must_accept_ = std::move(must_accept);
    budget_.SetMembers(*must_accept_);
    advanced = Advance();
  }
  if (advanced) notifier()->NotifyTurn();
}

void GroupStream::EnterEpoch(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) stream_->EnterEpoch(epoch);
  epoch_ = epoch;
}

void GroupStream::SetRecord(uint64_t revision, std::string record) {
  if (record.size() > kv::Refusal::kMaxRecordBytes) revision = 0;
  if (revision == 0) record.clear();
  absl::MutexLock lock(&mutex_);
  known_ = {.revision = revision, .record = std::move(record)};
}

RecordSource::Known GroupStream::known() const {
  absl::MutexLock lock(&mutex_);
  return known_;
}

void GroupStream::Expect(const std::vector<uint64_t>& backups) {
  bool advanced = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr) return;
    std::map<uint64_t, Follower> expected;
    for (const uint64_t backup : backups) {
      const auto known = expected_.find(backup);
      expected.emplace(backup, known == expected_.end() ? Follower() : known->second);
    }
    for (const auto& [backup, was] : expected_) {
      if (expected.contains(backup)) continue;
      stream_->Forget(backup);
      budget_.Forget(backup);
    }
    expected_ = std::move(expected);
    advanced = Advance();
  }
  if (advanced) notifier()->NotifyTurn();
  notifier()->NotifyRecord();  // workers then close the connections of forgotten backups
}

void GroupStream::Forget(uint64_t backup) {
  bool advanced = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr || expected_.erase(backup) == 0) return;
    stream_->Forget(backup);
    budget_.Forget(backup);
    advanced = Advance();
  }
  if (advanced) notifier()->NotifyTurn();
  notifier()->NotifyRecord();  // the worker then closes the backup's connection
}

std::map<uint64_t, GroupStream::Follower> GroupStream::followers() const {
  absl::MutexLock lock(&mutex_);
  return expected_;
}

absl::StatusOr<FeedId> GroupStream::Admit(const kv::Follow& follow) {
  FeedId feed{.backup = follow.incarnation};
  bool advanced = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr) return absl::FailedPreconditionError("this server is not the group's primary");
    const bool joins = !follow.address.empty();
    const auto expected = expected_.find(follow.incarnation);
    if (expected == expected_.end() && !joins) {
      return absl::PermissionDeniedError("the group does not know this backup, and no operator added it");
    }
    if (follow.epoch != epoch_) {
      if (follow.epoch < epoch_ && expected != expected_.end()) ++expected->second.refused;
      return absl::FailedPreconditionError(
          absl::StrCat("the backup follows epoch ", follow.epoch, ", and this is ", epoch_));
    }
    // A backup that joins again begins again. As a member it would lack records that count as accepted by it.
    if (joins && IsMember(follow.incarnation)) {
      return absl::FailedPreconditionError("this server is a member, or about to be, and cannot join again");
    }
    uint64_t from = 0;
    if (!joins) {
      const absl::StatusOr<uint64_t> followed = stream_->Follow(follow.incarnation, follow.accepted);
      if (!followed.ok()) return followed.status();
      from = *followed;
    } else {
      stream_->Forget(follow.incarnation);
      budget_.Forget(follow.incarnation);
    }
    Follower& follower = expected_[follow.incarnation];
    follower.connection = feed.connection = ++connections_;
    follower.accepted = from < follow.accepted ? 0 : from;  // if it must discard records, it first reports when it has
    follower.waits = joins;
    follower.leaves = false;
    ++follower.heard;
    if (joins) {
      follower.address = follow.address;
      follower.move = follow.move;
      follower.taker = follow.taker;
      follower.from = 0;
    }
    advanced = Advance();
  }
  if (advanced) notifier()->NotifyTurn();
  notifier()->NotifyRecord();  // the worker of the previous connection then closes that
  Tell();
  return feed;
}

absl::StatusOr<uint64_t> GroupStream::Begin(uint64_t joiner, uint64_t items) {
  uint64_t from = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = expected_.find(joiner);
    if (stream_ == nullptr || found == expected_.end() || !found->second.waits) {
      return absl::FailedPreconditionError("it no longer waits");
    }
    from = stream_->Begin(joiner);
    found->second.from = found->second.accepted = from;
    found->second.items = items;
    found->second.waits = false;
  }
  notifier()->NotifyRecord();  // the worker then sends the joiner its answer
  return from;
}

absl::StatusOr<std::optional<RecordSource::Start>> GroupStream::StartOf(const FeedId& feed) {
  absl::MutexLock lock(&mutex_);
  const Follower* const backup = Current(feed);
  if (backup == nullptr) return GivenUp();
  if (backup->waits) return std::nullopt;
  return Start{.after = stream_->SentTo(feed.backup), .items = backup->items};
}

void GroupStream::Gone(const FeedId& feed) {
  {
    absl::MutexLock lock(&mutex_);
    if (Follower* const backup = Current(feed); backup != nullptr) backup->connection = 0;
  }
  Tell();
}

bool GroupStream::IsMember(uint64_t backup) const {
  return must_accept_.has_value() &&
         std::find(must_accept_->begin(), must_accept_->end(), backup) != must_accept_->end();
}

GroupStream::Follower* GroupStream::Current(const FeedId& feed) {
  const auto found = expected_.find(feed.backup);
  return stream_ == nullptr || found == expected_.end() || found->second.connection != feed.connection ? nullptr
                                                                                                       : &found->second;
}

absl::StatusOr<std::optional<cluster::OutgoingBatch>> GroupStream::NextBatch(const FeedId& feed, size_t most_bytes,
                                                                             uint64_t clock_us, bool alone) {
  absl::MutexLock lock(&mutex_);
  if (Current(feed) == nullptr) return GivenUp();
  return stream_->NextBatch(feed.backup, most_bytes, clock_us, alone);
}

absl::Status GroupStream::Accepted(const FeedId& feed, const Acceptance& acceptance) {
  const uint64_t accepted = acceptance.accepted;
  bool advanced = false, is_news = false;
  {
    absl::MutexLock lock(&mutex_);
    Follower* const backup = Current(feed);
    if (backup == nullptr) return absl::OkStatus();
    ++backup->heard;
    if (acceptance.silence_ms != 0) backup->silence_ms = acceptance.silence_ms;
    is_news = acceptance.leaves && !backup->leaves;
    backup->leaves = acceptance.leaves;
    if (absl::Status status = stream_->Accepted(feed.backup, accepted); !status.ok()) return status;
    backup->accepted = std::max(backup->accepted, accepted);
    budget_.OnAccepted(feed.backup, accepted, acceptance.room);
    advanced = Advance();
    if (awaited_bytes_.has_value() && stream_->kept_bytes() <= *awaited_bytes_) {
      is_news = true;
      awaited_bytes_.reset();
    }
  }
  if (advanced) notifier()->NotifyTurn();
  if (is_news) Tell();
  return absl::OkStatus();
}

bool GroupStream::Advance() {
  bool waited_for = false;
  if (stream_ == nullptr) return false;
  if (must_accept_.has_value()) {
    const uint64_t committed = stream_->Commit(*must_accept_);
    waited_for = committed != committed_.load(std::memory_order_relaxed);
    if (waited_for) committed_.store(committed, std::memory_order_seq_cst);
  }
  // An acceptance by a joiner also makes room, although it commits nothing.
  if (refused_at_bytes_ != 0 && stream_->kept_bytes() < refused_at_bytes_) {
    refused_at_bytes_ = 0;
    waited_for = true;
  }
  return waited_for;
}

}  // namespace farlook::server
