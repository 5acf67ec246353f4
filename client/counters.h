// Counters in flight: NIC atomics on cells that this connection was told, requests to the server for everything else.
//
//     cell known  -> FETCH_ADD, COMPARE_SWAP or READ -> it was live: done
//                                                    -> dead: forget the cell, ask the server, who looks the key up
//                                                       afresh
//                                                    -> out of range: an add is taken back; an error
//     cell not known -> a request (session.h), whose reply tells the cell
//     exactly once, create, delete -> a request, at once: these keep the order in which they were started
//
// Asking takes one round trip and does the work too; looking up by READs would take two before the atomic.
//
// Invariants:
//   * An atomic is posted once. If its completion is lost with its connection, the operation ends with UNKNOWN.
//   * A cell belongs to the connection over which it was told: it is forgotten, and no flight uses it, before the next.
//   * A CellNotice is acknowledged when its cells are forgotten and every flight that was under way then has ended.
//     Flights that begin later cannot know those cells: what tells cells (replies) is in order with the notices.
//   * A flight whose operation ended by its deadline stays until its atomic has completed; the word that receives the
//     old value belongs to the transport until then.
#ifndef FARLOOK_CLIENT_COUNTERS_H_
#define FARLOOK_CLIENT_COUNTERS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cell_cache.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/operation.h"
#include "client/operation_queue.h"
#include "client/session.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "kv/message.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class Counters final : public Engine {
 public:
  struct Parts {
    rdma::Endpoint* endpoint;
    Session* session;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  Counters(const Parts& parts, uint32_t max_in_flight, uint64_t cache_bytes);
  ~Counters();

  // INVALID_ARGUMENT where a number is out of its range.
  static absl::Status Check(const Operation& operation);

  void Connect(const Ready& ready) override;
  void Lost() override;  // what was posted has an unknown outcome; the others wait for the next connection

  // Begins an operation on a counter, or lets it wait. REQUIRES Check() said OK.
  void Submit(Operation* operation);

  // A work request of WorkRequestId::Owner::kCounters completed, successfully.
  void Completed(uint64_t wr_id);
  // The server answered a request about a counter.
  void Answered(Operation* operation, const kv::Reply& reply);
  // The server sent a CellNotice. An error: it is none; break the connection.
  absl::Status Noticed(absl::string_view message);

  // Posts what may be posted now.
  void Pump() override;
  // Whether Pump() may have something to do: one load, for the path of gets.
  bool wants_pump() const { return attention_; }

  bool waiting() const override { return !waiting_.empty(); }
  bool held_up() const override { return !waiting_.empty() || !stalled_.empty() || (owed_ != 0 && noticed_ == 0); }
  int64_t Expire(int64_t now_ns, absl::FunctionRef<void(Operation*)> expired) override;
  void Withdraw(absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override;

 private:
  static constexpr size_t kWordsInBuffer = 512;
  static constexpr uint32_t kMaxFlights = 1024;  // for the sake of memory; the server may grant fewer

  enum class Step : uint8_t {
    kIdle,
    kPost,        // to be posted
    kPosted,      // and not completed
    kUndo,        // an add left the range: what takes it back is to be posted
    kUndoPosted,  // and not completed
  };
  struct Flight {
    Operation* operation = nullptr;  // null: it has ended by its deadline
    uint64_t cell = 0;
    uint64_t hash = 0;  // of the key
    int64_t operand = 0;
    int64_t expected = 0;
    uint32_t index = 0;
    Kind kind = Kind::kReadCounter;
    Step step = Step::kIdle;
    bool noticed = false;  // was under way when the notice came that is owed an answer
    Flight* next_free = nullptr;
  };

  bool Begin(Operation* operation);
  Flight* Acquire();
  Flight* Grow();
  void Release(Flight* flight);
  bool Post(Flight* flight);
  void PostOrStall(Flight* flight);
  uint64_t* WordOf(const Flight& flight) const;
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
  uint32_t max_flights_ = 0;  // as many as the server granted, at most max_in_flight_
  const kv::Hasher* hasher_ = nullptr;

  std::deque<Flight> flights_;                        // grows up to max_flights_; addresses stay
  std::vector<std::unique_ptr<rdma::Buffer>> words_;  // where old values land; one word to a flight
  Flight* free_ = nullptr;
  OperationQueue waiting_;        // for a connection or a flight
  std::vector<Flight*> stalled_;  // found the send queue full
  uint64_t owed_ = 0;             // the sequence of the notice that is to be acknowledged; 0: none
  uint32_t noticed_ = 0;          // flights that it has to wait for
  bool attention_ = false;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_COUNTERS_H_
