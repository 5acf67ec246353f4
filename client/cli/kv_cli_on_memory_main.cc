// kv_cli on a MemoryStore, for tests of the program as a process.
//
// Its address is file:///PATH: the table is read from that file and written back at the end. FAULT="N CODE" in the
// environment makes the Nth operation and all later ones fail with that absl::StatusCode; DELAY_MS delays each.
// CLUSTER="kv.0 0-2047;kv.1 2048-4095;kv.2" makes it a cluster, whose moves take COPY_LOOKS looks each; its final slots
// are written to AFTER.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/strip.h"
#include "client/cli/context/memory_cluster.h"
#include "client/cli/input/pair_format.h"
#include "client/cli/kv_cli.h"

namespace farlook::cli {
namespace {

class FileStore : public MemoryCluster {
 public:
  explicit FileStore(const std::string& path) : path_(path) {
    std::ifstream file(path_);
    std::string line;
    while (std::getline(file, line)) {
      absl::StatusOr<Pair> pair = ParsePair(line, PairFormat::kTsv);
      if (!pair.ok()) continue;
      if (pair->counter.has_value()) {
        counters()[pair->key] = *pair->counter;
        if (pair->ttl_ms != 0) counter_ttls()[pair->key] = pair->ttl_ms;
        continue;
      }
      Put(pair->key, pair->value);
      items()[pair->key].ttl_ms = pair->ttl_ms;
      items()[pair->key].keep = pair->keep;
    }
  }

  ~FileStore() override {
    std::ofstream file(path_, std::ios::trunc);
    const auto write = [&](const Pair& pair) { file << FormatPair(pair, PairFormat::kTsv) << "\n"; };
    for (const auto& [key, item] : items()) {
      write({.key = key, .value = item.value, .ttl_ms = item.ttl_ms, .keep = item.keep});
    }
    for (const auto& [key, number] : counters()) {
      const auto ttl = counter_ttls().find(key);
      write({.key = key, .counter = number, .ttl_ms = ttl == counter_ttls().end() ? 0 : ttl->second});
    }
    if (const char* after = getenv("AFTER"); after != nullptr) std::ofstream(after) << ToString();
  }

 private:
  const std::string path_;
};

absl::StatusOr<std::unique_ptr<Store>> ConnectToFile(const Options& options) {
  absl::string_view path = options.address;
  if (!absl::ConsumePrefix(&path, "file://")) return absl::InvalidArgumentError("the address is no file:///PATH");
  // An existing file stands for a running server.
  if (access(std::string(path).c_str(), F_OK) != 0) return absl::UnavailableError("no such file");
  auto store = std::make_unique<FileStore>(std::string(path));
  const char* fault = getenv("FAULT");
  const uint64_t first = fault == nullptr ? UINT64_MAX : strtoull(fault, nullptr, 10);
  const std::string text = fault == nullptr ? "" : fault;
  const int code = text.find(' ') == std::string::npos ? 0 : atoi(text.c_str() + text.find(' '));
  const char* delay = getenv("DELAY_MS");
  const int64_t delay_us = delay == nullptr ? 0 : atoll(delay) * 1000;
  const bool read_only = options.read_only;
  if (const char* groups = getenv("CLUSTER"); groups != nullptr) store->AddGroups(groups);
  if (const char* looks = getenv("COPY_LOOKS"); looks != nullptr) store->set_copy_looks(atoi(looks));
  store->set_fault([=](uint64_t number, const client::Operation& operation) {
    if (delay_us > 0) usleep(static_cast<useconds_t>(delay_us));
    if (read_only && client::IsWrite(operation.kind)) return absl::PermissionDeniedError("read-only client");
    return number < first ? absl::OkStatus() : absl::Status(static_cast<absl::StatusCode>(code), "injected");
  });
  return store;
}

}  // namespace
}  // namespace farlook::cli

int main(int argc, char** argv) { return farlook::cli::KvCli(argc, argv, farlook::cli::ConnectToFile); }
