#include "rdma/host/control_group.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k1GiB = uint64_t{1} << 30;
constexpr char kMounts[] = "/sys/fs/cgroup";

bool ReadNumber(const std::string& path, uint64_t* number) {
  std::ifstream file(path);
  std::string text;
  return std::getline(file, text) && absl::SimpleAtoi(text, number);  // fails for "max"
}

// Names of the files, in a group's folder, of a limit and of the use; they depend on the version.
struct Names {
  std::string limit;
  std::string used;  // empty: use is not counted
};

// Lowers `least` to the limits of a group and of its parents, up to the mount, which in a container is the group's.
void Lower(absl::string_view root, const std::string& mount, absl::string_view group, const std::vector<Names>& names,
           GroupLimit* least) {
  for (;;) {
    for (const Names& each : names) {
      const std::string folder = absl::StrCat(mount, group == "/" ? "" : group, "/");
      uint64_t limit, used = 0;
      if (!ReadNumber(absl::StrCat(root, folder, each.limit), &limit)) continue;
      if (!each.used.empty()) ReadNumber(absl::StrCat(root, folder, each.used), &used);
      const uint64_t left = limit - std::min(limit, used);
      if (left < least->bytes) *least = {left, used, folder + each.limit};
    }
    if (group.empty()) return;
    group = group.substr(0, group.rfind('/'));
  }
}

// Checks each group of this process that version 2, or `controller` of version 1, limits.
GroupLimit Least(absl::string_view root, absl::string_view controller, const std::vector<Names>& first,
                 const std::vector<Names>& second) {
  GroupLimit least;
  std::ifstream groups(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    // Number, controllers with commas between them (none: version 2), path.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      Lower(root, kMounts, parts[2], second, &least);
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) continue;
    Lower(root, absl::StrCat(kMounts, "/", parts[1]), parts[2], first, &least);
  }
  return least;
}

}  // namespace

GroupLimit MemoryLimit(absl::string_view root) {
  return Least(root, "memory", {{"memory.limit_in_bytes", ""}}, {{"memory.max", ""}});
}

GroupLimit HugePageLimit(uint64_t page_bytes, absl::string_view root) {
  const std::string size = page_bytes == k1GiB ? "hugetlb.1GB." : "hugetlb.2MB.";
  return Least(root, "hugetlb",
               {{size + "limit_in_bytes", size + "usage_in_bytes"},
                {size + "rsvd.limit_in_bytes", size + "rsvd.usage_in_bytes"}},
               {{size + "max", size + "current"}, {size + "rsvd.max", size + "rsvd.current"}});
}

}  // namespace farlook::rdma
