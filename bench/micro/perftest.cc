#include "bench/micro/perftest.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace farlook::bench {
namespace {

constexpr int kConnects = 50;  // of a client whose server is not there yet
constexpr useconds_t kBetweenUs = 50'000;
// On Soft-RoCE one end of a pair may send for ever to the other end, which never becomes ready.
constexpr int kTries = 3;
constexpr int kLimitS = 100;

// Starts a perftest server, which serves one client and ends.
pid_t StartServer(const std::string& command) {
  fflush(stdout);  // otherwise the child would print the buffered text again
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setpgid(0, 0);
  if (freopen("/dev/null", "w", stdout) == nullptr || freopen("/dev/null", "w", stderr) == nullptr) _exit(126);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

// The command's output on both streams.
std::string Output(const std::string& command, int* status) {
  std::string text;
  FILE* const pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    *status = -1;
    return "";
  }
  char buffer[4096];
  for (size_t bytes; (bytes = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, bytes);
  *status = pclose(pipe);
  return text;
}

// The node type of a device; empty: it is missing, or not named.
constexpr absl::string_view kRnic = "4:";
std::string NodeType(absl::string_view device) {
  std::string type;
  if (device.empty()) return type;
  std::ifstream file(absl::StrCat("/sys/class/infiniband/", device, "/node_type"));
  std::getline(file, type);
  return type;
}

std::string DeviceInUse() {
  const char* const device = std::getenv("FARLOOK_RDMA_DEVICE");
  return device == nullptr ? "" : device;
}

bool NotInstalled(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 127; }
bool Hung(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL; }

// The output of a client once its server listens; until then it ends at once.
std::string RunClient(const std::string& command, int* status) {
  std::string output;
  for (int attempt = 0; attempt < kConnects; ++attempt) {
    usleep(kBetweenUs);
    output = Output(command, status);
    if (*status == 0 || NotInstalled(*status) || Hung(*status)) break;
  }
  return output;
}

}  // namespace

std::string PerftestConnection(absl::string_view device) {
  const std::string type = NodeType(device);
  return type.empty() || absl::StartsWith(type, kRnic) ? "-R" : absl::StrCat("-d ", device);
}

std::string PerftestConnection() { return PerftestConnection(DeviceInUse()); }

bool IsIwarp() { return absl::StartsWith(NodeType(DeviceInUse()), kRnic); }

absl::StatusOr<PerftestResult> ParsePerftest(absl::string_view tool, absl::string_view output) {
  bool header = false;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (absl::StrContains(line, "#bytes")) {
      header = true;
      continue;
    }
    if (!header) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    PerftestResult result;
    if (absl::EndsWith(tool, "_lat")) {
      if (fields.size() >= 5 && absl::SimpleAtod(fields[4], &result.typical_us)) return result;
    } else if (fields.size() >= 5) {
      double megabytes, millions;  // perftest's MB are 2^20 bytes
      if (absl::SimpleAtod(fields[3], &megabytes) && absl::SimpleAtod(fields[4], &millions)) {
        result.bytes_per_s = megabytes * (1 << 20);
        result.messages_per_s = millions * 1e6;
        return result;
      }
    }
    break;
  }
  return absl::InternalError(absl::StrCat(tool, " printed no figures: ", output));
}

absl::StatusOr<PerftestResult> RunPerftest(const std::string& tool, const std::vector<std::string>& args,
                                           const std::string& host) {
  // -F: the clock's frequency may vary.
  const std::string command = absl::StrCat(tool, " ", PerftestConnection(), " -F ", absl::StrJoin(args, " "));
  std::string output;
  int status = -1;
  for (int attempt = 0; status != 0 && attempt < kTries; ++attempt) {
    const pid_t server = StartServer(absl::StrCat("exec ", command));
    if (server < 0) return absl::ResourceExhaustedError("cannot fork");
    output = RunClient(absl::StrCat("timeout -s KILL ", kLimitS, " ", command, " ", host), &status);
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
    if (NotInstalled(status)) break;
  }
  if (NotInstalled(status)) {
    return absl::FailedPreconditionError(absl::StrCat(tool, " is not installed: apt install perftest"));
  }
  if (status != 0) return absl::InternalError(absl::StrCat(command, " ", host, " fails: ", output));
  return ParsePerftest(tool, output);
}

}  // namespace farlook::bench
