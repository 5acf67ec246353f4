#include "bench/stores/farlook_db.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(FarlookServerPidTest, TheListenersProcessIsFound) {
  const std::string path = "/tmp/farlook_pid_test_" + std::to_string(std::random_device()());
  unlink(path.c_str());
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(fd, 5), 0);
  EXPECT_EQ(FarlookServerPid("shm://" + path), getpid());
  close(fd);
  // Expect: the path is still there, but no process listens.
  EXPECT_EQ(FarlookServerPid("shm://" + path), 0);
  unlink(path.c_str());
}

TEST(FarlookServerPidTest, OtherAddressesHaveNone) {
  EXPECT_EQ(FarlookServerPid("rdma://host:1"), 0);
  EXPECT_EQ(FarlookServerPid("shm:///nowhere/at/all"), 0);
  EXPECT_EQ(FarlookServerPid("shm:///" + std::string(200, 'x')), 0);
}

}  // namespace
}  // namespace farlook::bench
