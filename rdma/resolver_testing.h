// Replaces the system's resolver in tests: they need no network, and no /etc/hosts.
#ifndef FARLOOK_RDMA_RESOLVER_TESTING_H_
#define FARLOOK_RDMA_RESOLVER_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::rdma {

// During its lifetime all names of this process are looked up here. One at a time.
//
// Thread safety: any thread.
class TestResolver {
 public:
  TestResolver();
  ~TestResolver();  // pending lookups continue first, and find nothing
  TestResolver(const TestResolver&) = delete;
  TestResolver& operator=(const TestResolver&) = delete;

  // Sets the numeric hosts that a name stands for. None: the name is unknown, as initially.
  void Set(absl::string_view name, std::vector<std::string> hosts);
  // From Hang() to GoOn() lookups wait, as if no name server answered.
  void Hang();
  void GoOn();
  // Number of lookups that began.
  int lookups() const;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_RESOLVER_TESTING_H_
