// An operation that has READs or atomics posted, and the memory that these name. All engines take their flights from
// one pool; each bounds how many it has at once. A request to the server needs no flight (session.h).
#ifndef FARLOOK_CLIENT_FLIGHT_H_
#define FARLOOK_CLIENT_FLIGHT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "client/landing.h"
#include "client/linked_list.h"
#include "client/operation.h"
#include "kv/lookup.h"
#include "kv/slot.h"
#include "rdma/transport.h"

namespace farlook::client {

struct FlightTag;

// What Reads keeps of a get.
struct GetState {
  Landing landing;
  bool remembered = false;  // it began where the mirror said
  bool at_first = false;    // of those, what is there is READ, and `lookup` begins only if that does not prove itself
  bool absent = false;      // of those that wait for the directory, or to be believed: what they say is NOT_FOUND
  uint8_t restarts = 0;
  int64_t since_ns = 0;        // at most the time of the lookup's first READ
  int64_t completed_ns = 0;    // of those that wait until they may be believed: when all was READ, at most
  uint64_t begun = 0;          // of those too: EpochWatch::begun() at that time
  uint64_t from = 0;           // the server's address of what is READ
  kv::Slot slot;               // at first: where the mirror said
  uint64_t hash = 0;           // at first: of the key
  uint64_t bucket_offset = 0;  // of the first bucket READ
  uint64_t told = 0;           // the version that the server said the key has; 0: it was not asked
  kv::Lookup lookup;
};

// What Counters keeps of an atomic.
struct AtomicState {
  enum class Step : uint8_t {
    kPost,        // to be posted
    kPosted,      // and not completed
    kUndo,        // an add left the range: what takes it back is to be posted
    kUndoPosted,  // and not completed
  };

  uint64_t cell = 0;
  uint64_t hash = 0;  // of the key
  int64_t operand = 0;
  int64_t expected = 0;
  Kind kind = Kind::kReadCounter;
  Step step = Step::kPost;
  bool noticed = false;  // was under way when the notice came that is owed an answer
};

// An engine keeps it in at most one of its queues.
struct Flight : Linked<FlightTag> {
  Operation* operation = nullptr;  // null: it has ended by its deadline; what was posted has not completed
  Engine* engine = nullptr;        // null: the flight is free
  char* own = nullptr;             // Landing::kOwnBytes of registered memory
  uint32_t pending = 0;            // work requests posted and not completed
  Flight* next_free = nullptr;
  // The engine that has the flight uses one of these: Reads the first, Counters the second.
  GetState get;
  AtomicState atomic;
};

using FlightQueue = LinkedList<Flight, FlightTag>;

// Grows to as many as were ever needed at once. Thread safety: one thread. The endpoint outlives it; it outlives what
// was posted.
class FlightPool {
 public:
  explicit FlightPool(rdma::Endpoint* endpoint) : endpoint_(endpoint) {}

  // Null: there is no memory for another one now.
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
  // REQUIRES: it is in no queue, and nothing that names its memory is posted.
  void Give(Flight* flight) {
    flight->operation = nullptr;
    flight->engine = nullptr;
    flight->next_free = free_;  // the last used is taken first: it is warm
    free_ = flight;
  }

  // Those that an engine has.
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
  std::deque<Flight> flights_;  // addresses stay, and are the ids of work requests
  std::vector<std::unique_ptr<rdma::Buffer>> memory_;
  Flight* free_ = nullptr;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_FLIGHT_H_
