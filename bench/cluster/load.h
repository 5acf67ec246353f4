// The records that servers are loaded with.
#ifndef FARLOOK_BENCH_CLUSTER_LOAD_H_
#define FARLOOK_BENCH_CLUSTER_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "farlook/client.h"

namespace farlook::bench {

inline constexpr size_t kLoadBatch = 64;

std::string LoadedKey(int64_t record);

// Puts `records` of them, rounded up to whole batches, each with a value of `value_bytes`. Returns the first error of
// any.
absl::Status Load(Client* client, int64_t records, int64_t value_bytes);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_CLUSTER_LOAD_H_
