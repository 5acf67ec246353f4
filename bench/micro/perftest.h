// The reference on verbs: the programs of perftest, run as a user would, and their output.
#ifndef FARLOOK_BENCH_MICRO_PERFTEST_H_
#define FARLOOK_BENCH_MICRO_PERFTEST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

struct PerftestResult {
  double typical_us = 0;      // of *_lat: the median, one way for ib_send_lat, both for ib_read_lat
  double messages_per_s = 0;  // of *_bw
  double bytes_per_s = 0;     // of *_bw: average
};

// Parses the figures in the output of `tool`. INTERNAL if they are not there.
absl::StatusOr<PerftestResult> ParsePerftest(absl::string_view tool, absl::string_view output);

// The options with which perftest connects over `device`. With rdma_cm (-R) a server polls until its client has ended.
// If processors are few, it takes them from the measurement: the floor is too low. So -R is used only for iWARP, which
// supports nothing else, and for a device that is missing or not named.
std::string PerftestConnection(absl::string_view device);
// Over $FARLOOK_RDMA_DEVICE.
std::string PerftestConnection();

// Returns whether that device is iWARP: it has no atomics.
bool IsIwarp();

// Runs `tool` ("ib_read_lat") with `args`, as server and as client, both here, over `host`. FAILED_PRECONDITION if it
// is not installed; INTERNAL with its output.
absl::StatusOr<PerftestResult> RunPerftest(const std::string& tool, const std::vector<std::string>& args,
                                           const std::string& host);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_PERFTEST_H_
