// Gets in flight: joins kv::Lookup, which does no I/O, to READs.
//
// Each operation that runs has a flight: its lookup and the memory that its READs land in (landing.h). An operation
// that finds no flight, or no connection, waits.
//
// Invariants:
//   * A flight whose operation ended by its deadline keeps its memory until its READs have completed. Where that memory
//     is the caller's, the operation ends only after the connection is destroyed.
//   * NOT_FOUND is believed only if the whole lookup took less than kMaxBucketReadNs, so that each of its READs did, and
//     the directory led it there rightly (kv::Directory::Trusts): only then is the clock read. What is Found proves
//     itself.
//   * In a group both also wait until EpochWatch believes them.
//   * What the mirror led to ends a get at once where it is plainly the item (kv::IsPlainItem). Else the lookup begins,
//     as if it had asked for what was READ, and judges that.
#ifndef FARLOOK_CLIENT_READS_H_
#define FARLOOK_CLIENT_READS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/buffer_pool.h"
#include "client/directory_reader.h"
#include "client/engine.h"
#include "client/epoch_watch.h"
#include "client/finished.h"
#include "client/flight.h"
#include "client/index_mirror.h"
#include "client/last_time.h"
#include "client/operation.h"
#include "client/session.h"
#include "client/touches.h"
#include "client/user_memory.h"
#include "client/work_request_id.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/lookup.h"
#include "kv/slot.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class Reads final : public Engine {
 public:
  struct Parts {
    FlightPool* flights;
    BufferPool* pool;
    const UserMemory* user_memory;
    DirectoryReader* directory;
    Session* session;  // takes the gets that the server has to answer
    IndexMirror* mirror;
    Touches* touches;
    LastTime* time;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  // `looks`: at the transport, for a READ that is waited for at once.
  Reads(const Parts& parts, uint32_t max_in_flight, uint32_t looks)
      : parts_(parts), max_in_flight_(max_in_flight), looks_(looks) {}

  void Connect(const Ready& ready) override;
  // Whether operations bear their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) { hashes_are_given_ = are_given; }
  void Lost() override;  // operations in flight begin anew over the next connection

  // Begins a kGet or kExists, or lets it wait.
  void Start(Operation* operation);
  // Whether RunAtOnce() is worth it.
  bool at_once() const { return at_once_; }
  // The same for a call that waits: the READ of what the mirror leads to is waited for here, where the transport can.
  // True: the operation, which was not begun, has ended. False: it was, by `begin`.
  bool RunAtOnce(Operation* operation, absl::FunctionRef<void()> begin);
  // As Start(), where the server has said that the item lies at `slot` and has this version, but not its value.
  void StartAt(Operation* operation, kv::Slot slot, uint64_t version);

  // A READ of WorkRequestId::Owner::kReads completed, successfully.
  void Completed(uint64_t wr_id) {
    Flight* flight = WorkRequestId::FlightOf<Flight>(wr_id);
    if (--flight->pending == 0) [[likely]]
      Arrived(flight);
  }
  // In a group: what waits to be believed is looked at again.
  void JudgeAgain();
  // A refresh of the directory is done.
  void Refreshed();
  // Begins what waits for a flight, and posts what found no room.
  void Pump() override;
  // Whether Pump() has something to do.
  bool wants_pump() const { return !waiting_.empty() || !unplaced_.empty() || held_up(); }

  bool waiting() const override { return !waiting_.empty(); }
  // Whether a READ found no room: also that of the directory, for which others wait.
  bool held_up() const override { return !stalled_.empty() || parts_.directory->wants_post(); }
  bool Clings(const Operation& operation) const override;
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return 0; }  // the pools'

 private:
  static constexpr uint32_t kLocalFlights = 64;  // enough to overlap cache misses, and small enough to stay in L2
  static constexpr int kMaxRestarts = 3;         // of a lookup whose answer came too late

  Flight* Acquire(Operation* operation) {
    Flight* const flight = in_use_ < max_flights_ ? parts_.flights->Take(operation, this) : nullptr;
    if (flight == nullptr) [[unlikely]]
      return nullptr;
    ++in_use_;
    return flight;
  }
  void Free(Flight* flight);
  void Release(Flight* flight);
  void Await(Operation* operation);
  void Park(Flight* flight, FlightQueue* queue);
  void Begin(Flight* flight);
  void BeginLookup(Flight* flight, uint64_t hash, kv::Slot slot);
  uint64_t HashOf(const Operation& operation) const {
    if (hashes_are_given_) [[unlikely]]
      return operation.hash;
    return (*context_.hasher)(operation.key);
  }
  kv::Lookup::Step StartLookup(Flight* flight, uint64_t hash, kv::Slot slot, uint64_t told);
  void Continue(Flight* flight, kv::Lookup::Step step);
  void Advance(Flight* flight, kv::Lookup::Step step);
  void Read(Flight* flight);
  bool PlaceLarge(Flight* flight);
  bool Post(Flight* flight);
  void PostOrPark(Flight* flight);
  void Arrived(Flight* flight);
  bool AimAtFirst(Flight* flight);
  bool TakeAtFirst(Flight* flight);
  void BeginAfterAll(Flight* flight);
  void Feed(Flight* flight);
  void FeedLarge(Flight* flight);
  void Found(Flight* flight);
  void Hit(Operation* operation, kv::Slot slot, uint64_t version);
  void EndFound(Flight* flight);
  void Judge(Flight* flight, bool absent);
  void Settle(Flight* flight, EpochWatch::Verdict verdict);
  void EndAsCounter(Flight* flight);
  void EndTtl(Flight* flight);
  void EndNotCopied(Flight* flight);
  bool NotFoundInTime(const Flight& flight, int64_t now_ns) const;
  bool Confirm(Flight* flight);
  bool Refresh(Flight* flight);
  void Ask(Flight* flight);
  void Count(const Flight& flight);
  void End(Flight* flight, absl::Status status);
  void Absent(Flight* flight);
  void EndAbsent(Flight* flight);

  const Parts parts_;
  const uint32_t max_in_flight_;
  const uint32_t looks_;

  // Set while connected; else there may be no flights.
  rdma::Connection* connection_ = nullptr;
  rdma::Capabilities capabilities_;
  kv::ServerRange table_;
  kv::ReaderContext context_{};
  uint64_t last_own_ = 0;  // the greatest offset at which all fits that a flight's own memory takes
  bool hashes_are_given_ = false;
  uint32_t max_flights_ = 0;
  bool at_once_ = false;
  EpochWatch* watch_ = nullptr;  // of a group

  uint32_t in_use_ = 0;          // flights
  OperationQueue waiting_;       // for a connection or a flight
  FlightQueue unplaced_;         // waiting for the pool's memory, the oldest first
  FlightQueue stalled_;          // not wholly posted, the oldest first
  FlightQueue refreshing_;       // waiting for the directory
  FlightQueue doubtful_;         // complete, and waiting to be believed
  Flight* refresher_ = nullptr;  // the one of them that the refresh under way is for
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_H_
