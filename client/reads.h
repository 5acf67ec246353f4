// Gets in flight: joins kv::Lookup, which does no I/O, to READs.
//
// Each operation that runs has a Flight: its lookup and the memory that its READs land in. An operation that finds no
// flight, or no connection, waits. A READ's bytes go to the flight's own 512 bytes (a bucket, a small item), to a piece
// of the pool (larger items), or, where the transport can, straight to the caller's memory (large values): only the
// item's head is read elsewhere then, so that the checksum can be verified over both.
//
// Invariants:
//   * A flight whose operation ended by its deadline keeps its memory until its READs have completed. Where that memory
//     is the caller's, the operation ends only after the connection is destroyed.
//   * NOT_FOUND is believed only if the whole lookup took less than kMaxBucketReadNs, so that each of its READs did, and
//     the directory led it there rightly (kv::Directory::Trusts): only then is the clock read. What is Found proves
//     itself.
#ifndef FARLOOK_CLIENT_READS_H_
#define FARLOOK_CLIENT_READS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/buffer_pool.h"
#include "client/directory_reader.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/last_time.h"
#include "client/location_cache.h"
#include "client/operation.h"
#include "client/operation_queue.h"
#include "client/session.h"
#include "client/work_request_id.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "kv/lookup.h"
#include "kv/slot.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class Reads final : public Engine {
 public:
  struct Parts {
    rdma::Endpoint* endpoint;
    BufferPool* pool;
    DirectoryReader* directory;
    Session* session;  // takes the gets that the server has to answer
    LocationCache* cache;
    LastTime* time;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  Reads(const Parts& parts, uint32_t max_in_flight);
  ~Reads();

  void Connect(const Ready& ready) override;
  void Lost() override;  // operations in flight begin anew over the next connection

  // Begins a kGet or kExists, or lets it wait.
  void Submit(Operation* operation);
  // The same, where the item is said to lie at `slot`.
  void SubmitAt(Operation* operation, kv::Slot slot);

  // A READ of WorkRequestId::Owner::kReads completed, successfully.
  void Completed(uint64_t wr_id) {
    Flight* flight = WorkRequestId::FlightOf<Flight>(wr_id);
    if (--flight->pending == 0) [[likely]]
      Arrived(flight);
  }
  // A refresh of the directory is done.
  void Refreshed();
  // Begins what waits for a flight, and posts what found no room.
  void Pump() override;
  // Whether Pump() has something to do.
  bool wants_pump() const { return !waiting_.empty() || !unplaced_.empty() || held_up(); }

  bool waiting() const override { return !waiting_.empty(); }
  // Whether a READ found no room: also that of the directory, for which others wait.
  bool held_up() const override { return !stalled_.empty() || parts_.directory->wants_post(); }
  bool ExpiryNeedsBreak(int64_t now_ns) const override;
  int64_t Expire(int64_t now_ns, absl::FunctionRef<void(Operation*)> expired) override;
  void Withdraw(absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override;

 private:
  static constexpr uint32_t kStagingBytes = 512;    // of a flight's own
  static constexpr uint32_t kMinDirectBytes = 512;  // shorter values are copied: that is cheaper than two pieces
  static constexpr uint32_t kMinStringBytes = 16
                                              << 10;  // shorter ones are copied to strings: resizing fills with zeros
  static constexpr uint32_t kLocalFlights = 64;       // enough to overlap cache misses, and small enough to stay in L2
  static constexpr int kMaxRestarts = 3;              // of a lookup whose answer came too late

  struct Flight {
    Operation* operation = nullptr;  // null: free, or only waiting for its READs
    char* staging = nullptr;         // kStagingBytes
    rdma::Sge to[2] = {};            // where `wanted` goes: in one place, or head and value
    uint32_t posted_bytes = 0;       // of `to`
    uint32_t pending = 0;            // READs posted and not completed
    bool in_use = false;
    bool large = false;   // more than one staged piece: what follows needs looking at
    bool direct = false;  // to[1] is the caller's memory
    bool whole = false;   // not direct: the caller's memory was too short
    bool from_cache = false;
    bool absent = false;  // of those that wait for the directory: it is to say whether NOT_FOUND is believed
    uint8_t restarts = 0;
    Flight* next_free = nullptr;
    int64_t since_ns = 0;        // at most the time of the lookup's first READ
    uint64_t bucket_offset = 0;  // of the first bucket READ
    kv::Lookup lookup;
    BufferPool::Piece piece;
    uint32_t piece_bytes = 0;

    uint32_t wanted_bytes() const { return to[0].bytes + to[1].bytes; }
  };

  Flight* Acquire() {
    Flight* flight = free_;
    if (flight == nullptr) [[unlikely]]
      return Grow();
    free_ = flight->next_free;
    flight->in_use = true;
    return flight;
  }
  Flight* Grow();
  void Release(Flight* flight);
  void Begin(Flight* flight, Operation* operation, kv::Slot slot, bool from_cache);
  void Continue(Flight* flight, kv::Lookup::Step step);
  void Advance(Flight* flight, kv::Lookup::Step step);
  void Read(Flight* flight);
  bool PlaceLarge(Flight* flight);
  bool Post(Flight* flight);
  bool PostLarge(Flight* flight);
  void Arrived(Flight* flight);
  void FeedLarge(Flight* flight);
  bool CutShort(const Flight& flight) const;
  void Found(Flight* flight);
  void EndAsCounter(Flight* flight);
  void EndTtl(Flight* flight);
  void EndNotCopied(Flight* flight);
  bool NotFoundInTime(const Flight& flight, int64_t now_ns) const;
  bool Confirm(Flight* flight);
  bool Refresh(Flight* flight);
  void Ask(Flight* flight);
  void Count(const Flight& flight);
  void End(Flight* flight, absl::Status status);
  void EndAbsent(Flight* flight);

  const Parts parts_;
  const uint32_t max_in_flight_;

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  rdma::Capabilities capabilities_;
  kv::ServerRange table_;
  kv::ReaderContext context_{};
  uint32_t max_flights_ = 0;

  std::deque<Flight> flights_;  // grows up to max_flights_; addresses stay, and are the wr_ids
  std::vector<std::unique_ptr<rdma::Buffer>> staging_;
  Flight* free_ = nullptr;           // the last used first: it is warm
  OperationQueue waiting_;           // for a connection or a flight
  std::deque<Flight*> unplaced_;     // waiting for the pool's memory, the oldest first
  std::deque<Flight*> stalled_;      // not wholly posted, the oldest first
  std::vector<Flight*> refreshing_;  // waiting for the directory
  Flight* refresher_ = nullptr;      // the one of them that the refresh under way is for
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_H_
