// Admits the clients of a worker and owns its connections. It accepts them, checks Hello and proof, and assigns
// sessions. It closes connections that stay silent, are revoked, or are kicked.
//
//     mailbox -> Admit -> silent -> Greet: Hello -> (Challenge -> Proof) -> Admission -> Welcome
//                 |          |                          |                       |
//               Reject    CloseSilent                 Refuse       waits for the session's former connection
//
// A connection that only occupies a place is closed in favor of a new one after the time that a client needs. Admitting
// and greeting get a share of the worker's time (time_share.h) while other clients have requests.
#ifndef FARLOOK_SERVER_WORKER_DOOR_H_
#define FARLOOK_SERVER_WORKER_DOOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"
#include "server/base/log.h"
#include "server/base/time_share.h"
#include "server/executor/mailbox.h"
#include "server/session/session.h"
#include "server/worker/admission.h"
#include "server/worker/link.h"
#include "server/worker/outbox.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

// Thread safety: one thread at a time, except for Deliver(), load() and waiting().
class Door final {
 public:
  // An endpoint of a listener, and the ranges of the table and of the counters' cells as its clients name them.
  struct Port {
    rdma::Endpoint* endpoint;
    rdma::RemoteRange table;
    rdma::RemoteRange cells;  // with rkey 0: its clients use messages
  };
  using Links = absl::flat_hash_map<Link*, std::unique_ptr<Link>>;

  // `wake` is called on the thread of Deliver().
  Door(WorkerContext* context, Outbox* outbox, Admission* admission, std::function<void()> wake)
      : context_(*context), outbox_(*outbox), admission_(*admission), mailbox_(std::move(wake)) {}
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void AddPort(const Port& port) { ports_.push_back(port); }
  const std::vector<Port>& ports() const { return ports_; }

  // Hands a client over. Any thread.
  void Deliver(Arrival arrival) {
    load_.fetch_add(1, std::memory_order_relaxed);
    mailbox_.Put(std::move(arrival));
  }
  // Connections, and clients delivered and not yet admitted. Any thread.
  int64_t load() const { return load_.load(std::memory_order_relaxed); }
  // Clients delivered and not yet admitted. Any thread.
  size_t waiting() const { return mailbox_.size(); }

  const Links& links() const { return links_; }
  // Connections that are not yet authenticated and count toward Shared::max_unproven().
  int64_t unproven() const { return unproven_; }

  // Admits a client if it is time. `alone_ns`: from then on no other client has requests.
  size_t AdmitInTurn(int64_t alone_ns) {
    arrivals_rest_ = false;
    return mailbox_.empty() ? 0 : AdmitNext(alone_ns);
  }
  // Returns whether AdmitInTurn() has something to do now.
  bool HasArrivals() const { return !mailbox_.empty() && !arrivals_rest_; }
  // Rejects the clients that wait, while draining: otherwise they would not learn why, and take it for a refusal of
  // their own.
  void RejectTheRest() {
    while (!mailbox_.empty()) Admit(mailbox_.Take());
  }

  // Handles a message of a connection that is not welcome yet. Returns false if the connection is a watcher's and the
  // message does not belong to the handshake.
  bool Greet(Link& link, absl::string_view message);
  // Sends a refusal and leaves the client some time to read it before its connection is closed.
  void Refuse(Link& link, kv::Refusal refusal);
  // Admitting, greeting or clearing up took from `start_ns` until now.
  void Took(int64_t start_ns) { comings_.Took(start_ns, context_.shared.clock->NowNs()); }

  // Returns whether CloseSilent() has to know when messages were looked for.
  bool has_silent() const { return !silent_.empty(); }
  // Closes those that had their time before messages were looked for, at `looked_ns`. Returns their number.
  size_t CloseSilent(int64_t looked_ns) {
    if (silent_.empty()) return 0;
    if (looked_ns >= silent_due_ns_) return CloseDue(looked_ns);
    context_.WakeBy(silent_due_ns_);
    return 0;
  }
  // Closes the connections of users that were revoked, and those that operators ended. Returns their number.
  size_t DropUnwanted() {
    const Shared& shared = context_.shared;
    size_t dropped = 0;
    if (shared.users != nullptr && shared.users->generation() != users_seen_) [[unlikely]]
      dropped += DropRevoked();
    if (shared.connections != nullptr && shared.connections->kicks() != kicks_seen_) [[unlikely]]
      dropped += DropKicked();
    return dropped;
  }

  // A connection begins to close, or has ended: it waits for nothing any more.
  void StopWaiting(Link& link);
  // Destroys an ended connection. `leaves_place`: others may have its place.
  void Destroy(Link* link, bool leaves_place);
  // Ends the session of a destroyed connection, or attaches it to the successor, if there is one.
  void Part(Session* session, Link* successor);
  void UpdateGauges();

 private:
  // CloseSilent() when the first of them has had its time.
  size_t CloseDue(int64_t looked_ns);
  // Admitting (door_admit.cc).
  size_t AdmitNext(int64_t alone_ns);
  void Admit(Arrival arrival);
  absl::StatusOr<Visitor> Identify(const rdma::ConnectionRequest& request) const;
  void Accept(Arrival& arrival, Visitor who, Place place, bool returns);
  void Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason);
  void OnAcceptFailed(Arrival& arrival, const absl::Status& status);
  Place TakePlace(const kv::ConnectData& connect, const Visitor& who, std::string* why);
  void LeavePlace(Place place);
  bool HasRoomForProbe();
  bool HasRoomForUnproven();
  bool DropSilent(absl::FunctionRef<bool(const Link&)> counts, absl::string_view reason);
  bool Returns(uint64_t session) const;

  // The handshake.
  void Challenge(Link& link, absl::string_view hello);
  void CheckProof(Link& link, absl::string_view message);
  void Consider(Link& link);
  void WaitForPredecessor(Link& link, Link& old);
  void Welcome(Link& link, Session* session, bool resumed);
  void WelcomeWatcher(Link& link);
  bool GrantTable(Link& link, kv::Welcome* welcome);
  void CloseAtDueTime(Link& link);

  size_t DropRevoked();
  size_t DropKicked();
  void LeaveUnproven(Link& link);

  WorkerContext& context_;
  Outbox& outbox_;
  Admission& admission_;
  Mailbox mailbox_;
  std::vector<Port> ports_;
  Links links_;
  std::atomic<int64_t> load_{0};
  LinkQueue<SilentTag> silent_;                    // each has a due_ns
  int64_t silent_due_ns_ = WorkerContext::kNever;  // when the first of them has had its time, or before
  LinkQueue<ProbeTag> probes_;                     // the oldest first: ConnectionQuota::kForProbes at most
  int64_t unproven_ = 0;                           // with Link::counts_as_unproven: Shared::max_unproven() at most
  TimeShare comings_;                              // of admitting clients, greeting them, and clearing up after them
  bool arrivals_rest_ = false;                     // there are some, and the worker wakes by their turn
  uint64_t users_seen_ = 0;                        // the generation of Shared::users
  uint64_t kicks_seen_ = 0;                        // of Shared::connections
  RateLimit reject_log_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_DOOR_H_
