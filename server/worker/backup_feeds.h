// Feeds the backups of a group that connected to this worker of its primary: answers their first message, sends them
// batches of records, and takes their acceptances. See server/replication/replication_feed.h.
#ifndef FARLOOK_SERVER_WORKER_BACKUP_FEEDS_H_
#define FARLOOK_SERVER_WORKER_BACKUP_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/stream.h"
#include "kv/wire/handshake.h"
#include "server/replication/replication_feed.h"
#include "server/worker/link.h"
#include "server/worker/outbox.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

// Thread safety: none; belongs to its worker.
class BackupFeeds final {
 public:
  BackupFeeds(WorkerContext* context, Outbox* outbox) : context_(*context), outbox_(*outbox) {}

  // Handles a message that is not a request; `status` says why. Drops the connection unless the message is a backup's.
  // Returns a refusal to be sent to a backup that may not follow.
  std::optional<kv::Refusal> OnMessage(Link& link, absl::string_view message, const absl::Status& status);

  bool empty() const { return feeds_.empty(); }
  // Returns whether a joining member is being sent copies of items.
  bool fills() const;
  // Marks the present end of the records, for HasNews(). Called before Poll().
  void LookAtRecords() { records_seen_ = context_.shared.gate->notifier()->records(); }
  // Sends each backup what its send queue takes. Returns the number of messages.
  size_t Poll();
  // Returns whether records were added after LookAtRecords().
  bool HasNews() const { return !empty() && context_.shared.gate->notifier()->records() != records_seen_; }
  // Forgets a connection that has ended.
  void Remove(Link& link);

 private:
  // Messages that one Poll() sends to a backup.
  static constexpr size_t kMessagesAtOnce = 64;

  absl::StatusOr<FeedId> Admit(const Link& link, const absl::StatusOr<kv::Follow>& follow);
  std::optional<kv::Refusal> Begin(Link& link, absl::string_view message);
  bool AnswerFollow(Link& link);
  void OnAccepted(Link& link, absl::string_view message);
  absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(ReplicationFeed* feed);
  bool SendNext(Link& link, size_t* done);

  WorkerContext& context_;
  Outbox& outbox_;
  LinkQueue<FeedTag> feeds_;
  uint64_t records_seen_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_BACKUP_FEEDS_H_
