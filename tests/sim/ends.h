// Ends of items that expire: computes which end of each value is consistent with the clients' answers, so that
// tests/history can check them.
//
// A put with a ttl, or a touch, that took effect at some moment between its begin and its end gives the item a time of
// the server's clock. A run knows that clock, so it knows the moment at which the item ends, except for the server's
// rounding up to its next millisecond. A counter ends when the sweep removes it, soon after. In a group the earliest
// and the latest time at which an item may end are known.
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

// The ttl of an operation, in addition to its history.
struct Lease {
  size_t place = 0;      // of the operation in the key's history
  int64_t ttl_ms = 0;    // 0: the item is never to expire
  bool touches = false;  // a Touch, Persist or GetAndTouch, which the history records as a get; otherwise a put
  bool apart = false;    // of a GetAndTouch: the value was read after the touch, and may be another, or none, by then
  bool keeps = false;    // a put: the item ends when the one before would have, if that would
};

// The time at which an item ends: not before, and not after. kNever, kNever: it does not.
struct End {
  int64_t lo_ns = history::kNever, hi_ns = history::kNever;
  bool finite() const { return lo_ns != history::kNever; }
};

// Returns when an item ends whose ttl this operation set; 0: all.
using EndOf = std::function<End(const history::Operation& operation, int64_t ttl_ms)>;

// Ends by the clock of one server. `clock_at` returns its clock at a moment: it is set differently at each start, and
// does not jump in between.
using ClockAt = std::function<rdma::sim::SimClock(int64_t true_ns)>;
EndOf EndByClock(ClockAt clock_at);
// Ends in a group, whose members measure time by their own clocks: the promises of docs/cluster-design.md ("Expiry and
// counters").
End EndInGroup(const history::Operation& operation, int64_t ttl_ms);

// Adds the ends of values to a key's history. Returns a description of an error, or an empty string. Errors are a touch
// that succeeded after the end of what it touched, and a counter that existed long after its end.
std::string AddEnds(const EndOf& end_of, const std::vector<Lease>& leases, history::KeyHistory* history);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_ENDS_H_
