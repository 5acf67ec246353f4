// The yardstick on verbs: the programs of perftest, run as a user would, and what they print.
#ifndef FARLOOK_BENCH_MICRO_PERFTEST_H_
#define FARLOOK_BENCH_MICRO_PERFTEST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

struct PerftestResult {
  double typical_us = 0;      // of *_lat: the median, of one way for ib_send_lat, of both for ib_read_lat
  double messages_per_s = 0;  // of *_bw
  double bytes_per_s = 0;     // of *_bw: average
};

// Reads the figures out of what `tool` printed. INTERNAL when they are not there.
absl::StatusOr<PerftestResult> ParsePerftest(absl::string_view tool, absl::string_view output);

// The options by which perftest connects over `device`. By rdma_cm (-R) a server polls until its client has ended, and
// where processors are few it takes them from what is measured: a floor too low. So that is left to iWARP, which knows
// no other way, and to a device that is not there or not named.
std::string PerftestConnection(absl::string_view device);
// Over $FARLOOK_RDMA_DEVICE.
std::string PerftestConnection();

// Runs `tool` ("ib_read_lat") with `args`, as server and as client, both here, over `host`.
// FAILED_PRECONDITION when it is not installed; INTERNAL with what it printed.
absl::StatusOr<PerftestResult> RunPerftest(const std::string& tool, const std::vector<std::string>& args,
                                           const std::string& host);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_PERFTEST_H_
