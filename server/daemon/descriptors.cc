#include "server/daemon/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/session/connection_quota.h"

namespace farlook::server {
namespace {

// Standard streams, the log, memory, clocks, unfinished handshakes (rdma/shm/limits.h), and a reserve.
constexpr uint64_t kOwn = 64;
// Endpoint, epoll and eventfd of a worker at each address, and those of the listener.
constexpr uint64_t kForEachWorkerAndAddress = 4;
constexpr uint64_t kForEachAddress = 8;

// Sockets that have not sent their first message yet (rdma/tcp/limits.h).
constexpr uint64_t kForEachTcpAddress = 512;

bool IsAuto(const std::string& address) { return absl::StartsWith(address, "auto://"); }
bool IsShm(const std::string& address) { return absl::StartsWith(address, "shm://"); }
bool IsTcp(const std::string& address) { return absl::StartsWith(address, "tcp://") || IsAuto(address); }

// Unfinished handshakes, when descriptors are short.
constexpr uint64_t kHandshakes = 8;

uint64_t WithoutClients(const ServerOptions& options) {
  const uint64_t workers = static_cast<uint64_t>(std::max(options.workers, 1));
  const auto tcp = static_cast<uint64_t>(absl::c_count_if(options.listen, IsTcp));
  const uint64_t all = options.listen.size() + static_cast<uint64_t>(absl::c_count_if(options.listen, IsAuto));
  return kOwn + tcp * kForEachTcpAddress + all * (kForEachAddress + workers * kForEachWorkerAndAddress);
}

// Any client may use any address.
uint64_t ForEachClient(const ServerOptions& options) { return absl::c_any_of(options.listen, IsTcp) ? 2 : 1; }

// Descriptors kept for clients that were kicked within atomics (connection_list.h). They are rarely needed, so a limit
// without them is accepted; a new client is then rejected because descriptors are short.
uint64_t ForKicked(const ServerOptions& options) {
  const bool may_be = options.counter_memory_bytes != 0 && absl::c_any_of(options.listen, IsShm);
  return may_be ? static_cast<uint64_t>(std::max<int64_t>(options.max_clients, 0)) : 0;
}

absl::Status Compare(const ServerOptions& options, uint64_t limit) {
  const uint64_t needed = DescriptorsNeeded(options);
  if (limit >= needed) return absl::OkStatus();
  const uint64_t others = WithoutClients(options);
  return absl::ResourceExhaustedError(
      absl::StrCat("--max_clients=", options.max_clients, " needs ", needed, " file descriptors, but the limit is ",
                   limit, ", enough for ", limit > others ? (limit - others) / ForEachClient(options) : 0,
                   " clients: ulimit -n ", needed, ", LimitNOFILE= in a systemd unit, or fewer --max_clients"));
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

int64_t ClientsWithinDescriptorLimit(const ServerOptions& options) {
  rlimit limit;
  if (!absl::c_any_of(options.listen, IsShm) && !absl::c_any_of(options.listen, IsTcp)) return INT64_MAX;
  std::error_code error;
  std::filesystem::directory_iterator open_now("/proc/self/fd", error);
  if (error || getrlimit(RLIMIT_NOFILE, &limit) != 0) return INT64_MAX;
  const auto taken = static_cast<uint64_t>(std::distance(begin(open_now), end(open_now)));
  const uint64_t each = ForEachClient(options);
  const uint64_t beside = static_cast<uint64_t>(ConnectionQuota::kForOperators) +
                          static_cast<uint64_t>(std::max(options.workers, 1)) * ConnectionQuota::kForProbes;
  const uint64_t others = taken + kHandshakes + beside * each;
  if (limit.rlim_cur <= others) return 0;
  return static_cast<int64_t>(std::min<uint64_t>((limit.rlim_cur - others) / each, INT64_MAX));
}

}  // namespace farlook::server
