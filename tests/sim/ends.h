// Of items that expire: which end of each value the clients' answers speak for, so that tests/history can judge them.
//
// A put with a ttl, or a touch, that took effect at some moment between its begin and its end gives the item a time of
// the server's clock. A run knows that clock, so it knows the moment in which the item ends, but for where the server
// rounds up to its next millisecond. A counter ends when the sweep comes, soon after. Of a group it is known from when
// on an item may end, and when it must have.
#ifndef FARLOOK_TESTS_SIM_ENDS_H_
#define FARLOOK_TESTS_SIM_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rdma/sim/network.h"
#include "tests/history/history.h"

namespace farlook::sim {

// What an operation asked for, beside what its history says.
struct Lease {
  size_t place = 0;      // of the operation in the key's history
  int64_t ttl_ms = 0;    // 0: the item is never to expire
  bool touches = false;  // it is a Touch, Persist or GetAndTouch, which stands in the history as a get; else a put
  bool apart = false;    // of a GetAndTouch: the value was read after the touch, and may be another, or none, by then
  bool keeps = false;    // a put: the item ends when the one before would have, if that would
};

// The moment in which an item ends: not before, and not after. kNever, kNever: it does not.
struct End {
  int64_t lo_ns = history::kNever, hi_ns = history::kNever;
  bool finite() const { return lo_ns != history::kNever; }
};

// When an item ends to which this operation gave that time; 0: all.
using EndOf = std::function<End(const history::Operation& operation, int64_t ttl_ms)>;

// Of one server. `clock_at` says what clock it had at a moment: it is set anew with each start, and does not jump in
// between.
using ClockAt = std::function<rdma::sim::SimClock(int64_t true_ns)>;
EndOf EndByClock(ClockAt clock_at);
// Of a group, whose members count the time each by their own clocks: what docs/cluster.md promises ("Expiry and
// counters").
End EndInGroup(const history::Operation& operation, int64_t ttl_ms);

// Adds the ends of values to a key's history. Returns what is wrong: a touch succeeded after the end of what it
// touched, or a counter was there long after its end. Else nothing.
std::string AddEnds(const EndOf& end_of, const std::vector<Lease>& leases, history::KeyHistory* history);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_ENDS_H_
