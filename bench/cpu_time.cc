#include "bench/cpu_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::bench {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

CpuTime OwnCpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return {Seconds(usage.ru_utime), Seconds(usage.ru_stime)};
}

absl::StatusOr<CpuTime> CpuTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (stat.empty()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  return ParseProcStat(stat);
}

absl::StatusOr<int64_t> CpuNsOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return absl::NotFoundError(absl::StrCat("no process ", pid));
  }
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

absl::StatusOr<CpuTime> ParseProcStat(absl::string_view stat) {
  // The second field is the name in parentheses, which may itself hold spaces and parentheses.
  const size_t name_end = stat.rfind(')');
  if (name_end == absl::string_view::npos) return absl::InvalidArgumentError("no name in /proc/PID/stat");
  const std::vector<absl::string_view> fields = absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  // Fields 14 and 15 of the whole; field 3 is the first after the name.
  constexpr size_t kUser = 14 - 3, kSystem = 15 - 3;
  int64_t user, system;
  if (fields.size() <= kSystem || !absl::SimpleAtoi(fields[kUser], &user) ||
      !absl::SimpleAtoi(fields[kSystem], &system)) {
    return absl::InvalidArgumentError("no times in /proc/PID/stat");
  }
  const double ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  return CpuTime{static_cast<double>(user) / ticks_per_s, static_cast<double>(system) / ticks_per_s};
}

}  // namespace farlook::bench
