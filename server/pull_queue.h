// The values that a connection's requests announced and the server READs by itself out of the client's registered
// memory, straight to where the table will have them.
//
//     Add -> waiting -> reserved, READs posted -> all arrived, hash fits -> published -> ended kAnswered
//                                  |                          otherwise -> abandoned -> ended kAnswered, kBadValue
//                                  +- connection broke, READs flushed ->  abandoned -> ended kCut
//
// Where room must be made for a value, or for its key in the index, it waits for it before it is reserved, or before it
// is published; the worker calls MakeRoom() when it is this connection's turn (room_turns.h).
//
// Thread safety: none; belongs to the worker of its connection.
// Invariants:
//   * memory that a READ may still write into is not given back: a reservation is published or abandoned only when every
//     READ posted for it completed;
//   * nothing unverified is published: the hash is computed over the destination, after the last READ;
//   * nothing is begun, and nothing published, whose deadline has passed: it ends kAnswered, kExpired;
//   * at most kMaxActive reservations are held for one connection, whatever it asks for.
#ifndef FARLOOK_SERVER_PULL_QUEUE_H_
#define FARLOOK_SERVER_PULL_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kv/message.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/partition_locks.h"
#include "server/server_time.h"
#include "server/session.h"
#include "server/worker_stats.h"

namespace farlook::server {

class PullQueue {
 public:
  static constexpr size_t kMaxActive = 8;
  // READs are cut to this, so that other connections are served in between.
  static constexpr uint64_t kMaxReadBytes = 256 << 10;
  // READs posted at once; enough to fill a link, and few enough to be fair.
  static constexpr uint32_t kMaxPostedReads = 4;

  // All outlive the queue.
  PullQueue(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, WorkerStats* stats,
            rdma::Connection* connection);
  // Abandons what it may; see OnDisconnected().
  ~PullQueue();
  PullQueue(const PullQueue&) = delete;
  PullQueue& operator=(const PullQueue&) = delete;

  // Takes over a kPutPulled; copies what it needs of it.  Post() begins it.
  void Add(const kv::Request& request, uint64_t hash);

  // Begins what can begin and posts READs while the queue takes them.  Returns
  // whether it got anything done; the caller Ring()s.
  bool Post();

  // Whether a value waits for room.
  bool wants_room() const { return begin_wants_room_ || verified_ > 0; }
  // Has one step made for one value that waits. REQUIRES wants_room().
  void MakeRoom();

  // A READ of this connection completed.
  void OnRead(const rdma::Completion& completion);

  // Posts nothing more: what waits, and what has no READ posted, is cut.
  void Close();

  // The connection's last completion came, so nothing is written any more.
  void OnDisconnected();

  // A request that has come to its end.
  struct Ended {
    uint64_t number;
    bool cut;         // not executed, and may be sent again
    Outcome outcome;  // unless cut
  };
  // Those since the last call.
  std::vector<Ended> TakeEnded() { return std::exchange(ended_, {}); }
  bool has_ended() const { return !ended_.empty(); }

  // Whether Post() would try something now, so that it should be called again
  // although no READ of this connection is going to complete.
  bool wants_post() const;

  // Whether nothing waits and nothing is under way.
  bool idle() const { return active_ == 0 && waiting_.empty(); }

  // Whether a value for a key of this hash waits, or is under way.
  bool Has(uint64_t hash) const;

 private:
  struct Pull {
    bool in_use = false;
    kv::Condition condition = kv::Condition::kAlways;
    kv::RequestOptions option;
    bool failed = false;    // a READ was refused: kBadValue
    bool flushed = false;   // a READ did not run
    bool verified = false;  // its value arrived and fits its hash; it waits for room in the index
    uint32_t posted = 0;    // READs posted and not completed
    uint64_t number = 0;
    uint64_t version = 0;
    uint64_t deadline_us = 0;
    uint64_t hash = 0;
    uint64_t offset = 0;   // bytes for which READs were posted
    int64_t since_ns = 0;  // when it first waited for room; 0: it did not
    kv::ValueSource source;
    kv::Reservation reservation;
  };
  struct Waiting {
    kv::Request request;  // its key is in `key`
    std::string key;
    uint64_t hash;
    int64_t since_ns = 0;  // as of Pull
  };

  void Begin(bool may_step);
  bool PostReads(size_t index);
  void EndIfComplete(Pull& pull);
  void Verify(Pull& pull);
  void Publish(Pull& pull, bool may_step);
  bool MayWait(int64_t* since_ns, int64_t now_ns);
  void Abandon(Pull& pull);
  void End(Pull& pull, bool cut, const Outcome& outcome);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  // Read under the lock: see Executor::Write.
  const rdma::Clock* const clock_;
  const ServerTime time_;
  WorkerStats* const stats_;
  rdma::Connection* const connection_;
  const uint64_t read_bytes_;
  const uint32_t max_posted_;

  bool closed_ = false;
  bool begin_wants_room_ = false;  // the first that waits
  size_t active_ = 0;
  size_t verified_ = 0;  // of them wait for room in the index
  uint32_t posted_ = 0;  // READs, of all pulls
  std::array<Pull, kMaxActive> pulls_;
  std::deque<Waiting> waiting_;
  std::vector<Ended> ended_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PULL_QUEUE_H_
