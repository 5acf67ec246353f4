// Detection of fork(). A child has a copy of its parent's client and must not use it: the sockets, epoll sets and
// shared memory behind the copy belong to the parent.
#ifndef FARLOOK_CLIENT_OP_FORKS_H_
#define FARLOOK_CLIENT_OP_FORKS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::client {

// Number of forks that led to this process, counted from the first CountForks(). Only a child's first thread adds to
// it.
inline std::atomic<uint32_t> forks{0};

// Starts counting `forks`, and returns the number.
uint32_t CountForks();

// Mark of the process in which it was made.
class ForkMark {
 public:
  // Returns true in a child of that process. Three instructions.
  bool in_child() const { return made_in_ != forks.load(std::memory_order_relaxed); }
  uint32_t made_in() const { return made_in_; }

 private:
  const uint32_t made_in_ = CountForks();
};

// The error of every call in a child.
inline constexpr absl::string_view kOfParent = "the client is of this process' parent: connect again after fork()";
absl::Status OfParent();

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_FORKS_H_
