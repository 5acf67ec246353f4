// An operation that has READs or atomics posted, and the memory that these name. All engines take their flights from
// one pool; each bounds its number. A request to the server needs no flight (session.h).
#ifndef FARLOOK_CLIENT_READS_FLIGHT_H_
#define FARLOOK_CLIENT_READS_FLIGHT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/linked_list.h"
#include "client/op/operation.h"
#include "client/reads/read_buffer.h"
#include "kv/layout/slot.h"
#include "kv/read/lookup.h"
#include "rdma/transport.h"

namespace farlook::client {

struct FlightTag;

// State of a get in Reads.
struct GetState {
  ReadBuffer buffer;
  bool remembered = false;  // it began at the location in the mirror
  bool at_first = false;    // of those: the item there is READ, and `lookup` begins only if the item does not prove
                            // itself
  bool absent = false;      // of those that wait for the directory or for belief: the result is NOT_FOUND
  uint8_t restarts = 0;
  int64_t since_ns = 0;           // not later than the lookup's first READ
  int64_t completed_ns = 0;       // of those that wait to be believed: not later than the completion of all READs
  uint64_t begun = 0;             // of those too: EpochWatch::begun() at that time
  uint64_t from = 0;              // the server's address of what is READ
  kv::Slot slot;                  // with at_first: location in the mirror
  uint64_t hash = 0;              // with at_first: of the key
  uint64_t bucket_offset = 0;     // of the first bucket READ
  uint64_t reported_version = 0;  // the key's version as reported by the server; 0: the server was not asked
  kv::Lookup lookup;
};

// State of an atomic in Counters.
struct AtomicState {
  enum class Step : uint8_t {
    kPost,        // to be posted
    kPosted,      // posted, not completed
    kUndo,        // an add left the range: its reversal is to be posted
    kUndoPosted,  // posted, not completed
  };

  uint64_t cell = 0;
  uint64_t hash = 0;  // of the key
  int64_t operand = 0;
  int64_t expected = 0;
  Kind kind = Kind::kReadCounter;
  Step step = Step::kPost;
  bool noticed = false;  // in flight when a notice came that is not acknowledged yet
};

// An engine keeps it in at most one of its queues.
struct Flight : Linked<FlightTag> {
  Operation* operation = nullptr;  // null: it ended by its deadline; its work requests have not completed
  Engine* engine = nullptr;        // null: the flight is free
  char* own = nullptr;             // ReadBuffer::kOwnBytes of registered memory
  uint32_t pending = 0;            // work requests posted and not completed
  Flight* next_free = nullptr;
  // The engine that has the flight uses one of these: Reads the first, Counters the second.
  GetState get;
  AtomicState atomic;
};

using FlightQueue = LinkedList<Flight, FlightTag>;

// Grows to the maximum number needed at once. Thread safety: one thread. The endpoint outlives the pool. The pool
// outlives all work requests.
class FlightPool {
 public:
  explicit FlightPool(rdma::Endpoint* endpoint) : endpoint_(endpoint) {}

  // Returns null if there is no memory for another flight now.
  Flight* Take(Operation* operation, Engine* engine) {
    Flight* flight = free_;
    if (flight == nullptr) [[unlikely]] {
      if ((flight = Grow()) == nullptr) return nullptr;
    }
    free_ = flight->next_free;
    flight->operation = operation;
    flight->engine = engine;
    operation->flight = flight;
    return flight;
  }
  // REQUIRES: it is in no queue, and no posted work request names its memory.
  void Give(Flight* flight) {
    flight->operation = nullptr;
    flight->engine = nullptr;
    flight->next_free = free_;  // the last used one is taken first: it is in the cache
    free_ = flight;
  }

  // Calls `each` for the flights of an engine.
  template <typename Do>
  void ForEachOf(const Engine* engine, Do each) {
    for (Flight& flight : flights_) {
      if (flight.engine == engine) each(&flight);
    }
  }

  uint64_t memory_bytes() const;

 private:
  Flight* Grow();

  rdma::Endpoint* const endpoint_;
  std::deque<Flight> flights_;  // addresses do not change, and are the ids of work requests
  std::vector<std::unique_ptr<rdma::Buffer>> memory_;
  Flight* free_ = nullptr;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_FLIGHT_H_
