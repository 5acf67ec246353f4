// The NUMA node of a device.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_NUMA_NODE_H_
#define FARLOOK_RDMA_VERBS_DEVICE_NUMA_NODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::rdma::verbs {

// Returns the NUMA node of the adapter behind the RDMA device `name`; for a software device, of the adapter behind its
// network interface. -1 if the kernel reports none, as on a host that has one node. `sys`: where sysfs is mounted;
// tests pass a copy.
int NumaNodeOf(absl::string_view name, const std::string& sys = "/sys");

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_NUMA_NODE_H_
