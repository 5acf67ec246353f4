// Where a device is plugged in.
#ifndef FARLOOK_RDMA_VERBS_NUMA_NODE_H_
#define FARLOOK_RDMA_VERBS_NUMA_NODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::rdma::verbs {

// Returns the NUMA node of the adapter behind the RDMA device `name`; of a software device, of the adapter behind its
// network interface. -1 if the kernel names none, as on a host that has one node. `sys`: where sysfs is mounted; tests
// pass a copy.
int NumaNodeOf(absl::string_view name, const std::string& sys = "/sys");

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_NUMA_NODE_H_
