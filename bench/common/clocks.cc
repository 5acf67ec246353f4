#include "bench/common/clocks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farlook::bench {
namespace {

constexpr useconds_t kLookEveryUs = 1000;
constexpr int kLooks = 1000;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// Returns whether no thread runs or waits for a processor (proc(5): the state follows the name, which may contain
// parentheses).
bool AllThreadsSleep(pid_t pid) {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream file(thread.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(") ");
    if (name_end != std::string::npos && stat.compare(name_end + 2, 1, "R") == 0) return false;
  }
  return true;
}

}  // namespace

CpuTime OwnCpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return {Seconds(usage.ru_utime), Seconds(usage.ru_stime)};
}

absl::StatusOr<int64_t> CpuNsOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return absl::NotFoundError(absl::StrCat("no process ", pid));
  }
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

absl::StatusOr<int64_t> CpuNsOfThread(pid_t pid, absl::string_view name) {
  std::error_code error;
  int64_t sum_ns = 0;
  bool found = false;
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream comm(thread.path() / "comm"), schedstat(thread.path() / "schedstat");
    std::string is;
    int64_t ns = 0;
    if (!std::getline(comm, is) || is != name || !(schedstat >> ns)) continue;
    found = true;
    sum_ns += ns;
  }
  if (!found) return absl::NotFoundError(absl::StrCat("process ", pid, " has no thread ", name));
  return sum_ns;
}

absl::StatusOr<int64_t> CpuNsAtRest(pid_t pid) {
  absl::StatusOr<int64_t> first_ns = CpuNsOf(pid);
  for (int looks = 0; first_ns.ok() && looks < kLooks; ++looks) {
    absl::StatusOr<int64_t> ns = CpuNsOf(pid);
    if (!ns.ok() || (AllThreadsSleep(pid) && CpuNsOf(pid) == ns)) return ns;
    usleep(kLookEveryUs);
  }
  return first_ns;
}

}  // namespace farlook::bench
