// Where a device is plugged in.
#ifndef FARLOOK_RDMA_VERBS_NUMA_NODE_H_
#define FARLOOK_RDMA_VERBS_NUMA_NODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::rdma::verbs {

// The NUMA node of the RDMA device `name`; of the interface's adapter, where it is a software device. -1: the host has
// one node, or does not tell. `sys` is /sys but in tests.
int NumaNodeOf(absl::string_view name, const std::string& sys = "/sys");

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_NUMA_NODE_H_
