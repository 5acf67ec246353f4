// The addresses of one server, each of which a client tries once, in their order.
#ifndef FARLOOK_RDMA_HOST_CANDIDATES_H_
#define FARLOOK_RDMA_HOST_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/resolver.h"

namespace farlook::rdma {

// Thread safety: none.
class Candidates {
 public:
  // `lookup`: that of the address's host.
  Candidates(std::shared_ptr<const Lookup> lookup, Address address);

  // Returns whether the addresses are known by now. An error is final; errors as for Lookup.
  absl::StatusOr<bool> Find(int64_t now_ns);
  // Time at which Find() must be called again although the lookup has not been answered; INT64_MAX: not necessary.
  int64_t fallback_ns() const { return found_.empty() ? lookup_->fallback_ns() : INT64_MAX; }

  // Number of known addresses that are not tried yet.
  size_t left() const { return found_.size() - tried_; }
  // Returns the next address, with the port. REQUIRES left() > 0.
  SocketAddress Next();
  // Records the failure of an address, for Tried().
  void Failed(const SocketAddress& address, absl::string_view why);
  // "[::1]:7905: Connection refused, 127.0.0.1:7905: Connection refused".
  std::string Tried() const;

  // Returns whether the user gave a name: errors must then list the addresses that it stands for.
  bool is_name() const { return is_name_; }
  // The server's address as the user wrote it; and one of the candidates in that form.
  const std::string& shown() const { return shown_; }
  std::string Shown(const SocketAddress& candidate) const;
  const Address& address() const { return address_; }

 private:
  const std::shared_ptr<const Lookup> lookup_;
  const Address address_;
  const std::string shown_;
  SocketAddresses found_;
  bool is_name_ = true;
  size_t tried_ = 0;
  std::vector<std::string> failed_;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_CANDIDATES_H_
