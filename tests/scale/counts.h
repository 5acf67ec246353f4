// The network operations of the real client's operations, measured: servers and clients of the product on rdma/sim.
#ifndef FARLOOK_TESTS_SCALE_COUNTS_H_
#define FARLOOK_TESTS_SCALE_COUNTS_H_

#include <cstdint>

#include "tests/scale/model.h"

namespace farlook::scale {

// Knowledge of the index that each client has before the measurement.
enum class Known : uint8_t {
  kItems,    // it has got each key
  kIndex,    // it has had Client::Warm() READ the index, and got no key
  kNothing,  // it has got no key
};

struct Load {
  double reads = 1;  // share of gets; the others are puts
  int clients = 8;
  int in_flight = 1;
  Known known = Known::kItems;
  uint64_t keys = 1'000;  // zipfian; but where `known` is another, no client gets a key twice
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

// The same load gives the same figures. REQUIRES that a client has as many keys as it gets, if it gets none twice.
Measured Measure(const Load& load);

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_COUNTS_H_
