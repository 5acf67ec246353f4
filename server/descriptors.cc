#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

// Standard streams, the log, memory, clocks, handshakes that are not over (rdma/shm/limits.h), and some to spare.
constexpr uint64_t kOwn = 64;
// Endpoint, epoll and eventfd of a worker at each address, and the listener's.
constexpr uint64_t kForEachWorkerAndAddress = 4;
constexpr uint64_t kForEachAddress = 8;

// Sockets that have not said yet what they are (rdma/tcp/limits.h).
constexpr uint64_t kForEachTcpAddress = 512;

bool IsAuto(const std::string& address) { return absl::StartsWith(address, "auto://"); }
bool IsShm(const std::string& address) { return absl::StartsWith(address, "shm://"); }
bool IsTcp(const std::string& address) { return absl::StartsWith(address, "tcp://") || IsAuto(address); }

uint64_t WithoutClients(const ServerOptions& options) {
  const uint64_t workers = static_cast<uint64_t>(std::max(options.workers, 1));
  const auto tcp = static_cast<uint64_t>(absl::c_count_if(options.listen, IsTcp));
  const uint64_t all = options.listen.size() + static_cast<uint64_t>(absl::c_count_if(options.listen, IsAuto));
  return kOwn + tcp * kForEachTcpAddress + all * (kForEachAddress + workers * kForEachWorkerAndAddress);
}

// Any of them may come to any address.
uint64_t ForEachClient(const ServerOptions& options) { return absl::c_any_of(options.listen, IsTcp) ? 2 : 1; }

// What clients keep that were kicked within atomics (roster.h). Rarely wanted, so a limit that lacks it is no trouble;
// then whoever comes is told that descriptors are short.
uint64_t ForKicked(const ServerOptions& options) {
  const bool may_be = options.counter_memory_bytes != 0 && absl::c_any_of(options.listen, IsShm);
  return may_be ? static_cast<uint64_t>(std::max<int64_t>(options.max_clients, 0)) : 0;
}

absl::Status Compare(const ServerOptions& options, uint64_t limit) {
  const uint64_t needed = DescriptorsNeeded(options);
  if (limit >= needed) return absl::OkStatus();
  const uint64_t others = WithoutClients(options);
  return absl::ResourceExhaustedError(absl::StrCat(
      "--max_clients=", options.max_clients, " needs ", needed, " file descriptors, and this process may have ", limit,
      ", which do for ", limit > others ? (limit - others) / ForEachClient(options) : 0, " clients: ulimit -n ", needed,
      ", LimitNOFILE= in a systemd unit, or fewer --max_clients"));
}

}  // namespace

uint64_t DescriptorsNeeded(const ServerOptions& options) {
  return WithoutClients(options) +
         ForEachClient(options) * static_cast<uint64_t>(std::max<int64_t>(options.max_clients, 0));
}

absl::Status CheckDescriptorLimit(const ServerOptions& options) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  return Compare(options, limit.rlim_max);
}

absl::Status RaiseDescriptorLimit(const ServerOptions& options) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  const uint64_t wanted = std::min<uint64_t>(DescriptorsNeeded(options) + ForKicked(options), limit.rlim_max);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return Compare(options, limit.rlim_cur);
}

}  // namespace farlook::server
