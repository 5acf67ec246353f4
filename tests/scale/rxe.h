// The model's view of Soft-RoCE on one processor with virtual time (tests/vm/run --icount), and the measured rates of
// the product's clients there. Each parameter is from a separate experiment, none from these rates: docs/scale.md,
// "Against rxe".
#ifndef FARLOOK_TESTS_SCALE_RXE_H_
#define FARLOOK_TESTS_SCALE_RXE_H_

#include <limits>

#include "tests/scale/model.h"

namespace farlook::scale {

// The time that a packet and its answer take the processor, both ends together; a READ takes a little more.
inline constexpr double kRxePacketNs = 21'120;
inline constexpr double kRxeReadNs = 22'760;
inline constexpr double kRxeReadAloneNs = 36'600;
inline constexpr double kRxePostNs = 4'930;

inline constexpr Nic kRxe{.name = "rxe",
                          .round_trip_ns = 0,  // only its parts
                          .reads_per_second = 1e9 / (kRxeReadNs - kRxePacketNs),
                          .sends_per_second = 1e9 / (kRxePacketNs / 2),
                          .bytes_per_second = std::numeric_limits<double>::infinity(),
                          .read_depth = 128,
                          .cached_queue_pairs = 1'000'000,
                          .miss_ns = 0,
                          .doorbell_ns = kRxePostNs,
                          .batch_ns = kRxeReadAloneNs - kRxeReadNs - kRxePostNs};

struct RxeRate {
  char workload;  // of YCSB: 'C' or 'B'
  bool by_message;
  int clients;
  int in_flight;    // of each
  double measured;  // operations per second of all together
};

extern const RxeRate kRxeRates[];
extern const int kRxeRateCount;

// Returns the model's rate.
double Predict(const RxeRate& rate);

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_RXE_H_
