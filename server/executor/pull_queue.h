// Pulled values of one connection: requests announce them, and the server READs them from the client's registered
// memory straight into the table's memory.
//
//     Add -> waiting -> reserved, READs posted -> all arrived, hash fits -> published -> ended kAnswered
//                                  |                          otherwise -> abandoned -> ended kAnswered, kBadValue
//                                  +- connection broke, READs flushed ->  abandoned -> ended kCut
//
// Work proportional to a value's length is done in turns. The worker calls Step() for one connection after the other
// with a limit of bytes. The limit applies to hashing, and to copying if this thread copies (Capabilities::local).
// Arrivals are only noted. So no number or size of values delays other clients' requests for longer than a turn.
//
// A value that needs room waits for it before it is reserved. If its key needs room in the index, the value waits
// before it is published. The worker calls MakeRoom() at this connection's turn (room_turns.h). In a group a value also
// waits before it is published while another session's write to its key is under way.
//
// Thread safety: none; belongs to the worker of its connection.
// Invariants:
//   * memory that a READ may still write into is not freed: a reservation is published or abandoned only when every
//     READ posted for it has completed;
//   * nothing unverified is published: the hash of the value and the item's checksum are computed over the destination,
//     over bytes that arrived with all bytes before them, without any lock;
//   * nothing is begun or published after its deadline: it ends kAnswered, kExpired;
//   * at most kMaxActive reservations are held for one connection, whatever it requests.
#ifndef FARLOOK_SERVER_EXECUTOR_PULL_QUEUE_H_
#define FARLOOK_SERVER_EXECUTOR_PULL_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kv/layout/hash.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/base/worker_stats.h"
#include "server/replication/commit_gate.h"
#include "server/session/session.h"

namespace farlook::server {

class PullQueue {
 public:
  static constexpr size_t kMaxActive = 8;
  // Longest READ of a device, so that other connections are served in between. If this thread copies, there is one READ
  // at a time, of a turn's bytes.
  static constexpr uint64_t kMaxReadBytes = 256 << 10;
  // Bytes of a turn: long while no other client has requests (some 10 us to hash, and as long to copy), otherwise
  // short. The first load from each 64 KiB of a client's shared memory is a page fault of 3 to 7 us, which maps all of
  // them. Short turns let about one in a hundred requests of other clients meet such a fault.
  static constexpr uint64_t kTurnBytes = 64 << 10;
  static constexpr uint64_t kShortTurnBytes = 512;
  // READs posted at once: enough to fill a link, and few enough to be fair.
  static constexpr uint32_t kMaxPostedReads = 4;
  // READs of a value that may be ahead of the first incomplete one.
  static constexpr uint64_t kMaxAhead = 64;

  // All arguments outlive the queue.
  PullQueue(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, WorkerStats* stats,
            rdma::Connection* connection, CommitGate* gate = nullptr);
  // Abandons reservations without posted READs; see OnDisconnected().
  ~PullQueue();
  PullQueue(const PullQueue&) = delete;
  PullQueue& operator=(const PullQueue&) = delete;

  // Sets the session of the requests.
  void SetSession(uint64_t id) { session_ = id; }

  // Queues a kPutPulled, and copies what it needs of it. Step() begins it.
  void Add(const kv::Request& request, uint64_t hash);

  // Returns whether Step() could do something now, before another READ completes.
  bool wants_turn() const;
  // Takes a turn: begins waiting requests, hashes at most `most_bytes` that arrived, and posts READs while the queue
  // takes them; if this thread copies, of at most `most_bytes`. Returns false if it did nothing. The caller calls
  // Ring().
  bool Step(uint64_t most_bytes);
  // Returns the bytes that this thread copied or hashed since the last call.
  uint64_t TakeBytesHandled() { return std::exchange(bytes_handled_, 0); }

  // Returns whether a value waits for room.
  bool wants_room() const { return begin_wants_room_ || verified_ > busy_; }
  // Makes one step towards room for one waiting value. REQUIRES wants_room().
  void MakeRoom();
  // Returns whether that value waits until members of the group reported their room: for the gate's next turn.
  bool awaits_members() const { return awaits_members_; }

  // Returns whether a value waits for the gate's next turn; TryAgain() tries all of these again.
  bool waits_for_group() const { return busy_ > 0; }
  void TryAgain();

  // A READ of this connection completed.
  void OnRead(const rdma::Completion& completion);

  // Stops posting READs, and cuts the requests that wait or have no posted READ. Exception: values that have arrived
  // and lack at most a turn's bytes of hashing are finished.
  void Close();

  // Called after the connection's last completion: the transport writes nothing any more.
  void OnDisconnected();

  // A finished request.
  struct Ended {
    uint64_t number;
    bool cut;  // not executed; the client may send it again
    uint64_t hash;
    CommitGate::Begun begun;  // unless cut; if it has a sequence: publish and answer when that is committed
  };
  // Returns the requests that finished since the last call.
  std::vector<Ended> TakeEnded() { return std::exchange(ended_, {}); }
  bool has_ended() const { return !ended_.empty(); }

  // Returns the bytes of memory of waiting requests.
  size_t bytes() const { return waiting_bytes_; }

  // Returns whether no value waits or is under way.
  bool idle() const { return active_ == 0 && waiting_.empty(); }

  // Returns whether a value for a key of this hash waits or is under way.
  bool Has(uint64_t hash) const;

 private:
  // Running hashes of a value that arrives.
  struct Sums {
    kv::Hasher::Stream value, item;
  };
  struct Pull {
    bool in_use = false;
    kv::Condition condition = kv::Condition::kAlways;
    kv::RequestOptions option;
    bool failed = false;    // a READ was refused: kBadValue
    bool flushed = false;   // a READ was not executed
    bool verified = false;  // the value arrived and matches its hash; it waits for room in the index
    bool busy = false;      // or for the group
    uint32_t posted = 0;    // READs posted and not completed
    uint64_t number = 0;
    uint64_t version = 0;
    uint64_t deadline_us = 0;
    uint64_t hash = 0;
    uint64_t offset = 0;   // bytes for which READs were posted
    uint64_t arrived = 0;  // contiguous bytes that arrived, from the start
    uint64_t landed = 0;   // of a device: a bit for each completed READ after `arrived`
    uint64_t summed = 0;   // arrived bytes that are hashed
    int64_t since_ns = 0;  // when it first waited for room; 0: never
    uint64_t asked = 0;    // see CommitGate::IsRoomKnown()
    kv::ValueSource source;
    kv::Reservation reservation;
    std::unique_ptr<Sums> sums;
  };
  struct Waiting {
    kv::Request request;  // its key is in `key`
    std::string key;
    uint64_t hash;
    int64_t since_ns = 0;  // see Pull
    uint64_t asked = 0;

    size_t bytes() const { return sizeof(*this) + key.size(); }
  };

  void Begin(bool may_step);
  bool MayPost(const Pull& pull) const;
  bool PostReads(size_t index, uint64_t most_bytes);
  void Landed(Pull& pull, uint64_t read);
  uint64_t SumUp(Pull& pull, uint64_t most_bytes);
  void EndIfComplete(Pull& pull);
  void Verify(Pull& pull);
  kv::PutParams ParamsOf(const Pull& pull, int64_t now_ns) const;
  void Publish(Pull& pull, bool may_step);
  bool MayWait(kv::Code code, int64_t* since_ns, uint64_t* asked, int64_t now_ns);
  void Abandon(Pull& pull);
  void End(Pull& pull, bool cut, const Outcome& outcome) { End(pull, cut, CommitGate::Begun{outcome}); }
  void End(Pull& pull, bool cut, const CommitGate::Begun& begun);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  // Read under the lock: see Executor::TimeOfWrite().
  const rdma::Clock* const clock_;
  const ServerTime time_;
  WorkerStats* const stats_;
  rdma::Connection* const connection_;
  CommitGate* const gate_;  // or null
  uint64_t session_ = 0;
  const bool local_;  // this thread copies
  const uint64_t read_bytes_;
  const uint32_t max_posted_;

  bool closed_ = false;
  bool begin_wants_room_ = false;  // the first waiting request
  bool awaits_members_ = false;    // what the last step found
  size_t active_ = 0;
  size_t verified_ = 0;  // active pulls that wait for room in the index,
  size_t busy_ = 0;      // and those of them that wait for the group
  uint32_t posted_ = 0;  // READs, of all pulls
  std::array<Pull, kMaxActive> pulls_;
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t bytes_handled_ = 0;
  std::vector<Ended> ended_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_PULL_QUEUE_H_
