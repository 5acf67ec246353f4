// Keys that collide: in one bucket, so that few of them make it overflow and its segment split; with one fingerprint;
// and keys with a common prefix.
#ifndef FARLOOK_TESTS_SIM_KEYS_H_
#define FARLOOK_TESTS_SIM_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rdma/sim/random.h"

namespace farlook::sim {

// The hash seed of every simulated table, in each incarnation, so that state which a client must forget would still
// fit.
inline constexpr uint64_t kHashSeed = 20260101;

// `count` different keys. `crowded`: most of them in one bucket of one of the first segments.
std::vector<std::string> DrawKeys(int count, bool crowded, rdma::sim::Random* random);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_KEYS_H_
