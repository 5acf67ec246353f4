#include "server/group_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

absl::Status GivenUp() {
  return absl::AbortedError("this backup follows over a later connection, or may not follow any more");
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
  for (const uint64_t member : members) expected_[member];
  committed_.store(stream_->committed(), std::memory_order_release);
}

void GroupStream::Cease() {
  absl::MutexLock lock(&mutex_);
  stream_.reset();
  must_accept_.reset();
  expected_.clear();
}

uint64_t GroupStream::Append(absl::Span<const cluster::Record> records) {
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
    const absl::StatusOr<uint64_t> appended = stream_->Append(records, std::move(encoded));
    if (!appended.ok()) {
      refused_at_bytes_ = stream_->kept_bytes();
      return 0;
    }
    sequence = *appended;
    if (must_accept_.has_value() && must_accept_->empty()) {
      const bool was_refused = refused_at_bytes_ != 0;
      Advance();
      has_room = was_refused && refused_at_bytes_ == 0;
    }
  }
  // That it is committed already, who appends sees by itself.
  if (has_room && advanced_) advanced_();
  if (appended_) appended_();
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
    advanced = Advance();
  }
  if (advanced && advanced_) advanced_();
}

void GroupStream::EnterEpoch(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) stream_->EnterEpoch(epoch);
  epoch_ = epoch;
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
      if (!expected.contains(backup)) stream_->Forget(backup);
    }
    expected_ = std::move(expected);
    advanced = Advance();
  }
  if (advanced && advanced_) advanced_();
  if (appended_) appended_();  // whose connections are to end looks
}

void GroupStream::Forget(uint64_t backup) {
  bool advanced = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stream_ == nullptr || expected_.erase(backup) == 0) return;
    stream_->Forget(backup);
    advanced = Advance();
  }
  if (advanced && advanced_) advanced_();
  if (appended_) appended_();  // whose connection is to end looks
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
    if (!expected_.contains(follow.incarnation) && !joins) {
      return absl::PermissionDeniedError("the group does not know this backup, and nobody asked to add it");
    }
    if (follow.epoch != epoch_) {
      return absl::FailedPreconditionError(
          absl::StrCat("the backup follows epoch ", follow.epoch, ", and this is ", epoch_));
    }
    // One that joins again begins again. Where its acceptances count already it would lack what it is believed to have.
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
    }
    Follower& follower = expected_[follow.incarnation];
    follower.connection = feed.connection = ++connections_;
    follower.accepted = from < follow.accepted ? 0 : from;  // one that cuts off the rest says when it has
    follower.waits = joins;
    if (joins) {
      follower.address = follow.address;
      follower.move = follow.move;
      follower.taker = follow.taker;
      follower.from = 0;
    }
    advanced = Advance();
  }
  if (advanced && advanced_) advanced_();
  if (appended_) appended_();  // who has the connection before this one looks
  return feed;
}

absl::StatusOr<uint64_t> GroupStream::Begin(uint64_t joiner, uint64_t items) {
  uint64_t from = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = expected_.find(joiner);
    if (stream_ == nullptr || found == expected_.end() || !found->second.waits) {
      return absl::FailedPreconditionError("it does not wait any more");
    }
    from = stream_->Begin(joiner);
    found->second.from = found->second.accepted = from;
    found->second.items = items;
    found->second.waits = false;
  }
  if (appended_) appended_();  // it is to have its answer
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
  absl::MutexLock lock(&mutex_);
  if (Follower* const backup = Current(feed); backup != nullptr) backup->connection = 0;
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

absl::Status GroupStream::Accepted(const FeedId& feed, uint64_t accepted) {
  bool advanced = false, has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    Follower* const backup = Current(feed);
    if (backup == nullptr) return absl::OkStatus();
    if (absl::Status status = stream_->Accepted(feed.backup, accepted); !status.ok()) return status;
    backup->accepted = std::max(backup->accepted, accepted);
    advanced = Advance();
    has_room = awaited_bytes_.has_value() && stream_->kept_bytes() <= *awaited_bytes_;
    if (has_room) awaited_bytes_.reset();
  }
  if (advanced && advanced_) advanced_();
  if (has_room && room_) room_();
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
  // A joiner that has accepted something makes room, though nothing is committed by that.
  if (refused_at_bytes_ != 0 && stream_->kept_bytes() < refused_at_bytes_) {
    refused_at_bytes_ = 0;
    waited_for = true;
  }
  return waited_for;
}

}  // namespace farlook::server
