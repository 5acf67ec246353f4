// One connection of a worker, and what belongs to it.
#ifndef FARLOOK_SERVER_LINK_H_
#define FARLOOK_SERVER_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "rdma/transport.h"
#include "server/mailbox.h"
#include "server/pull_queue.h"
#include "server/session.h"

namespace farlook::server {

// Thread safety: none; belongs to its worker.
struct Link {
  std::unique_ptr<rdma::Connection> connection;  // its context is this Link
  Session* session = nullptr;
  std::unique_ptr<PullQueue> pulls;

  // Replies that found the send queue full, in order. At most the session's
  // window of them: who keeps the protocol is not owed more.
  std::deque<std::string> backlog;

  // Of counters. Not read-only, and its Welcome bore the key to the cells.
  bool has_cells_key = false;
  uint64_t holder = 0;  // set by CounterLinks: it may know cells
  int64_t told_ns = 0;  // when its last CellNotice was sent

  bool closing = false;     // what it still sends is not looked at
  bool unrung = false;      // something was posted since the last Ring()
  bool unfinished = false;  // has a backlog or pulls: is in Worker::unfinished_

  // The connection with which the client goes on with the session. It is let in
  // when this one has drained.
  Arrival successor;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_LINK_H_
