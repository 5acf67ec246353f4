#include "rdma/host_memory.h"

#include <sys/stat.h>

#include <algorithm>
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

namespace farlook::rdma {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number after `name`, in bytes, of a file like /proc/meminfo ("MemAvailable:  123 kB"). False when there is none.
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

// The tightest limit of the control groups (version 2) that this process is in.
uint64_t GroupLimit(std::string* file) {
  uint64_t least = UINT64_MAX;
  std::istringstream groups(ReadFile("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    absl::string_view path = line;
    if (!absl::ConsumePrefix(&path, "0::")) continue;
    while (!path.empty()) {
      const std::string limit_file = absl::StrCat("/sys/fs/cgroup", path == "/" ? "" : path, "/memory.max");
      uint64_t limit;
      if (ReadNumber(limit_file, &limit) && limit < least) {
        least = limit;
        *file = limit_file;
      }
      path = path.substr(0, path.rfind('/'));
    }
  }
  return least;
}

std::string PoolPath(uint64_t page_bytes) {
  return absl::StrCat("/sys/kernel/mm/hugepages/hugepages-", page_bytes / kKiB, "kB/");
}

struct PagePool {
  uint64_t total;
  uint64_t usable;  // free, and not promised to someone
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

absl::Status CheckAvailable(uint64_t bytes, int numa_node) {
  // The rest of the system has to live too.
  const uint64_t needed = bytes + std::max<uint64_t>(32 * kMiB, bytes / 64);
  uint64_t available;
  if (FindKiB(ReadFile("/proc/meminfo"), "MemAvailable:", &available) && available < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(InMiB(bytes), " of memory were asked for, ", InMiB(available),
                                                     " are available; ask for less, or free memory"));
  }
  uint64_t node_free;
  const std::string node_text = numa_node < 0 ? "" : ReadFile(NodePath(numa_node) + "/meminfo");
  uint64_t file_pages = 0;
  FindKiB(node_text, "FilePages:", &file_pages);
  if (FindKiB(node_text, "MemFree:", &node_free) && node_free + file_pages < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(InMiB(bytes), " of memory were asked for on NUMA node ", numa_node,
                                                     ", which has ", InMiB(node_free),
                                                     " free; ask for less, or for another node"));
  }
  std::string limit_file;
  const uint64_t limit = GroupLimit(&limit_file);
  if (limit < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        InMiB(bytes), " of memory were asked for, the control group allows ", InMiB(limit), "; raise ", limit_file));
  }
  return absl::OkStatus();
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

bool EnoughHugePages(uint64_t bytes, uint64_t page_bytes) {
  const std::optional<PagePool> pool = ReadPool(page_bytes);
  return pool.has_value() && pool->usable >= (bytes + page_bytes - 1) / page_bytes;
}

std::string HugePageAdvice(uint64_t bytes, uint64_t page_bytes) {
  const char* const size = page_bytes == 1024 * kMiB ? "1 GiB" : "2 MiB";
  const uint64_t needed = (bytes + page_bytes - 1) / page_bytes;
  const std::optional<PagePool> pool = ReadPool(page_bytes);
  if (!pool.has_value()) return absl::StrCat("this kernel or CPU has no pages of ", size);
  if (pool->usable >= needed) {
    return absl::StrCat("for pages of ", size,
                        " there are enough in the pool, but not on the node or within the limits");
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
