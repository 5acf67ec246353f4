// Files of a listener that are removed by others, and two servers that each believe that they own the address.
#include "rdma/shm/socket_address.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::shm {
namespace {

class SocketAddressTest : public testing::Test {
 protected:
  SocketAddressTest() {
    char directory[] = "/tmp/farlook-XXXXXX";
    directory_ = mkdtemp(directory);
    path_ = directory_ + "/socket";
    lock_path_ = path_ + ".lock";
  }
  ~SocketAddressTest() override {
    unlink(path_.c_str());
    unlink(lock_path_.c_str());
    rmdir(directory_.c_str());
  }

  std::unique_ptr<SocketAddress> Take() {
    absl::StatusOr<SocketAddress> address = SocketAddress::Take(path_);
    status_ = address.status();
    return address.ok() ? std::make_unique<SocketAddress>(*std::move(address)) : nullptr;
  }
  bool Reachable() {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    return connect(socket.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)) ==
           0;
  }

  std::string directory_, path_, lock_path_;
  absl::Status status_;
};

TEST_F(SocketAddressTest, AServerWhoseLockFileWasRemovedKeepsItsSocket) {
  const auto first = Take();
  ASSERT_NE(first, nullptr) << status_;
  unlink(lock_path_.c_str());
  EXPECT_EQ(Take(), nullptr);
  EXPECT_TRUE(absl::IsAlreadyExists(status_)) << status_;
  EXPECT_NE(status_.message().find("lock file"), absl::string_view::npos) << status_;
  EXPECT_TRUE(Reachable());
  EXPECT_TRUE(first->status().ok());
}

TEST_F(SocketAddressTest, NobodyTakesTheAddressOfAServerWhoseFilesWereBothRemoved) {
  auto first = Take();
  ASSERT_NE(first, nullptr) << status_;
  unlink(path_.c_str());
  unlink(lock_path_.c_str());
  EXPECT_EQ(Take(), nullptr);
  EXPECT_TRUE(absl::IsAlreadyExists(status_)) << status_;
  EXPECT_NE(status_.message().find(std::to_string(getpid())), absl::string_view::npos) << status_;
  EXPECT_NE(access(lock_path_.c_str(), F_OK), 0) << "who may not have it leaves nothing";
  // Expect: the name belongs to the directory, not to all directories.
  const std::string other = directory_ + "/other";
  EXPECT_TRUE(SocketAddress::Take(other).ok());
  first.reset();
  EXPECT_NE(Take(), nullptr) << status_;
}

TEST_F(SocketAddressTest, WhoEndsLeavesTheFilesOfAnother) {
  auto first = Take();
  ASSERT_NE(first, nullptr) << status_;
  for (const std::string& path : {path_, lock_path_}) {
    // Made beside the old one, so that it does not get the old one's number.
    const UniqueFd file(open((path + ".new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
  }
  first.reset();
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  EXPECT_EQ(access(lock_path_.c_str(), F_OK), 0);
}

TEST_F(SocketAddressTest, ARemovedSocketIsNoticed) {
  const auto address = Take();
  ASSERT_NE(address, nullptr) << status_;
  ASSERT_GE(address->news(), 0);
  pollfd news = {address->news(), POLLIN, 0};
  EXPECT_EQ(poll(&news, 1, 0), 0);
  unlink(path_.c_str());
  EXPECT_EQ(poll(&news, 1, 0), 1);
  address->Drain();
  EXPECT_EQ(poll(&news, 1, 0), 0);
  EXPECT_TRUE(absl::IsUnavailable(address->status()));
}

TEST_F(SocketAddressTest, AStaleSocketIsReplaced) {
  const UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(dead.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)), 0);
  EXPECT_NE(Take(), nullptr) << status_;
}

}  // namespace
}  // namespace farlook::rdma::shm
