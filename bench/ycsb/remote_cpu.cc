#include "bench/ycsb/remote_cpu.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farlook::bench {
namespace {

constexpr timeval kPatience = {.tv_sec = 10, .tv_usec = 0};  // the process may take a second to come to rest

}  // namespace

absl::StatusOr<int64_t> RemoteCpuNsAtRest(const StoreAddress& reporter, pid_t pid) {
  const auto unavailable = [&reporter](absl::string_view why) {
    return absl::UnavailableError(
        absl::StrCat("no report of the server's CPU time from ", reporter.host, ":", reporter.port, ": ", why));
  };
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(reporter.host.c_str(), absl::StrCat(reporter.port).c_str(), &hints, &found);
      error != 0) {
    return unavailable(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return unavailable(std::strerror(errno));
  const absl::Cleanup close_fd = [fd] { close(fd); };
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);  // also bounds connect()
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  const std::string question = absl::StrCat(pid, "\n");
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 ||
      send(fd, question.data(), question.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(question.size())) {
    return unavailable(std::strerror(errno));
  }
  std::string answer;
  char buffer[256];
  ssize_t bytes;
  while ((bytes = recv(fd, buffer, sizeof buffer, 0)) > 0) answer.append(buffer, static_cast<size_t>(bytes));
  if (bytes < 0) return unavailable(std::strerror(errno));
  int64_t ns;
  if (!absl::SimpleAtoi(answer, &ns)) {
    return absl::NotFoundError(absl::StrCat("asked for the CPU time of process ", pid, ", ", reporter.host, ":",
                                            reporter.port, " answered: ", answer));
  }
  return ns;
}

}  // namespace farlook::bench
