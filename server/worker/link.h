// One connection of a worker, and its state.
#ifndef FARLOOK_SERVER_WORKER_LINK_H_
#define FARLOOK_SERVER_WORKER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/linked_list.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"
#include "server/executor/client_figures.h"
#include "server/executor/pull_queue.h"
#include "server/executor/request_times.h"
#include "server/executor/room_turns.h"
#include "server/replication/replication_feed.h"
#include "server/session/connection_list.h"
#include "server/session/connection_quota.h"
#include "server/session/held_writes.h"
#include "server/session/reply_queue.h"
#include "server/session/session.h"
#include "server/session/users.h"

namespace farlook::server {

// The client of a connection.
struct Visitor {
  // Handshake state of a client that is not yet authenticated.
  struct Unproven {
    uint64_t session = 0;   // to resume, for which it was admitted beyond the limit; 0: it was not
    kv::ServerRange table;  // to send after the proof
    std::string hello;      // as received; empty: not yet
    std::string challenge;
  };

  User user;                                     // without a name if the server has no users
  std::optional<rdma::PeerCredentials> process;  // credentials from the kernel
  std::unique_ptr<Unproven> unproven;            // null: authenticated, or no proof is needed
  // After a proof: the table's range, sent with the Welcome, and the server's own proof.
  kv::ServerRange granted;
  kv::Mac proof = {};
};

// Tags of the queues of a worker in which a connection can be.
struct SilentTag;      // has not sent its Hello or its proof, or was refused
struct ProbeTag;       // has a probe's place, and is not closing
struct UnrungTag;      // something was posted since the last Ring()
struct StuckTag;       // its send queue was full
struct PullTurnTag;    // has pulls that wait only for their turn
struct GroupTag;       // its held requests found a key busy, or the stream full
struct FeedTag;        // belongs to a backup
struct CellHolderTag;  // may know cells of counters
struct CellNoticeTag;  // was sent a notice of deleted counters

struct Link;
template <typename Tag>
using LinkQueue = LinkedQueue<Link, Tag>;

// Thread safety: none; belongs to its worker.
//
//     silent -> (Hello; where it must prove who it is also Challenge and Proof)
//                       -> welcome, which is: has a session -> closing
//                       -> waits for the connection that its session has -> welcome
//                       -> refused -> closing
struct Link : Linked<SilentTag>,
              Linked<ProbeTag>,
              Linked<UnrungTag>,
              Linked<StuckTag>,
              Linked<PullTurnTag>,
              Linked<RoomTurnTag>,
              Linked<GroupTag>,
              Linked<FeedTag>,
              Linked<CellHolderTag>,
              Linked<CellNoticeTag> {
  // Adds the connection, as one of this worker's, to `connections` (may be null), which operators list.
  Link(std::unique_ptr<rdma::Connection> accepted, Visitor visitor, ConnectionList* connections, int worker,
       int64_t now_ns)
      : connection(std::move(accepted)),
        replies(connection.get()),
        came_ns(now_ns),
        who(std::move(visitor)),
        entry(std::make_unique<ConnectionList::Entry>(connections, connection->peer(), worker, now_ns)) {
    connection->context = this;
  }

  // State in a group.
  struct InGroup {
    size_t committing_bytes = 0;             // of requests that wait until the group has committed them
    size_t withheld_bytes = 0;               // of replies that wait until enough members are in sync
    absl::flat_hash_set<uint64_t> withheld;  // the request numbers of these replies
    std::unique_ptr<ReplicationFeed> feed;   // of a backup; null: it is none
    // In a cluster: slots of which a write was refused. Later writes to them are refused too, until the client confirms
    // with kv::Request::kAfterMoved that it knows. Otherwise, when the slot returns, they would be executed before
    // those that are sent again. Null: none yet.
    std::unique_ptr<kv::SlotSet> moved;
    bool is_introduced = false;  // members know its session, and that its client knows the present epoch
  };

  // State of counters.
  struct Cells {
    kv::ServerRange range;   // the cells, if it may use the key to them
    bool has_key = false;    // the Welcome granted that
    uint64_t holder = 0;     // set by CounterLinks: it may know cells
    int64_t noticed_ns = 0;  // a time when its last CellNotice had been sent
  };

  // Returns the link of a connection of a worker. This is the only cast of a context.
  static Link& Of(const rdma::Connection& connection) { return *static_cast<Link*>(connection.context); }

  bool welcome() const { return session != nullptr; }

  // Returns the bytes of memory kept for the client: unsent replies, requests and replies that wait for its group, and
  // writes that wait for other writes, for room or for values.
  size_t kept_bytes() const {
    return replies.bytes() + held.bytes() + room.bytes() + group.committing_bytes + group.withheld_bytes +
           (pulls != nullptr ? pulls->bytes() : 0);
  }

  std::unique_ptr<rdma::Connection> connection;
  Session* session = nullptr;  // null until it is welcome
  ReplyQueue replies;          // at most the session's window of them: a correct client has no more outstanding
  std::unique_ptr<PullQueue> pulls;
  HeldWrites held;
  RoomQueue room;
  bool room_turn_is_pulls = false;  // `room` and `pulls` take turns for room

  const int64_t came_ns;
  // Before the Welcome: the time when it is closed, unless its Hello or proof arrives. After a refusal: the time for
  // reading it.
  int64_t due_ns = 0;
  bool refused = false;

  bool watches = false;      // connected only to READ the epoch word
  bool is_watching = false;  // was welcomed as such

  // Both connections during a resumption. `successor`: the new connection, which is welcome when this one has drained.
  // `predecessor`: the old connection that this one waits for; then `hello` is the Hello to be handled.
  Link* successor = nullptr;
  Link* predecessor = nullptr;
  kv::Hello hello;  // with user and flags restricted to what is allowed

  Visitor who;
  std::unique_ptr<ConnectionList::Entry> entry;     // null only when CounterLinks kept the connection
  Place place = Place::kClient;                     // the kind of place that it occupies
  OpenRequests open;                                // requests that are timed
  bool counts_as_unproven = false;                  // counts toward Shared::max_unproven()
  int64_t welcome_ns = 0;                           // time of the Welcome
  std::unique_ptr<ClientStatsReport> stats_report;  // null: no report yet

  InGroup group;
  Cells cells;

  bool closing = false;       // its further messages are ignored
  bool paused = false;        // receives nothing until less memory is kept for it
  size_t counted_bytes = 0;   // the part of kept_bytes() that is in the figures
  int64_t look_ns = 0;        // while it is stuck: time of the next look
  int64_t look_pause_ns = 0;  // pause between the last look and that one
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_LINK_H_
