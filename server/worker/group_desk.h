// Serves the clients of a group's primary: begins their requests at the commit gate, and answers them when all members
// have accepted them. The rules: server/replication/commit_gate.h.
//
//     Try -> (not this group's slot: kMoved) -> CommitGate::Begin -> committing -> committed: End, reply
//                        |                                                            |
//                       kBusy: held, waits for the gate's next turn        too few members in sync: withheld
//
// Without a group only the functions that say so are called.
#ifndef FARLOOK_SERVER_WORKER_GROUP_DESK_H_
#define FARLOOK_SERVER_WORKER_GROUP_DESK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kv/wire/message.h"
#include "server/replication/commit_gate.h"
#include "server/session/session.h"
#include "server/worker/admission.h"
#include "server/worker/backup_feeds.h"
#include "server/worker/link.h"
#include "server/worker/outbox.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

// Thread safety: one thread at a time, except for Do().
class GroupDesk final {
 public:
  // `wake` has the worker poll.
  GroupDesk(WorkerContext* context, Outbox* outbox, Admission* admission, std::function<void()> wake);
  GroupDesk(const GroupDesk&) = delete;
  GroupDesk& operator=(const GroupDesk&) = delete;

  // Backups that connected to this worker.
  BackupFeeds& feeds() { return feeds_; }
  const BackupFeeds& feeds() const { return feeds_; }

  // Has `task` called on the worker's thread, in Poll(), again whenever the worker was woken, until it returns true.
  // Any thread.
  void Do(std::function<bool()> task);

  // The worker is awake; without a group it does nothing.
  void Woke() {
    if (sleeper_ != nullptr) [[unlikely]]
      sleeper_->Woke();
  }
  // Makes progress: runs tasks, feeds backups, answers what is committed, and passes each connection that waited for
  // the gate to `try_again`. Returns how many things it did.
  size_t Poll(absl::FunctionRef<void(Link&)> try_again);
  // Prepares to sleep. Returns false if there is something to do.
  bool Arm();

  // Executes a request. Returns kLater if it is answered later: when it is committed, or by its PullQueue.
  Outcome Try(Link& link, const kv::Request& request, uint64_t hash, bool may_step, absl::string_view* payload);
  // Notes that a write of this slot was refused; later ones of the connection are refused too (Link::InGroup::moved).
  static Outcome Moved(Link& link, kv::RequestType type, uint64_t hash);
  // Updates Link::InGroup::moved by the request's flags. Called when the request arrives: it may be executed after
  // others.
  void TakeFlags(Link& link, const kv::Request& request, uint64_t hash);
  // Has the request answered when it is committed.
  void AwaitCommit(Link& link, uint64_t number, uint64_t hash, const CommitGate::Begun& begun,
                   absl::string_view payload);
  // Has the connection tried again at the gate's next turn.
  void WaitForTurn(Link& link) {
    if (!link.closing) waiters_.Add(&link);
  }
  // Returns whether requests wait for their commit; without a group none does.
  bool has_committing() const { return !committing_.empty(); }
  // Redirects the answer: the client sent the request again, over another connection of its session.
  void Reattach(Link& link, uint64_t number);
  // Answers a write that is done, now or before. A reply acknowledges that enough members are in sync: while there are
  // too few, it is withheld, once for each number, however often the client asks again.
  void AnswerWrite(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload);

  // Forgets a connection that has ended. Its requests go on without it.
  void Remove(Link& link);
  // Forgets what no client can request again once a session has ended: reads that wait for the group, and the payloads
  // of its writes. Otherwise clients that connect, read and disconnect could fill the memory while a backup is
  // suspended.
  void ForgetSession(uint64_t session);

  // Appends to the stream the replies that clients of the sessions may ask for again, for a joiner that follows the
  // stream from the record after `from` on. Returns false if it must be called again when the gate's turn() has
  // changed.
  bool AppendReplies(uint64_t from, OutcomesToReport* rest);

 private:
  // A request that waits for the group.
  struct Committing {
    CommitGate::Begun begun;
    uint64_t hash;
    uint64_t session, number;
    Link* link;  // null: the connection ended, and the client has not asked again
    std::string payload;

    size_t bytes() const { return sizeof(*this) + payload.size(); }
  };
  // The reply to a write, while too few members are in sync. One for each connection and request number.
  struct Withheld {
    Link* link;
    uint64_t number;
    Outcome outcome;
    std::string payload;

    size_t bytes() const { return sizeof(*this) + payload.size(); }
  };

  bool takes_writes() const { return context_.shared.serving == nullptr || context_.shared.serving->takes_writes(); }
  bool IsOfAnotherGroup(const kv::Request& request, uint64_t hash) const;
  static bool ComesAfterMoved(const Link& link, const kv::Request& request, uint64_t hash);
  CommitGate::Begun Begin(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                          absl::string_view* payload);
  size_t RunTasks();
  bool HasTasks();
  bool AnswerCommitted();
  void AnswerWithheld();

  WorkerContext& context_;
  Outbox& outbox_;
  Admission& admission_;
  BackupFeeds feeds_;
  const std::function<void()> wake_;
  Sleeper* sleeper_ = nullptr;         // at the gate; null without a group
  std::deque<Committing> committing_;  // by sequence
  std::vector<Withheld> withheld_;
  LinkQueue<GroupTag> waiters_;
  uint64_t turn_seen_ = 0;  // of the gate; 0: something is due
  absl::Mutex tasks_mutex_;
  std::vector<std::function<bool()>> tasks_ ABSL_GUARDED_BY(tasks_mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_GROUP_DESK_H_
