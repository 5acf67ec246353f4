#include "tests/faults/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

// Lines of `rdma resource show KIND` that name one of these threads: an object belongs to the thread that made it.
int Count(const char* kind, const std::vector<std::string>& threads) {
  FILE* const pipe = popen(absl::StrCat("rdma resource show ", kind).c_str(), "r");
  char line[1024];
  int count = 0;
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) {
    const absl::string_view text(line);
    const auto names = [&](const std::string& thread) {
      return absl::StrContains(text, absl::StrCat(" pid ", thread, " "));
    };
    if (std::any_of(threads.begin(), threads.end(), names)) ++count;
  }
  const bool good = pipe != nullptr && pclose(pipe) == 0;
  EXPECT_TRUE(good) << "`rdma` does not tell";
  return count;
}

}  // namespace

DeviceObjects DeviceObjectsOf(pid_t pid) {
  std::vector<std::string> threads;
  for (const auto& thread : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    threads.push_back(thread.path().filename());
  }
  return {Count("qp", threads), Count("cq", threads), Count("mr", threads), Count("cm_id", threads)};
}

uint64_t ReceiverNotReadyErrors() {
  uint64_t sum = 0;
  int counters = 0;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband")) {
    const std::filesystem::path directory = device.path() / "ports/1/hw_counters";
    if (!std::filesystem::exists(directory)) continue;
    for (const auto& counter : std::filesystem::directory_iterator(directory)) {
      if (!absl::StrContains(counter.path().filename().string(), "rnr")) continue;
      uint64_t value = 0;
      std::ifstream(counter.path()) >> value;
      sum += value;
      ++counters;
    }
  }
  const char* const device = std::getenv("FARLOOK_RDMA_DEVICE");
  EXPECT_TRUE(counters >= 3 || device == nullptr || !absl::StartsWith(device, "rxe")) << "the device does not count";
  return sum;
}

int64_t ResidentKib(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  ADD_FAILURE() << "no process " << pid;
  return 0;
}

}  // namespace farlook
