// Of items that expire: which end of each value the clients' answers speak for, so that tests/history can judge them.
//
// A put with a ttl, or a touch, that took effect at some moment between its begin and its end gives the item a time of
// the server's clock. A run knows that clock, so it knows the moment in which the item ends, but for where the server
// rounds up to its next millisecond.
#ifndef FARLOOK_TESTS_SIM_ENDS_H_
#define FARLOOK_TESTS_SIM_ENDS_H_

#include <cstddef>
#include <cstdint>
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
};

// Adds the ends of values to a key's history; `clock` is the server's, which neither jumped nor was set anew. Returns
// what is wrong with a touch: it succeeded after the end of what it touched. Else nothing.
std::string AddEnds(const rdma::sim::SimClock& clock, const std::vector<Lease>& leases, history::KeyHistory* history);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_ENDS_H_
