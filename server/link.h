// One connection of a worker, and what belongs to it.
#ifndef FARLOOK_SERVER_LINK_H_
#define FARLOOK_SERVER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kv/cluster_map.h"
#include "kv/handshake.h"
#include "rdma/transport.h"
#include "server/client_figures.h"
#include "server/feed.h"
#include "server/held_writes.h"
#include "server/pull_queue.h"
#include "server/reply_queue.h"
#include "server/request_times.h"
#include "server/room_turns.h"
#include "server/roster.h"
#include "server/session.h"
#include "server/users.h"

namespace farlook::server {

// Who has connected.
struct Visitor {
  // What was said, of one who has to prove who it is.
  struct Unproven {
    uint64_t session = 0;   // that it means to go on with, for which it was let in beyond the bound; 0: it was not
    kv::ServerRange table;  // to be told afterwards
    std::string hello;      // as it was said; empty: not yet
    std::string challenge;
  };

  User user;                                     // without a name where nobody is asked
  std::optional<rdma::PeerCredentials> process;  // that the kernel vouches for
  std::unique_ptr<Unproven> unproven;            // null: it has proved who it is, or need not
  // Of one who has proved it: the table, to be told with the Welcome, and the server's own proof.
  kv::ServerRange granted;
  kv::Mac proof = {};
};

// Thread safety: none; belongs to its worker.
//
//     silent -> (Hello; where it must prove who it is also Challenge and Proof)
//                       -> welcome, which is: has a session -> closing
//                       -> waits for the connection that its session has -> welcome
//                       -> refused -> closing
struct Link {
  // For operators it is in `roster`, which may be null, as one of the worker of this number.
  Link(std::unique_ptr<rdma::Connection> accepted, Visitor visitor, Roster* roster, int worker, int64_t now_ns)
      : connection(std::move(accepted)),
        replies(connection.get()),
        who(std::move(visitor)),
        entry(std::make_unique<Roster::Entry>(roster, connection->peer(), worker, now_ns)) {
    connection->context = this;
  }

  // The link of a connection of a worker: the only cast of a context.
  static Link& Of(const rdma::Connection& connection) { return *static_cast<Link*>(connection.context); }

  bool welcome() const { return session != nullptr; }

  // Of memory that waits for the client: replies that it does not take, and its writes that wait for others, for room,
  // or to be pulled.
  size_t kept_bytes() const {
    return replies.bytes() + held.bytes() + room.bytes() + committing_bytes + (pulls != nullptr ? pulls->bytes() : 0);
  }

  std::unique_ptr<rdma::Connection> connection;
  Session* session = nullptr;  // null until it is welcome
  ReplyQueue replies;          // at most the session's window of them: who keeps the protocol is not owed more
  std::unique_ptr<PullQueue> pulls;
  HeldWrites held;
  RoomQueue room;
  size_t committing_bytes = 0;  // of payloads that are told when the group has committed what they wait for
  std::unique_ptr<Feed> feed;   // of a backup
  // Of a cluster's group: slots of which a write was refused. So is each that comes after it, until the client says
  // that it has heard that (kv::Request::kAfterMoved): else, where the slot comes back, it would be before what is
  // tried again. Null: none yet.
  std::unique_ptr<kv::SlotSet> moved;
  bool is_introduced = false;       // members know whose its session is, and that its client knows the present epoch
  bool waits_for_group = false;     // is in Worker::group_waiters_
  bool room_turn_is_pulls = false;  // of those and of pulls that wait for room, in turns

  // Before it is welcome: when it is closed unless something happens. The Hello must come, or a refusal be read.
  int64_t due_ns = 0;
  bool refused = false;

  bool watches = false;      // it came to READ the epoch word only
  bool is_watching = false;  // and was let in

  // With its session: the connection with which the client goes on, which is welcome when this one has drained; and of
  // that one, which it waits for, and with what Hello.
  Link* successor = nullptr;
  Link* predecessor = nullptr;
  kv::Hello hello;  // its user and flags are what it may say

  Visitor who;
  std::unique_ptr<Roster::Entry> entry;  // null only when CounterLinks kept the connection
  bool operates = false;                 // it has an operator's place
  OpenRequests open;                     // that are timed
  bool counts_as_unproven = false;       // among those that Shared::max_unproven() bounds
  int64_t welcome_ns = 0;                // when it was let in
  std::unique_ptr<ToldFigures> told;     // null: nothing yet

  // Of counters.
  kv::ServerRange counters;    // the cells, if it may use the key to them
  bool has_cells_key = false;  // was told that it may
  uint64_t holder = 0;         // set by CounterLinks: it may know cells
  int64_t told_ns = 0;         // a time when its last CellNotice had been sent

  bool closing = false;       // what it still sends is not looked at
  bool unrung = false;        // something was posted since the last Ring()
  bool pulling = false;       // is in Worker::pull_turns_
  bool stuck = false;         // is in Worker::stuck_
  bool deaf = false;          // it is not listened to until less is kept for it
  size_t counted_bytes = 0;   // what of kept_bytes() is in the figures
  int64_t look_ns = 0;        // while stuck: not to be looked at before
  int64_t look_pause_ns = 0;  // and how long after the last look that is
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_LINK_H_
