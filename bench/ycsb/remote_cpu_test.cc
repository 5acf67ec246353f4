#include "bench/ycsb/remote_cpu.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/stores/store_address.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

// Accepts one connection, reads a line, sends `answer` and closes.
class Reporter {
 public:
  explicit Reporter(std::string answer)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), answer_(std::move(answer)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(name);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&name), bytes), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &bytes), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    address_.host = "127.0.0.1";
    address_.port = ntohs(name.sin_port);
    thread_ = std::thread([this] {
      const int client = accept(fd_, nullptr, nullptr);
      char c;
      while (read(client, &c, 1) == 1 && c != '\n') question_ += c;
      EXPECT_EQ(write(client, answer_.data(), answer_.size()), static_cast<ssize_t>(answer_.size()));
      close(client);
    });
  }
  ~Reporter() {
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }

  const StoreAddress& address() const { return address_; }

  std::string Question() {
    thread_.join();
    return question_;
  }

 private:
  const int fd_;
  const std::string answer_;
  StoreAddress address_;
  std::string question_;
  std::thread thread_;
};

TEST(RemoteCpuTest, AsksForTheProcessAndReadsANumber) {
  Reporter reporter("123456789012\n");
  const absl::StatusOr<int64_t> ns = RemoteCpuNsAtRest(reporter.address(), 42);
  ASSERT_TRUE(ns.ok()) << ns.status();
  EXPECT_EQ(*ns, 123456789012);
  EXPECT_EQ(reporter.Question(), "42");
}

TEST(RemoteCpuTest, PassesOnWhatIsSaidInPlaceOfANumber) {
  for (const std::string answer : {"42 is no server of this run\n", ""}) {
    Reporter reporter(answer);
    const absl::Status status = RemoteCpuNsAtRest(reporter.address(), 42).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_NE(status.message().find(answer), absl::string_view::npos) << status;
  }
}

TEST(RemoteCpuTest, NobodyIsThere) {
  StoreAddress address;
  {
    Reporter reporter("1\n");
    address = reporter.address();
    EXPECT_TRUE(RemoteCpuNsAtRest(address, 1).ok());
  }
  EXPECT_EQ(RemoteCpuNsAtRest(address, 1).status().code(), absl::StatusCode::kUnavailable);
  address.host = "no such host";
  EXPECT_EQ(RemoteCpuNsAtRest(address, 1).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farlook::bench
