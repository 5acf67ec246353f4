// The device that verbs_test promises exists, and works as far as memory can be registered on it.
#include <infiniband/verbs.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farlook {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

TEST(DeviceTest, TheDeviceOfTheEnvironmentRegistersMemory) {
  EXPECT_NE(Environment("FARLOOK_RDMA_ADDRESS"), "");
  int devices = 0;
  ibv_device** list = ibv_get_device_list(&devices);
  ibv_context* context = nullptr;
  for (int i = 0; i < devices; ++i) {
    if (ibv_get_device_name(list[i]) == Environment("FARLOOK_RDMA_DEVICE")) context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  ASSERT_NE(context, nullptr) << "none of " << devices << " is " << Environment("FARLOOK_RDMA_DEVICE");
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  ibv_pd* domain = ibv_alloc_pd(context);
  ASSERT_NE(domain, nullptr);
  std::vector<char> memory(1 << 20);
  ibv_mr* region = ibv_reg_mr(domain, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace farlook
