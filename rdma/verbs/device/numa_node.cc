#include "rdma/verbs/device/numa_node.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::verbs {

int NumaNodeOf(absl::string_view name, const std::string& sys) {
  const std::string device = absl::StrCat(sys, "/class/infiniband/", name);
  // Soft-RoCE has no device of its own, but names its interface.
  std::string interface;
  std::ifstream(device + "/parent") >> interface;
  for (const std::string& adapter : {device, absl::StrCat(sys, "/class/net/", interface)}) {
    // The attribute belongs to the PCI device, which is the parent of a virtual adapter's own.
    for (const char* file : {"/device/numa_node", "/device/../numa_node"}) {
      std::ifstream attribute(adapter + file);
      int node = -1;
      if (attribute >> node && node >= 0) return node;
    }
  }
  return -1;
}

}  // namespace farlook::rdma::verbs
