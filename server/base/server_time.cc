#include "server/base/server_time.h"

#include <algorithm>
#include <ctime>

namespace farlook::server {

ServerTime ServerTime::OfHost(int64_t now_ns) {
  constexpr int64_t k2020S = 1'577'836'800;  // in seconds since 1970
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);  // wall clock: of all servers
  const int64_t us = (static_cast<int64_t>(now.tv_sec) - k2020S) * 1'000'000 + now.tv_nsec / 1000;
  return ServerTime(static_cast<uint64_t>(std::max<int64_t>(1, us)), now_ns);
}

}  // namespace farlook::server
