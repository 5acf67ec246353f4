// Memory that the user registered (farlook/memory.h): READs land in it, and the server pulls values from it, where else
// they would be copied.
#ifndef FARLOOK_CLIENT_USER_MEMORY_H_
#define FARLOOK_CLIENT_USER_MEMORY_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. Outlived by its endpoint; it outlives what Find() returned.
class UserMemory {
 public:
  explicit UserMemory(rdma::Endpoint* endpoint) : endpoint_(endpoint) {}
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  // INVALID_ARGUMENT: no bytes; more than there is memory behind. ALREADY_EXISTS: a part of it is registered. Others
  // as of Endpoint::Register().
  absl::Status Register(absl::Span<char> memory);
  // What was registered from `data` on. NOT_FOUND; FAILED_PRECONDITION: it is in use.
  absl::Status Unregister(const char* data);
  // What is registered there, as far as it can be: what is not is copied.
  void RegisterAllOf(const UserMemory& other);

  // The range in which all of these bytes lie; it is in use while somebody holds it. Null: there is none, or the
  // transport has no use for it.
  std::shared_ptr<rdma::Buffer> Find(const char* data, size_t bytes) const;

 private:
  struct Range {
    size_t bytes;
    std::shared_ptr<rdma::Buffer> buffer;
  };

  rdma::Endpoint* const endpoint_;
  std::map<const char*, Range> ranges_;  // by where they begin; no two overlap
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_USER_MEMORY_H_
