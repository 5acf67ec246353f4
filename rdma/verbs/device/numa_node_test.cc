#include "rdma/verbs/device/numa_node.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace farlook::rdma::verbs {
namespace {

class NumaNodeTest : public testing::Test {
 protected:
  // Creates a device as the kernel shows it: a link into the tree of the adapter.
  void Make(const std::string& adapter, const std::string& numa_node, const std::string& of,
            const std::string& device = "infiniband/dev0") {
    const std::string path = sys_ + "/devices/" + adapter;
    std::filesystem::create_directories(path);
    std::filesystem::create_directories(sys_ + "/class/" + device);
    std::filesystem::create_symlink(path, sys_ + "/class/" + device + "/device");
    std::ofstream(sys_ + "/devices/" + of + "/numa_node") << numa_node << "\n";
  }
  ~NumaNodeTest() override { std::filesystem::remove_all(sys_); }

  const std::string sys_ = testing::TempDir() + "/sys_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(NumaNodeTest, OfAnAdapter) {
  Make("pci0", "1", "pci0");
  EXPECT_EQ(NumaNodeOf("dev0", sys_), 1);
}

TEST_F(NumaNodeTest, OfTheParentOfAVirtualAdapter) {
  Make("pci0/virtio3", "1", "pci0");
  EXPECT_EQ(NumaNodeOf("dev0", sys_), 1);
}

TEST_F(NumaNodeTest, OfTheInterfaceOfASoftwareDevice) {
  Make("pci0/virtio3", "1", "pci0", "net/eth7");
  std::filesystem::create_directories(sys_ + "/class/infiniband/dev0");
  std::ofstream(sys_ + "/class/infiniband/dev0/parent") << "eth7\n";
  EXPECT_EQ(NumaNodeOf("dev0", sys_), 1);
}

TEST_F(NumaNodeTest, NobodyKnows) {
  Make("pci0", "-1", "pci0");
  EXPECT_EQ(NumaNodeOf("dev0", sys_), -1);
  EXPECT_EQ(NumaNodeOf("dev1", sys_), -1);
}

}  // namespace
}  // namespace farlook::rdma::verbs
