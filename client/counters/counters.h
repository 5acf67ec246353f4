// Counters in flight: NIC atomics on cells that this connection knows, requests to the server for everything else.
//
//     cell known  -> FETCH_ADD, COMPARE_SWAP or READ -> it was live: done
//                                                    -> dead: drop the cell, send a request: the server looks it up
//                                                    -> out of range: an add is reversed; an error
//     cell not known -> a request (session.h), whose reply contains the cell
//     exactly once, create, delete -> a request, at once: these keep the order in which they were started
//
// A request takes one round trip and also executes the operation; a lookup by READs would take two before the atomic.
//
// Invariants:
// * An atomic is posted once. If its completion is lost with its connection, the operation ends with UNKNOWN.
// * A cell belongs to the connection over which it was received. Before the next connection it is dropped, and no
//   flight uses it.
// * A CellNotice is acknowledged when its cells are dropped and every flight in flight at its arrival has ended. Later
//   flights cannot know those cells, since cells come with replies, which are in order with notices.
// * A flight whose operation ended by its deadline stays until its atomic has completed. Until then, the word that
//   receives the old value belongs to the transport.
#ifndef FARLOOK_CLIENT_COUNTERS_COUNTERS_H_
#define FARLOOK_CLIENT_COUNTERS_COUNTERS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/counters/cell_cache.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/operation.h"
#include "client/reads/flight.h"
#include "client/writes/session.h"
#include "farlook/stats.h"
#include "kv/layout/hash.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class Counters final : public Engine {
 public:
  struct Parts {
    FlightPool* flights;
    Session* session;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  Counters(const Parts& parts, uint32_t max_in_flight, uint64_t cache_bytes);

  // Returns INVALID_ARGUMENT if a number is out of its range.
  static absl::Status Check(const Operation& operation);

  void Connect(const Ready& ready) override;
  void Lost() override;  // what was posted has an unknown outcome; the others wait for the next connection

  // Begins an operation on a counter, or queues it. REQUIRES Check() returned OK.
  void Start(Operation* operation);

  // A work request of WorkRequestId::Owner::kCounters has completed successfully.
  void Completed(uint64_t wr_id);
  // The server replied to a request about a counter.
  void Answered(Operation* operation, const kv::Reply& reply);
  // The server sent a CellNotice. On an error it is malformed: close the connection.
  absl::Status Noticed(absl::string_view message);

  // Posts as much as possible.
  void Pump() override;
  bool wants_pump() const { return held_up(); }

  bool waiting() const override { return !waiting_.empty(); }
  bool held_up() const override { return !waiting_.empty() || !stalled_.empty() || (owed_ != 0 && noticed_ == 0); }
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return cache_.memory_bytes(); }

 private:
  static constexpr uint32_t kMaxFlights = 1024;  // bounds the memory; the server may grant fewer

  using Step = AtomicState::Step;

  bool Begin(Operation* operation);
  void Release(Flight* flight);
  bool Post(Flight* flight);
  void PostOrStall(Flight* flight);
  static uint64_t* WordOf(const Flight& flight);
  void End(Flight* flight, absl::Status status);
  void EndLive(Flight* flight, int64_t old);
  void Acknowledge();

  const Parts parts_;
  const uint32_t max_in_flight_;
  CellCache cache_;

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  bool direct_ = false;  // this connection has the key to the cells, and atomics
  kv::ServerRange cells_;
  uint32_t max_flights_ = 0;  // granted by the server, at most max_in_flight_
  const kv::Hasher* hasher_ = nullptr;

  uint32_t in_use_ = 0;     // flights
  OperationQueue waiting_;  // for a connection or a flight
  FlightQueue stalled_;     // found the send queue full
  uint64_t owed_ = 0;       // sequence of the notice to be acknowledged; 0: none
  uint32_t noticed_ = 0;    // flights that this notice waits for
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_COUNTERS_COUNTERS_H_
