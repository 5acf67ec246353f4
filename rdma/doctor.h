// Finds what prevents Farlook from working on this host, before it is used. Each finding includes the remedy.
//
// Reads /proc, /sys and device attributes, sends what resolving an address needs, and changes nothing. Thread safety:
// any thread; calls block.
#ifndef FARLOOK_RDMA_DOCTOR_H_
#define FARLOOK_RDMA_DOCTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rdma/finding.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace farlook::rdma {

// Checks devices and their permissions, ports, addresses, MTUs, locked memory.
Findings ExamineHost();

// Checks the route to a server's address, up to its host. Only connecting can show whether a server answers there.
Findings ExamineRoute(absl::string_view address);

struct ServerPlan {
  std::vector<std::string> addresses;  // to listen at
  uint64_t bytes = 0;                  // of the region
  uint64_t counter_bytes = 0;
  HugePages huge_pages = HugePages::kAuto;
  std::string memory_file;     // empty: none
  int numa_node = -1;          // -1: any
  TransportOptions transport;  // of the listeners
};

// Checks whether a server with this plan could start here. Listens at the addresses for a moment.
Findings ExamineServer(const ServerPlan& plan);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_DOCTOR_H_
