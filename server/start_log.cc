#include "server/start_log.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/log.h"

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
  for (const std::string& address : facts.addresses) Log(LogLevel::kInfo, "listening", {{"address", address}});
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
