// Addresses as users write them: `shm:///absolute/path`, `rdma://host:port` and `tcp://host:port`.
#ifndef FARLOOK_RDMA_ADDRESS_H_
#define FARLOOK_RDMA_ADDRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma {

// sockaddr_un::sun_path holds 108 bytes, the last of which is the terminator.
inline constexpr size_t kMaxSocketPathBytes = 107;

enum class Scheme : uint8_t {
  kShm,   // memory of a server on the same host
  kRdma,  // verbs
  kTcp,   // sockets
};

struct Address {
  Scheme scheme = Scheme::kShm;
  std::string path;   // kShm: absolute, 2 to kMaxSocketPathBytes bytes
  std::string host;   // other schemes: a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;  // other schemes: 1 to 65535
};

// Parses an address. INVALID_ARGUMENT explains the fault and the form of an address. Resolves nothing and touches no
// file.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// The inverse: ParseAddress(FormatAddress(a)) equals a.
std::string FormatAddress(const Address& address);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_ADDRESS_H_
