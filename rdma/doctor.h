// Finds what stops Farlook on this host, before it does. Each finding says what mends it.
//
// Reads /proc, /sys and device attributes, sends what resolving an address takes, and changes nothing.
// Thread safety: any thread; each call blocks for as long as it takes.
#ifndef FARLOOK_RDMA_DOCTOR_H_
#define FARLOOK_RDMA_DOCTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rdma/finding.h"
#include "rdma/shared_memory.h"

namespace farlook::rdma {

// Devices and their permissions, ports, addresses, MTUs, locked memory.
Findings ExamineHost();

// The way to a server's address, up to its host. Whether a server answers there, only connecting can tell.
Findings ExamineRoute(absl::string_view address);

struct ServerPlan {
  std::vector<std::string> addresses;  // to listen at
  uint64_t bytes = 0;                  // of the region
  HugePages huge_pages = HugePages::kAuto;
  int numa_node = -1;  // -1: any
};

// Whether a server with this plan could start here. Listens at the addresses for a moment.
Findings ExamineServer(const ServerPlan& plan);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_DOCTOR_H_
