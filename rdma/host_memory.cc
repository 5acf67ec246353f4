#include "rdma/host_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "rdma/host/control_group.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

// Memory left for the rest of the system: at least kLeastMargin, and a fraction of the requested bytes.
constexpr uint64_t kLeastMargin = 32 * kMiB;
constexpr uint64_t kMarginDivisor = 64;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Finds the number after `name`, in bytes, in a file like /proc/meminfo ("MemAvailable:  123 kB"). Returns false if
// there is none.
bool FindKiB(absl::string_view text, absl::string_view name, uint64_t* bytes) {
  const size_t at = text.find(name);
  if (at == absl::string_view::npos) return false;
  unsigned long long kib = 0;  // NOLINT(runtime/int): of sscanf
  const std::string rest(text.substr(at + name.size(), 64));
  if (sscanf(rest.c_str(), "%llu", &kib) != 1) return false;
  *bytes = kib * kKiB;
  return true;
}

bool ReadNumber(const std::string& path, uint64_t* number) {
  return absl::SimpleAtoi(absl::StripSuffix(ReadFile(path), "\n"), number);
}

std::string NodePath(int node) { return absl::StrCat("/sys/devices/system/node/node", node); }

std::string InMiB(uint64_t bytes) { return absl::StrFormat("%.0f MiB", static_cast<double>(bytes) / kMiB); }

const char* SizeName(uint64_t page_bytes) { return page_bytes == 1024 * kMiB ? "1 GiB" : "2 MiB"; }

std::string PoolPath(uint64_t page_bytes) {
  return absl::StrCat("/sys/kernel/mm/hugepages/hugepages-", page_bytes / kKiB, "kB/");
}

struct PagePool {
  uint64_t total;
  uint64_t usable;  // free, and not reserved
};

std::optional<PagePool> ReadPool(uint64_t page_bytes) {
  const std::string path = PoolPath(page_bytes);
  uint64_t total;
  uint64_t free_pages;
  uint64_t reserved;
  if (!ReadNumber(path + "nr_hugepages", &total) || !ReadNumber(path + "free_hugepages", &free_pages) ||
      !ReadNumber(path + "resv_hugepages", &reserved)) {
    return std::nullopt;
  }
  return PagePool{total, free_pages - std::min(free_pages, reserved)};
}

}  // namespace

absl::Status CheckRoom(uint64_t bytes, uint64_t available, absl::string_view where, absl::string_view cure) {
  const uint64_t margin = std::max<uint64_t>(kLeastMargin, bytes / kMarginDivisor);
  if (available >= bytes && available - bytes >= margin) return absl::OkStatus();
  // The most that leaves its own margin.
  const uint64_t most =
      std::min(available - std::min(available, kLeastMargin), available / (kMarginDivisor + 1) * kMarginDivisor);
  return absl::ResourceExhaustedError(
      absl::StrCat(InMiB(bytes), " of memory were asked for, and ", where, " ", InMiB(available), ", of which ",
                   InMiB(margin), " are left to the rest of the system; ask for less",
                   most < kMiB ? "" : absl::StrCat(" (", InMiB(most / kMiB * kMiB), " at most)"), ", or ", cure));
}

absl::Status CheckAvailable(uint64_t bytes, int numa_node) {
  uint64_t available;
  if (FindKiB(ReadFile("/proc/meminfo"), "MemAvailable:", &available)) {
    absl::Status status = CheckRoom(bytes, available, "this host has available", "free memory");
    if (!status.ok()) return status;
  }
  uint64_t node_free;
  const std::string node_text = numa_node < 0 ? "" : ReadFile(NodePath(numa_node) + "/meminfo");
  uint64_t file_pages = 0;
  FindKiB(node_text, "FilePages:", &file_pages);
  if (FindKiB(node_text, "MemFree:", &node_free)) {
    absl::Status status = CheckRoom(bytes, node_free + file_pages, absl::StrCat("NUMA node ", numa_node, " has"),
                                    "for memory of another node");
    if (!status.ok()) return status;
  }
  const GroupLimit limit = MemoryLimit();
  return CheckRoom(bytes, limit.bytes, "the control group allows", absl::StrCat("raise ", limit.file));
}

absl::Status CheckKernel() {
  const long page_bytes = sysconf(_SC_PAGESIZE);  // NOLINT(runtime/int): of sysconf
  const auto bytes = static_cast<size_t>(page_bytes);
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return absl::OkStatus();  // memory is short: another check reports that
  const bool is_old = madvise(page, bytes, MADV_POPULATE_WRITE) != 0 && errno == EINVAL;
  munmap(page, bytes);
  if (!is_old) return absl::OkStatus();
  return absl::UnimplementedError(
      "the kernel is older than Linux 5.14 (no MADV_POPULATE_WRITE), which kv_server needs: update it");
}

absl::Status CheckNumaNode(int node) {
  struct stat info;
  if (node == -1 || (node >= 0 && stat(NodePath(node).c_str(), &info) == 0)) return absl::OkStatus();
  const std::string online = ReadFile("/sys/devices/system/node/online");
  const absl::string_view nodes = absl::StripSuffix(online, "\n");
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no NUMA node ", node, "; ",
      nodes.empty() ? "this kernel knows none at all" : absl::StrCat("the nodes of this host are: ", nodes)));
}

absl::Status CheckHugePageLimit(uint64_t bytes, uint64_t page_bytes) {
  const uint64_t needed = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  const GroupLimit limit = HugePageLimit(page_bytes);
  if (limit.bytes >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      needed / page_bytes, " pages of ", SizeName(page_bytes), " are needed, and the control group allows ",
      limit.bytes / page_bytes, " more: echo ", limit.used + needed, " > ", limit.file));
}

bool EnoughHugePages(uint64_t bytes, uint64_t page_bytes) {
  const std::optional<PagePool> pool = ReadPool(page_bytes);
  return pool.has_value() && pool->usable >= (bytes + page_bytes - 1) / page_bytes &&
         CheckHugePageLimit(bytes, page_bytes).ok();
}

std::string HugePageAdvice(uint64_t bytes, uint64_t page_bytes) {
  const char* const size = SizeName(page_bytes);
  const uint64_t needed = (bytes + page_bytes - 1) / page_bytes;
  const std::optional<PagePool> pool = ReadPool(page_bytes);
  if (!pool.has_value()) return absl::StrCat("this kernel or CPU has no pages of ", size);
  if (pool->usable >= needed) {
    if (const absl::Status limit = CheckHugePageLimit(bytes, page_bytes); !limit.ok()) {
      return std::string(limit.message());
    }
    return absl::StrCat("for pages of ", size, " there are enough in the pool, but not on the node");
  }
  const uint64_t wanted = pool->total + needed - pool->usable;
  return absl::StrCat(
      "pages of ", size, " need ", needed, " in the pool, ", pool->usable, " are free: echo ", wanted, " > ",
      PoolPath(page_bytes), "nr_hugepages",
      page_bytes == 1024 * kMiB ? absl::StrCat(" (or hugepagesz=1G hugepages=", wanted, " at boot)") : "");
}

bool TransparentAllowed() {
  const std::string choice = ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  for (const char* good : {"[advise]", "[always]", "[within_size]", "[force]"}) {
    if (absl::StrContains(choice, good)) return true;
  }
  return false;
}

uint64_t TransparentBytes(const char* data) {
  const std::string begin = absl::StrFormat("%x-", reinterpret_cast<uintptr_t>(data));
  std::ifstream maps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (absl::StartsWith(line, begin)) ours = true;
    uint64_t bytes;
    if (ours && absl::StartsWith(line, "ShmemPmdMapped:") && FindKiB(line, "ShmemPmdMapped:", &bytes)) return bytes;
  }
  return 0;
}

}  // namespace farlook::rdma
