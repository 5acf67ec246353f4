// The measured throughput of the product's clients: on Soft-RoCE in a guest of tests/vm the model is compared with it.
#ifndef FARLOOK_TESTS_SCALE_RXE_RATE_H_
#define FARLOOK_TESTS_SCALE_RXE_RATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook::scale {

inline constexpr int64_t kRateKeys = 1'000;
inline constexpr size_t kRateValueBytes = 64;
inline constexpr int kRatePutsPercent = 5;  // of workload B

struct Work {
  bool pings = false;  // instead of gets
  Lookups lookups = Lookups::kReads;
  int puts_percent = 0;  // of the operations; the others are gets
  int clients = 1;       // threads, each with a connection
  int in_flight = 1;     // of each
};

// Operations per second of all clients together, keys zipfian. Each client has got each key before, and sleeps while it
// waits. An error is that of the first failed operation. `around`, if any, is called with true when all are connected,
// and with false when they have finished. REQUIRES: PutKeys.
absl::StatusOr<double> RateOf(const std::string& address, const Work& work, int64_t operations,
                              const std::function<void(bool begins)>& around);

absl::Status PutKeys(const std::string& address);

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_RXE_RATE_H_
