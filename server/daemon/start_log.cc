#include "server/daemon/start_log.h"

#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/log.h"

namespace farlook::server {

void LogStart(const ServerFacts& facts) {
  Log(LogLevel::kInfo, "memory",
      {{"bytes", facts.memory_bytes},
       {"page_bytes", facts.page_bytes},
       {"huge_pages", facts.huge_pages},
       {"numa_node", facts.numa_node < 0 ? "any" : absl::StrCat(facts.numa_node)},
       {"partitions", facts.partitions}});
  if (!facts.memory_advice.empty()) {
    Log(LogLevel::kInfo, "larger pages would make reads faster", {{"advice", facts.memory_advice}});
  }
  if (const unsigned cpus = std::thread::hardware_concurrency(); cpus != 0 && facts.workers > static_cast<int>(cpus)) {
    Log(LogLevel::kWarning, "more workers than CPUs",
        {{"workers", facts.workers}, {"cpus", cpus}, {"advice", "fewer --workers"}});
  }
  if (facts.cell_bytes != 0) {
    Log(LogLevel::kInfo, "counters", {{"bytes", facts.cell_bytes}, {"atomics", facts.atomics}});
  }
  for (size_t i = 0; i < facts.addresses.size(); ++i) {
    if (i >= facts.bound.size() || facts.bound[i].empty()) {
      Log(LogLevel::kInfo, "listening", {{"address", facts.addresses[i]}});
    } else {
      Log(LogLevel::kInfo, "listening", {{"address", facts.addresses[i]}, {"bound", facts.bound[i]}});
    }
  }
}

void LogAccess(const std::vector<std::string>& addresses, const UserList* users) {
  for (const std::string& address : addresses) {
    const bool local = absl::StartsWith(address, "shm:");
    size_t count = 0;
    if (users != nullptr) {
      for (const User& user : users->all()) {
        if (local ? !user.uids.empty() || !user.gids.empty() : !user.secret.empty()) ++count;
      }
      Log(count == 0 ? LogLevel::kWarning : LogLevel::kInfo, "users may come",
          {{"address", address}, {"users", count}, {"known_by", local ? "their uid or group" : "their secret"}});
    } else if (local) {
      Log(LogLevel::kInfo, "every process that may write to the socket file may read and write all keys",
          {{"address", address}});
    } else {
      Log(LogLevel::kWarning, "no authentication: every host that reaches this address may read and write all keys",
          {{"address", address}, {"advice", "--users=FILE, or a network of trusted hosts"}});
    }
  }
}

void LogReady(const ServerFacts& facts, int64_t start_ns) {
  Log(LogLevel::kInfo, "ready",
      {{"version", facts.version},
       {"incarnation", absl::Hex(facts.incarnation, absl::kZeroPad16)},
       {"workers", facts.workers},
       {"max_clients", facts.max_clients},
       {"max_value_bytes", facts.max_value_bytes},
       {"window", facts.window},
       {"start_ms", start_ns / 1'000'000}});
}

}  // namespace farlook::server
