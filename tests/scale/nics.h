// Adapters whose figures are published, and Soft-RoCE as perftest measures it. docs/scale.md says where each figure is
// from.
#ifndef FARLOOK_TESTS_SCALE_NICS_H_
#define FARLOOK_TESTS_SCALE_NICS_H_

#include "tests/scale/model.h"

namespace farlook::scale {

inline constexpr Nic kConnectX3{.name = "ConnectX-3",
                                .round_trip_ns = 1'700,
                                .reads_per_second = 26e6,
                                .sends_per_second = 35e6,
                                .bytes_per_second = 6e9,
                                .read_depth = 16,
                                .cached_queue_pairs = 400,
                                .miss_ns = 100,
                                .doorbell_ns = 20};

inline constexpr Nic kConnectX5{.name = "ConnectX-5",
                                .round_trip_ns = 2'000,
                                .reads_per_second = 40e6,
                                .sends_per_second = 60e6,
                                .bytes_per_second = 11.5e9,
                                .read_depth = 16,
                                .cached_queue_pairs = 2'500,
                                .miss_ns = 50,
                                .doorbell_ns = 20};

// ib_read_lat of 128 bytes in a guest of tests/vm with --icount, where one processor does the work of both sides.
inline constexpr Nic kRxe{.name = "rxe",
                          .round_trip_ns = 36'730,
                          .reads_per_second = 1e9 / 36'725,
                          .sends_per_second = 1e12,
                          .bytes_per_second = 1e12,
                          .read_depth = 128,
                          .cached_queue_pairs = 1'000'000,
                          .miss_ns = 0,
                          .doorbell_ns = 0};

// Of adapters' hosts: instructions of a get on verbs beyond the READ's (1,527), and a worker's rate on shm (2.3 million
// puts each second), both from README.md.
inline constexpr Cpu kHosts{.client_ns = 250, .request_ns = 435, .workers = 8, .clients_per_host = 16};

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_NICS_H_
