#include "bench/micro/measurement.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "base/command_line.h"

ABSL_FLAG(std::string, server, "", "path of the kv_server to start; required");
ABSL_FLAG(int64_t, memory_mib, 1024, "MiB of memory, the server's or the table's");
ABSL_FLAG(int, workers, 1, "the server's workers");
ABSL_FLAG(int64_t, keys, 1'000'000, "number of keys");
ABSL_FLAG(int64_t, operations, 1'000'000, "number of operations of each kind that is timed");
ABSL_FLAG(int64_t, seconds, 1000, "seconds within which the keys expire");
ABSL_FLAG(std::string, json, "", "file for the figures as JSON");

namespace farlook::bench {
namespace {

constexpr int64_t kStartMs = 300'000;
constexpr int64_t kTimeoutMs = 120'000;

std::string Usage(const std::vector<Measurement>& all) {
  std::string text = "Usage: micro MEASUREMENT [--FLAG=VALUE...]\n       micro MEASUREMENT --help\n\n";
  for (const Measurement& each : all) absl::StrAppend(&text, each.name, ": ", each.purpose, "\n");
  return absl::StrCat(
      text, "\nExit codes: 0 all limits hold, 1 wrong input or it cannot be measured, 3 a limit does not hold.\n");
}

// The names of its flags, which then have its defaults.
absl::StatusOr<std::vector<absl::string_view>> TakeDefaults(const Measurement& measurement) {
  std::vector<absl::string_view> names;
  for (const Measurement::Flag& flag : measurement.flags) {
    names.push_back(flag.name);
    std::string why;
    absl::CommandLineFlag* const found = absl::FindCommandLineFlag(flag.name);
    if (found == nullptr || (flag.value.has_value() && !found->ParseFrom(*flag.value, &why))) {
      return absl::InternalError(absl::StrCat("--", flag.name, ": a wrong default: ", why));
    }
  }
  names.push_back("json");
  return names;
}

// The flags of which at least 1 is meant, of those that the measurement takes.
absl::Status CheckFlags(const std::vector<absl::string_view>& names) {
  const auto takes = [&](absl::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (takes("server") && absl::GetFlag(FLAGS_server).empty()) {
    return absl::InvalidArgumentError("needs --server=PATH/kv_server");
  }
  if (takes("workers") && absl::GetFlag(FLAGS_workers) < 1) return absl::InvalidArgumentError("--workers: at least 1");
  if (takes("operations") && absl::GetFlag(FLAGS_operations) < 2) {
    return absl::InvalidArgumentError("--operations: at least 2");
  }
  const std::pair<absl::string_view, int64_t> others[] = {{"memory_mib", absl::GetFlag(FLAGS_memory_mib)},
                                                          {"seconds", absl::GetFlag(FLAGS_seconds)}};
  for (const auto& [name, value] : others) {
    if (takes(name) && value < 1) return absl::InvalidArgumentError(absl::StrCat("--", name, ": at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

int RunMeasurement(const std::vector<Measurement>& all, const std::vector<std::string>& words) {
  const bool help = std::find(words.begin(), words.end(), "--help") != words.end();
  const auto found = words.empty() ? all.end() : std::find_if(all.begin(), all.end(), [&](const Measurement& each) {
    return each.name == words[0];
  });
  if (found == all.end()) {
    std::fputs(Usage(all).c_str(), help ? stdout : stderr);
    return help ? 0 : 1;
  }
  const absl::StatusOr<std::vector<absl::string_view>> names = TakeDefaults(*found);
  absl::Status status = names.status();
  if (status.ok() && help) {
    std::printf("%s: %s\n\n%s", found->name.c_str(), found->purpose.c_str(), FlagsToText(*names).c_str());
    return 0;
  }
  if (status.ok()) status = ParseCommandLine("micro", {words.begin() + 1, words.end()}, *names);
  if (status.ok()) status = CheckFlags(*names);
  if (!status.ok()) {
    std::fprintf(stderr, "micro %s: %s\n", found->name.c_str(), std::string(status.message()).c_str());
    return 1;
  }
  return TakeFigures(found->name, absl::GetFlag(FLAGS_json), found->measure);
}

absl::StatusOr<std::unique_ptr<ServerProcess>> StartServer(int64_t memory_mib, const std::vector<std::string>& more,
                                                           const std::string& address) {
  std::vector<std::string> flags = {absl::StrCat("--memory=", memory_mib, "MiB"),
                                    absl::StrCat("--workers=", absl::GetFlag(FLAGS_workers)), "--log_level=warning"};
  flags.insert(flags.end(), more.begin(), more.end());
  return ServerProcess::Start(absl::GetFlag(FLAGS_server), flags, kStartMs, address);
}

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const ServerProcess& server, ClientOptions options) {
  options.timeout_ms = kTimeoutMs;
  return Client::Connect(server.address(), options);
}

}  // namespace farlook::bench
