// One connection of a worker, and what belongs to it.
#ifndef FARLOOK_SERVER_LINK_H_
#define FARLOOK_SERVER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kv/handshake.h"
#include "rdma/transport.h"
#include "server/held_writes.h"
#include "server/pull_queue.h"
#include "server/reply_queue.h"
#include "server/room_turns.h"
#include "server/session.h"

namespace farlook::server {

// Thread safety: none; belongs to its worker.
//
//     silent -> (Hello) -> welcome, which is: has a session -> closing
//                       -> waits for the connection that its session has -> welcome
//                       -> refused -> closing
struct Link {
  explicit Link(std::unique_ptr<rdma::Connection> accepted)
      : connection(std::move(accepted)), replies(connection.get()) {
    connection->context = this;
  }

  // The link of a connection of a worker: the only cast of a context.
  static Link& Of(const rdma::Connection& connection) { return *static_cast<Link*>(connection.context); }

  bool welcome() const { return session != nullptr; }

  std::unique_ptr<rdma::Connection> connection;
  Session* session = nullptr;  // null until it is welcome
  ReplyQueue replies;          // at most the session's window of them: who keeps the protocol is not owed more
  std::unique_ptr<PullQueue> pulls;
  HeldWrites held;
  RoomQueue room;
  bool room_turn_is_pulls = false;  // of those and of pulls that wait for room, in turns

  // Before it is welcome: when it is closed unless something happens. The Hello must come, or a refusal be read.
  int64_t due_ns = 0;
  bool refused = false;

  // With its session: the connection with which the client goes on, which is welcome when this one has drained; and of
  // that one, which it waits for, and with what Hello.
  Link* successor = nullptr;
  Link* predecessor = nullptr;
  kv::Hello hello;

  // Of counters.
  kv::ServerRange counters;    // the cells, if it may use the key to them
  bool has_cells_key = false;  // was told that it may
  uint64_t holder = 0;         // set by CounterLinks: it may know cells
  int64_t told_ns = 0;         // when its last CellNotice was sent

  bool closing = false;     // what it still sends is not looked at
  bool unrung = false;      // something was posted since the last Ring()
  bool unfinished = false;  // has replies, pulls or held writes: is in Worker::unfinished_
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_LINK_H_
