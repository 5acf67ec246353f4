#include "rdma/host/control_group.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k2MiB = 2 << 20;
constexpr uint64_t k1GiB = 1 << 30;

class ControlGroupTest : public ::testing::Test {
 protected:
  ControlGroupTest() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }

  const std::string root_ = absl::StrCat(testing::TempDir(), "/root");
};

TEST_F(ControlGroupTest, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(MemoryLimit(root_).bytes, UINT64_MAX);
  EXPECT_EQ(HugePageLimit(k2MiB, root_).bytes, UINT64_MAX);
}

TEST_F(ControlGroupTest, TheTightestGroupOfVersion2Counts) {
  Write("/proc/self/cgroup", "0::/system.slice/kv.service");
  Write("/sys/fs/cgroup/system.slice/kv.service/memory.max", "max");
  EXPECT_EQ(MemoryLimit(root_).bytes, UINT64_MAX);
  Write("/sys/fs/cgroup/system.slice/memory.max", "1000000");
  EXPECT_EQ(MemoryLimit(root_).bytes, 1000000u);
  EXPECT_EQ(MemoryLimit(root_).file, "/sys/fs/cgroup/system.slice/memory.max");
  Write("/sys/fs/cgroup/system.slice/kv.service/memory.max", "2000000");
  EXPECT_EQ(MemoryLimit(root_).bytes, 1000000u);
}

TEST_F(ControlGroupTest, GroupsOfVersion1Count) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/kv/a\n3:hugetlb:/kv\n0::/b");
  Write("/sys/fs/cgroup/memory/kv/a/memory.limit_in_bytes", "9223372036854771712");
  Write("/sys/fs/cgroup/memory/kv/memory.limit_in_bytes", "3000000");
  EXPECT_EQ(MemoryLimit(root_).bytes, 3000000u);
  EXPECT_EQ(MemoryLimit(root_).file, "/sys/fs/cgroup/memory/kv/memory.limit_in_bytes");
  Write("/sys/fs/cgroup/hugetlb/kv/hugetlb.2MB.limit_in_bytes", "8388608");
  Write("/sys/fs/cgroup/hugetlb/kv/hugetlb.2MB.usage_in_bytes", "2097152");
  EXPECT_EQ(HugePageLimit(k2MiB, root_).bytes, 3 * k2MiB);
  EXPECT_EQ(HugePageLimit(k2MiB, root_).used, k2MiB);
  EXPECT_EQ(HugePageLimit(k1GiB, root_).bytes, UINT64_MAX);
}

// In a container the mount is the group's own, though the path is that of the host.
TEST_F(ControlGroupTest, InAContainerTheMountItselfHasTheLimit) {
  Write("/proc/self/cgroup", "4:memory:/docker/0123");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000");
  EXPECT_EQ(MemoryLimit(root_).bytes, 4000000u);
  Write("/proc/self/cgroup", "0::/");
  Write("/sys/fs/cgroup/memory.max", "5000000");
  EXPECT_EQ(MemoryLimit(root_).bytes, 5000000u);
  EXPECT_EQ(MemoryLimit(root_).file, "/sys/fs/cgroup/memory.max");
}

TEST_F(ControlGroupTest, OfHugePagesWhatIsUsedIsNotFree) {
  Write("/proc/self/cgroup", "0::/kv");
  Write("/sys/fs/cgroup/kv/hugetlb.1GB.max", "4294967296");
  Write("/sys/fs/cgroup/kv/hugetlb.1GB.current", "1073741824");
  Write("/sys/fs/cgroup/kv/hugetlb.1GB.rsvd.max", "2147483648");
  Write("/sys/fs/cgroup/kv/hugetlb.1GB.rsvd.current", "2147483648");
  EXPECT_EQ(HugePageLimit(k1GiB, root_).bytes, 0u);
  EXPECT_EQ(HugePageLimit(k1GiB, root_).file, "/sys/fs/cgroup/kv/hugetlb.1GB.rsvd.max");
}

}  // namespace
}  // namespace farlook::rdma
