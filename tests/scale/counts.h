// What operations of the real client ask of a network, measured: servers and clients of the product on rdma/sim.
#ifndef FARLOOK_TESTS_SCALE_COUNTS_H_
#define FARLOOK_TESTS_SCALE_COUNTS_H_

#include <cstdint>

#include "tests/scale/model.h"

namespace farlook::scale {

struct Load {
  double reads = 1;  // share of gets; the others are puts
  int clients = 8;
  int in_flight = 1;
  uint64_t keys = 1'000;  // zipfian; each client has got each of them before it is measured
  uint64_t key_bytes = 23;
  uint64_t value_bytes = 1'000;
  uint64_t operations = 40'000;
};

struct Measured {
  uint64_t gets = 0, puts = 0, failed = 0;
  double reads_per_get = 0;     // READs of buckets and items
  double messages_per_get = 0;  // requests that reached the server
  double messages_per_put = 0;
  double replies_per_request = 0;
  Counts counts;  // for the model
};

// The same load gives the same figures.
Measured Measure(const Load& load);

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_COUNTS_H_
