#include "server/worker/backup_feeds.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/words.h"
#include "server/base/log.h"

namespace farlook::server {

std::optional<kv::Refusal> BackupFeeds::OnMessage(Link& link, absl::string_view message, const absl::Status& status) {
  if (link.refused) return std::nullopt;
  if (link.group.feed != nullptr) {
    OnAccepted(link, message);
    return std::nullopt;
  }
  if (context_.shared.records != nullptr && kv::IsFirstMessage(message, kv::FirstMessage::kFollow)) {
    return Begin(link, message);
  }
  context_.closer->Drop(link, status.message());
  return std::nullopt;
}

absl::StatusOr<FeedId> BackupFeeds::Admit(const Link& link, const absl::StatusOr<kv::Follow>& follow) {
  if (!follow.ok()) return follow.status();
  if (context_.shared.users != nullptr && !link.who.user.admin) {
    return absl::PermissionDeniedError(absl::StrCat("user ", link.who.user.name, " lacks the role admin"));
  }
  if (context_.shared.may_join != nullptr) {
    if (absl::Status status = context_.shared.may_join(*follow); !status.ok()) return status;
  }
  return context_.shared.records->Admit(*follow);
}

std::optional<kv::Refusal> BackupFeeds::Begin(Link& link, absl::string_view message) {
  const absl::StatusOr<kv::Follow> follow = kv::Follow::Decode(message);
  const absl::StatusOr<FeedId> feed = Admit(link, follow);
  if (!feed.ok()) {
    kv::Refusal refusal;
    refusal.code =
        absl::IsPermissionDenied(feed.status()) ? kv::RefusalCode::kNotAllowed : kv::RefusalFor(feed.status());
    refusal.text = std::string(feed.status().message());
    // Shows a follower of an earlier epoch the present one, before a slow directory does.
    if (absl::IsFailedPrecondition(feed.status()) && follow.ok() && follow->move == 0) {
      RecordSource::Known known = context_.shared.records->known();
      refusal.revision = known.revision;
      refusal.record = std::move(known.record);
    }
    return refusal;
  }
  link.group.feed = std::make_unique<ReplicationFeed>(*feed, *follow);
  feeds_.Add(&link);
  link.entry->Set(ConnectionList::State::kBackup);
  Log(LogLevel::kInfo, "a backup follows",
      {{"peer", link.connection->peer()},
       {"incarnation", absl::Hex(follow->incarnation)},
       {"accepted", follow->accepted}});
  AnswerFollow(link);
  return std::nullopt;
}

// Sends the answer as soon as it is known from which record on the backup is sent all. Returns false if it is not known
// yet, or if the connection was dropped.
bool BackupFeeds::AnswerFollow(Link& link) {
  ReplicationFeed& feed = *link.group.feed;
  if (feed.is_begun) return true;
  const absl::StatusOr<std::optional<RecordSource::Start>> start = context_.shared.records->StartOf(feed.id);
  if (!start.ok()) context_.closer->Drop(link, start.status().message());
  if (!start.ok() || !start->has_value()) return false;
  feed.is_begun = true;
  feed.accepted = feed.follow.accepted = (*start)->after;
  feed.follow.items = (*start)->items;
  outbox_.Send(link, feed.follow.Encode(), {});
  return true;
}

void BackupFeeds::OnAccepted(Link& link, absl::string_view message) {
  ReplicationFeed& feed = *link.group.feed;
  const std::optional<Acceptance> acceptance = Acceptance::Decode(message);
  if (!acceptance.has_value() || !feed.is_begun) {
    return context_.closer->Drop(link, "a backup's message is no acceptance");
  }
  feed.accepted = acceptance->accepted;
  if (acceptance->asks) feed.is_asked = true;
  const absl::Status status = context_.shared.records->Accepted(feed.id, *acceptance);
  if (!status.ok()) context_.closer->Drop(link, status.message());
}

// Returns the next records; a batch without any if the backup has waited too long for what was committed.
absl::StatusOr<std::optional<cluster::OutgoingBatch>> BackupFeeds::NextBatch(ReplicationFeed* feed) {
  const Shared& shared = context_.shared;
  const int64_t now_ns = shared.clock->NowNs();
  const uint64_t committed = shared.gate->committed();
  if (committed != feed->sent_commit && feed->commit_notice_ns == 0)
    feed->commit_notice_ns = now_ns + ReplicationFeed::kCommitNoticeNs;
  const bool alone = feed->commit_notice_ns != 0 && now_ns >= feed->commit_notice_ns;
  auto batch = shared.records->NextBatch(feed->id, ReplicationFeed::kBatchBytes, shared.time.At(now_ns), alone);
  if (batch.ok() && (alone || batch->has_value())) {
    feed->sent_commit = committed;
    feed->commit_notice_ns = 0;
  } else if (feed->commit_notice_ns != 0) {
    context_.WakeBy(feed->commit_notice_ns);
  }
  return batch;
}

bool BackupFeeds::fills() const {
  // One that waits for its turn to be filled has no answer yet.
  return feeds_.Any(
      [](const Link& link) { return link.group.feed->is_begun && !link.group.feed->follow.address.empty(); });
}

size_t BackupFeeds::Poll() {
  size_t done = 0;
  for (Link* link = feeds_.front(); link != nullptr; link = feeds_.Next(link)) {
    if (link->closing || !AnswerFollow(*link)) continue;
    // One message at most waits for room in the send queue.
    for (size_t most = kMessagesAtOnce; most > 0 && !link->closing && link->replies.empty(); --most) {
      if (!SendNext(*link, &done)) break;
    }
  }
  if (done > 0) outbox_.RingAll();
  return done;
}

// Sends the next message of the batch, or of the next batch, and counts it. Returns false if there is none.
bool BackupFeeds::SendNext(Link& link, size_t* done) {
  ReplicationFeed& feed = *link.group.feed;
  if (feed.batch.has_value()) {
    const absl::string_view piece = feed.batch->records.substr(feed.sent, kv::kMaxMessageBytes);
    feed.sent += piece.size();
    outbox_.Send(link, piece, {});
  } else {
    if (std::exchange(feed.is_asked, false)) {
      char bytes[Acceptance::kAnswerBytes];
      kv::StoreAs(bytes, feed.accepted);
      outbox_.Send(link, {bytes, sizeof bytes}, {});
      ++*done;
    }
    auto batch = NextBatch(&feed);
    if (!batch.ok()) {
      context_.closer->Drop(link, batch.status().message());
      ++*done;
      return false;
    }
    feed.batch = *std::move(batch);
    if (!feed.batch.has_value()) return false;
    const auto head = cluster::EncodeBatchHead(feed.batch->head, feed.batch->records);
    feed.sent = std::min(feed.batch->records.size(), kv::kMaxMessageBytes - head.size());
    outbox_.Send(link, {head.data(), head.size()}, feed.batch->records.substr(0, feed.sent));
  }
  if (feed.sent == feed.batch->records.size()) feed.batch.reset();
  ++*done;
  return true;
}

void BackupFeeds::Remove(Link& link) {
  if (link.group.feed != nullptr) context_.shared.records->Gone(link.group.feed->id);
  feeds_.Remove(&link);
}

}  // namespace farlook::server
