// Adapters with published figures. docs/reports/2026-11-26-scale.md names the source of each figure.
#ifndef FARLOOK_TESTS_SCALE_NICS_H_
#define FARLOOK_TESTS_SCALE_NICS_H_

#include "tests/scale/model.h"

namespace farlook::scale {

inline constexpr Nic kConnectIb{.name = "Connect-IB",
                                .round_trip_ns = 1'900,
                                .reads_per_second = 94.6e6,
                                .sends_per_second = 163.6e6,
                                .bytes_per_second = 13.1e9,
                                .read_depth = 16,
                                .cached_queue_pairs = 1'030,
                                .miss_ns = 73,
                                .doorbell_ns = 25.6};

inline constexpr Nic kConnectX6{.name = "ConnectX-6",
                                .round_trip_ns = 2'350,
                                .reads_per_second = 111.2e6,
                                .sends_per_second = 181e6,
                                .bytes_per_second = 23e9,
                                .read_depth = 16,
                                .cached_queue_pairs = 350,
                                .miss_ns = 39,
                                .doorbell_ns = 25.6};

// The hosts of adapters. `client_ns`: instructions of a get on verbs beyond the READ's (1,174, README.md) and those of
// the work request. `request_ns`: from a worker's rate on shm (2.3 million puts each second).
inline constexpr Cpu kHosts{.client_ns = 250, .request_ns = 435, .workers = 8, .clients_per_host = 16};

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_NICS_H_
