// Gets in flight: connects kv::Lookup, which does no I/O, with READs.
//
// Each running operation has a flight: its lookup and the memory for its READs (read_buffer.h). An operation without a
// free flight, or without a connection, waits.
//
// Invariants:
// * A flight whose operation ended by its deadline keeps its memory until its READs have completed. If that memory is
//   the caller's, the operation ends only after the connection is destroyed.
// * NOT_FOUND is believed only if the whole lookup took less than kMaxBucketReadNs, so that each of its READs did, and
//   the directory led it to the right bucket (kv::Directory::Trusts). Only then is the clock read. A found item proves
//   itself.
// * In a group both also wait until EpochWatch believes them.
// * The bytes at the mirror's location end a get at once if they are plainly the item (kv::IsPlainItem). Else the
//   lookup begins, as if it had requested these bytes, and judges them.
#ifndef FARLOOK_CLIENT_READS_READS_H_
#define FARLOOK_CLIENT_READS_READS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/connection/directory_reader.h"
#include "client/connection/epoch_watch.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/user_memory.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/hit_sampler.h"
#include "client/op/last_time.h"
#include "client/op/operation.h"
#include "client/op/work_request_id.h"
#include "client/reads/flight.h"
#include "client/reads/index_mirror.h"
#include "client/writes/session.h"
#include "farlook/stats.h"
#include "kv/layout/slot.h"
#include "kv/read/lookup.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class Reads final : public Engine {
 public:
  struct Parts {
    FlightPool* flights;
    BufferPool* pool;
    const UserMemory* user_memory;
    DirectoryReader* directory;
    Session* session;  // takes the gets that the server has to answer
    IndexMirror* mirror;
    HitSampler* touches;
    LastTime* time;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  // `looks`: maximum number of polls of the transport for a READ in RunAtOnce().
  Reads(const Parts& parts, uint32_t max_in_flight, uint32_t looks)
      : parts_(parts), max_in_flight_(max_in_flight), looks_(looks) {}

  void Connect(const Ready& ready) override;
  // Sets whether operations carry their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) { hashes_are_given_ = are_given; }
  void Lost() override;  // operations in flight start again over the next connection

  // Begins a kGet or kExists, or queues it.
  void Start(Operation* operation);
  // Returns whether RunAtOnce() is useful.
  bool at_once() const { return at_once_; }
  // The same for a blocking call: waits here for the READ of the mirror's location, if the transport can. Returns true
  // if the operation has ended without being started, false if `begin` was called and it is in flight.
  bool RunAtOnce(Operation* operation, absl::FunctionRef<void()> begin);
  // Starts a get at `slot`, where the server reported the item and its version, but not its value.
  void StartAt(Operation* operation, kv::Slot slot, uint64_t version);

  // A READ of WorkRequestId::Owner::kReads has completed successfully.
  void Completed(uint64_t wr_id) {
    Flight* flight = WorkRequestId::FlightOf<Flight>(wr_id);
    if (--flight->pending == 0) [[likely]]
      Arrived(flight);
  }
  // In a group: judges results again that wait to be believed.
  void JudgeAgain();
  // A refresh of the directory has finished.
  void Refreshed();
  // Begins operations that wait for a flight, and posts READs that found no room.
  void Pump() override;
  // Returns whether Pump() has work.
  bool wants_pump() const { return !waiting_.empty() || !unplaced_.empty() || held_up(); }

  bool waiting() const override { return !waiting_.empty(); }
  // Returns whether a READ found no room, also that of the directory, for which flights wait.
  bool held_up() const override { return !stalled_.empty() || parts_.directory->wants_post(); }
  bool MayStillWrite(const Operation& operation) const override;
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return 0; }  // counted by the pools

 private:
  static constexpr uint32_t kLocalFlights = 64;  // enough to overlap cache misses, and few enough to stay in L2
  static constexpr int kMaxRestarts = 3;         // of a lookup whose result came too late

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
  kv::Lookup::Step StartLookup(Flight* flight, uint64_t hash, kv::Slot slot, uint64_t reported_version);
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
  uint64_t last_own_ = 0;  // the greatest offset at which kOwnBytes fit in the region
  bool hashes_are_given_ = false;
  uint32_t max_flights_ = 0;
  bool at_once_ = false;
  EpochWatch* watch_ = nullptr;  // groups only

  uint32_t in_use_ = 0;          // flights
  OperationQueue waiting_;       // for a connection or a flight
  FlightQueue unplaced_;         // waiting for the pool's memory, the oldest first
  FlightQueue stalled_;          // not wholly posted, the oldest first
  FlightQueue refreshing_;       // waiting for the directory
  FlightQueue unconfirmed_;      // complete, and waiting to be believed
  Flight* refresher_ = nullptr;  // the flight that caused the current refresh
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_READS_H_
