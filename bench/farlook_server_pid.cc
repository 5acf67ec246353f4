#include "bench/farlook_server_pid.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/strip.h"

namespace farlook::bench {

pid_t FarlookServerPid(absl::string_view address) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (!absl::ConsumePrefix(&address, "shm://") || address.size() >= sizeof(name.sun_path)) return 0;
  std::memcpy(name.sun_path, address.data(), address.size());

  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return 0;
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  // In C, a sockaddr is what all of its kinds are cast to.
  const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 &&
                     getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  close(fd);
  return known ? peer.pid : 0;
}

}  // namespace farlook::bench
