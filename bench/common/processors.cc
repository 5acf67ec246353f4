#include "bench/common/processors.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"

namespace farlook::bench {
namespace {

int64_t ProcessorNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Gaps Look(int64_t ms) {
  Gaps gaps;
  int64_t last_ns = ProcessorNs();
  const int64_t end_ns = last_ns + ms * 1'000'000;
  while (last_ns < end_ns) {
    const int64_t now_ns = ProcessorNs();
    gaps.longest_ns = std::max(gaps.longest_ns, now_ns - last_ns);
    if (now_ns - last_ns >= kLongNs) ++gaps.long_ones;
    last_ns = now_ns;
  }
  return gaps;
}

}  // namespace

cpu_set_t PartProcessors(pid_t server, int count) {
  cpu_set_t all, servers, others;
  CPU_ZERO(&servers);
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return servers;
  CPU_ZERO(&others);
  count = std::clamp(count, 1, CPU_COUNT(&all) - 1);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, count-- > 0 ? &servers : &others);
  }
  if (sched_setaffinity(0, sizeof others, &others) != 0) {
    CPU_ZERO(&servers);
    return servers;
  }
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", server, "/task"), error)) {
    // A thread that has ended meanwhile needs none.
    (void)sched_setaffinity(std::atoi(thread.path().filename().c_str()), sizeof servers, &servers);
  }
  return servers;
}

Gaps MeasureGaps(int64_t ms, const cpu_set_t& processors) {
  Gaps gaps;
  std::thread thread([&] {
    if (CPU_COUNT(&processors) > 0) (void)sched_setaffinity(0, sizeof processors, &processors);
    gaps = Look(ms);
  });
  thread.join();
  return gaps;
}

}  // namespace farlook::bench
