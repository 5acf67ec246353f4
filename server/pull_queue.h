// The values that a connection's requests announced and the server READs by itself out of the client's registered
// memory, straight to where the table will have them.
//
//     Add -> waiting -> reserved, READs posted -> all arrived, hash fits -> published -> ended kAnswered
//                                  |                          otherwise -> abandoned -> ended kAnswered, kBadValue
//                                  +- connection broke, READs flushed ->  abandoned -> ended kCut
//
// All that takes time in proportion to a value's length is done in turns: the worker calls Step() for one connection
// after the other, and says how many bytes this turn may sum up, and, where this thread copies (Capabilities::local),
// copy. What arrives is only noted. So no value, and no number of them, keeps the worker from others' requests for
// longer.
//
// Where room must be made for a value, or for its key in the index, it waits for it before it is reserved, or before it
// is published; the worker calls MakeRoom() when it is this connection's turn (room_turns.h). So it waits in a group
// for another session's write to its key.
//
// Thread safety: none; belongs to the worker of its connection.
// Invariants:
//   * memory that a READ may still write into is not given back: a reservation is published or abandoned only when every
//     READ posted for it completed;
//   * nothing unverified is published: the hash is computed over the destination, of bytes that arrived with all before
//     them, and so is the item's checksum, without any lock;
//   * nothing is begun, and nothing published, whose deadline has passed: it ends kAnswered, kExpired;
//   * at most kMaxActive reservations are held for one connection, whatever it asks for.
#ifndef FARLOOK_SERVER_PULL_QUEUE_H_
#define FARLOOK_SERVER_PULL_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kv/hash.h"
#include "kv/message.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/commit_gate.h"
#include "server/partition_locks.h"
#include "server/server_time.h"
#include "server/session.h"
#include "server/worker_stats.h"

namespace farlook::server {

class PullQueue {
 public:
  static constexpr size_t kMaxActive = 8;
  // READs of a device are cut to this, so that other connections are served in between. Where this thread copies there
  // is one at a time, of a turn's bytes.
  static constexpr uint64_t kMaxReadBytes = 256 << 10;
  // Of a turn, while nobody else has requests (some 10 us to sum up, and as long to copy); and while somebody has. The
  // first load from each 64 KiB of a client's shared memory is a page fault of 3 to 7 us, which maps all of them: turns
  // are so short that of a hundred requests of others about one meets such a turn.
  static constexpr uint64_t kTurnBytes = 64 << 10;
  static constexpr uint64_t kShortTurnBytes = 512;
  // READs posted at once; enough to fill a link, and few enough to be fair.
  static constexpr uint32_t kMaxPostedReads = 4;
  // READs of a value that may complete before the first that did not.
  static constexpr uint64_t kMaxAhead = 64;

  // All outlive the queue.
  PullQueue(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, WorkerStats* stats,
            rdma::Connection* connection, CommitGate* gate = nullptr);
  // Abandons what it may; see OnDisconnected().
  ~PullQueue();
  PullQueue(const PullQueue&) = delete;
  PullQueue& operator=(const PullQueue&) = delete;

  // Whose requests they are.
  void SetSession(uint64_t id) { session_ = id; }

  // Takes over a kPutPulled; copies what it needs of it. Step() begins it.
  void Add(const kv::Request& request, uint64_t hash);

  // Whether Step() would do, or try, something now: no READ need complete first.
  bool wants_turn() const;
  // A turn: begins what can begin, sums up at most so many bytes of what arrived, and posts READs while the queue takes
  // them, where this thread copies of at most as many. False: it did nothing. The caller Ring()s.
  bool Step(uint64_t most_bytes);
  // The bytes that were copied by this thread, or summed up, since the last call.
  uint64_t TakeBytesHandled() { return std::exchange(bytes_handled_, 0); }

  // Whether a value waits for room.
  bool wants_room() const { return begin_wants_room_ || verified_ > busy_; }
  // Has one step made for one value that waits. REQUIRES wants_room().
  void MakeRoom();

  // Whether a value waits for the gate's next turn; tries all of them again.
  bool waits_for_group() const { return busy_ > 0; }
  void TryAgain();

  // A READ of this connection completed.
  void OnRead(const rdma::Completion& completion);

  // Posts nothing more: what waits, and what has no READ posted, is cut, but for values that are there and summed up
  // but for a turn's bytes.
  void Close();

  // The connection's last completion came, so nothing is written any more.
  void OnDisconnected();

  // A request that has come to its end.
  struct Ended {
    uint64_t number;
    bool cut;  // not executed, and may be sent again
    uint64_t hash;
    CommitGate::Begun begun;  // unless cut; with a sequence: to be published, and told, when that is committed
  };
  // Those since the last call.
  std::vector<Ended> TakeEnded() { return std::exchange(ended_, {}); }
  bool has_ended() const { return !ended_.empty(); }

  // Of memory that what waits takes.
  size_t bytes() const { return waiting_bytes_; }

  // Whether nothing waits and nothing is under way.
  bool idle() const { return active_ == 0 && waiting_.empty(); }

  // Whether a value for a key of this hash waits, or is under way.
  bool Has(uint64_t hash) const;

 private:
  // Of a value, as it comes.
  struct Sums {
    kv::Hasher::Stream value, item;
  };
  struct Pull {
    bool in_use = false;
    kv::Condition condition = kv::Condition::kAlways;
    kv::RequestOptions option;
    bool failed = false;    // a READ was refused: kBadValue
    bool flushed = false;   // a READ did not run
    bool verified = false;  // its value arrived and fits its hash; it waits for room in the index
    bool busy = false;      // or for the group
    uint32_t posted = 0;    // READs posted and not completed
    uint64_t number = 0;
    uint64_t version = 0;
    uint64_t deadline_us = 0;
    uint64_t hash = 0;
    uint64_t offset = 0;   // bytes for which READs were posted
    uint64_t arrived = 0;  // bytes of READs that completed, and all before them
    uint64_t landed = 0;   // a device's: a bit for each READ from there on that completed
    uint64_t summed = 0;   // bytes that are in the sums, of those that arrived
    int64_t since_ns = 0;  // when it first waited for room; 0: it did not
    kv::ValueSource source;
    kv::Reservation reservation;
    std::unique_ptr<Sums> sums;
  };
  struct Waiting {
    kv::Request request;  // its key is in `key`
    std::string key;
    uint64_t hash;
    int64_t since_ns = 0;  // as of Pull

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
  bool MayWait(int64_t* since_ns, int64_t now_ns);
  void Abandon(Pull& pull);
  void End(Pull& pull, bool cut, const Outcome& outcome) { End(pull, cut, CommitGate::Begun{outcome}); }
  void End(Pull& pull, bool cut, const CommitGate::Begun& begun);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  // Read under the lock: see Executor::Write.
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
  bool begin_wants_room_ = false;  // the first that waits
  size_t active_ = 0;
  size_t verified_ = 0;  // of them wait for room in the index,
  size_t busy_ = 0;      // or, of those, for the group
  uint32_t posted_ = 0;  // READs, of all pulls
  std::array<Pull, kMaxActive> pulls_;
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t bytes_handled_ = 0;
  std::vector<Ended> ended_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PULL_QUEUE_H_
