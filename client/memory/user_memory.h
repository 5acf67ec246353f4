// Memory that the user registered (farlook/memory.h): READs write into it and the server pulls values from it, without
// copies.
#ifndef FARLOOK_CLIENT_MEMORY_USER_MEMORY_H_
#define FARLOOK_CLIENT_MEMORY_USER_MEMORY_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. Its endpoint outlives it; it outlives the results of Find().
class UserMemory {
 public:
  explicit UserMemory(rdma::Endpoint* endpoint) : endpoint_(endpoint) {}
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  // Registers `memory`. INVALID_ARGUMENT: no bytes, or not all of it is mapped. ALREADY_EXISTS: a part of it is
  // registered. Other errors are those of Endpoint::Register().
  absl::Status Register(absl::Span<char> memory);
  // Unregisters the range that begins at `data`. NOT_FOUND; FAILED_PRECONDITION: it is in use.
  absl::Status Unregister(const char* data);
  // Registers the ranges of `other`, as far as possible; values in other ranges are copied.
  void RegisterAllOf(const UserMemory& other);

  // Returns the range that contains all of these bytes; it is in use while the result exists. Null: there is none, or
  // the transport has no use for it.
  std::shared_ptr<rdma::Buffer> Find(const char* data, size_t bytes) const;

 private:
  struct Range {
    size_t bytes;
    std::shared_ptr<rdma::Buffer> buffer;
  };

  rdma::Endpoint* const endpoint_;
  std::map<const char*, Range> ranges_;  // by their beginnings; they do not overlap
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_MEMORY_USER_MEMORY_H_
