#include "rdma/verbs/numa_node.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::verbs {

int NumaNodeOf(absl::string_view name, const std::string& sys) {
  // The attribute is of the PCI device, which is the parent of a virtual adapter's own.
  for (const char* file : {"numa_node", "../numa_node"}) {
    std::ifstream attribute(absl::StrCat(sys, "/class/infiniband/", name, "/device/", file));
    int node = -1;
    if (attribute >> node && node >= 0) return node;
  }
  return -1;
}

}  // namespace farlook::rdma::verbs
