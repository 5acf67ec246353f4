// Two processes: a client's reaction when the server is stopped, killed, or replaced, and the reverse.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

extern char** environ;

namespace farlook::rdma {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBoundMs = 20'000;

std::string UnusedPath() {
  static int next = 0;
  return absl::StrCat("/tmp/farlook_process_", std::random_device()(), "_", next++);
}

// Number of mappings of this process whose names contain `name`.
int MappingsOf(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos ? 1 : 0;
  return count;
}

// test_server in a process of its own; killed at the end.
class ServerProcess {
 public:
  explicit ServerProcess(const std::string& address) {
    int output[2];
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    std::string program = "rdma/shm/test_server";
    std::string argument = address;
    char* const arguments[] = {program.data(), argument.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(output[1]);
    char text[5];
    ready_ = read(output[0], text, sizeof(text)) == sizeof(text);
    close(output[0]);
  }
  ~ServerProcess() { Kill(); }

  bool ready() const { return ready_; }
  pid_t pid() const { return pid_; }

  // kill -9, and waits until the process has ended.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void Stop() {
    kill(pid_, SIGSTOP);
    int status;
    waitpid(pid_, &status, WUNTRACED);
  }
  void Continue() { kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

class ProcessTest : public testing::Test {
 protected:
  void Connect() {
    absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = CreateEndpoint(address_);
    ASSERT_TRUE(endpoint.ok());
    endpoint_ = *std::move(endpoint);
    absl::StatusOr<std::unique_ptr<Connection>> connection = endpoint_->Connect(address_, "", kBoundMs);
    ASSERT_TRUE(connection.ok());
    connection_ = *std::move(connection);
    ASSERT_EQ(Await().opcode, Opcode::kConnected) << connection_->status();
    ASSERT_TRUE(absl::SimpleHexAtoi(connection_->welcome(), &rkey_));
  }

  // Waits for the next completion, sleeping.
  Completion Await() {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundMs * 1'000'000;
    Completion completion;
    while (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 0) {
      if (Clock::Real().NowNs() > end_ns) {
        ADD_FAILURE() << "nothing completed";
        break;
      }
      if (!endpoint_->Arm()) continue;
      pollfd waiting = {endpoint_->fd(), POLLIN, 0};
      poll(&waiting, 1, 1000);
    }
    return completion;
  }

  WcStatus Read(uint64_t offset, uint64_t* word) {
    const Sge piece = {reinterpret_cast<char*>(word), sizeof(*word)};
    if (!connection_->PostRead(1, absl::MakeConstSpan(&piece, 1), offset, rkey_)) return WcStatus::kFlushed;
    connection_->Ring();
    const Completion completion = Await();
    EXPECT_EQ(completion.opcode, Opcode::kRead);
    return completion.status;
  }

  const std::string path_ = UnusedPath();
  const std::string address_ = absl::StrCat("shm://", path_);
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Connection> connection_;
  uint32_t rkey_ = 0;
};

TEST_F(ProcessTest, ConnectionsOfAProcessShareTheMappingOfTheServersMemory) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  std::vector<std::pair<std::unique_ptr<Endpoint>, std::unique_ptr<Connection>>> clients;
  for (int i = 0; i < 64; ++i) {
    Connect();
    ASSERT_FALSE(HasFailure());
    clients.emplace_back(std::move(endpoint_), std::move(connection_));
  }
  EXPECT_EQ(MappingsOf("memfd:farlook-memory"), 1);
  EXPECT_EQ(MappingsOf("memfd:farlook-rings"), 64);
  for (auto& [endpoint, connection] : clients) {
    endpoint_ = std::move(endpoint);
    connection_ = std::move(connection);
    uint64_t word = 0;
    EXPECT_EQ(Read(8, &word), WcStatus::kSuccess);
    EXPECT_EQ(word, 8);
    connection_.reset();
    endpoint_.reset();
  }
  EXPECT_EQ(MappingsOf("memfd:farlook"), 0);
}

TEST_F(ProcessTest, AStoppedServerIsReadAllTheSame) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  server.Stop();
  for (uint64_t offset = 0; offset < 1 << 20; offset += 8) {
    uint64_t word = 0;
    ASSERT_EQ(Read(offset, &word), WcStatus::kSuccess);
    ASSERT_EQ(word, offset);
  }
  EXPECT_TRUE(connection_->alive());
  // Expect: a message waits until the server continues.
  ASSERT_TRUE(connection_->PostSend("hello", ""));
  connection_->Ring();
  Completion completion;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(endpoint_->Poll(absl::MakeSpan(&completion, 1)), 0u);
  server.Continue();
  EXPECT_EQ(Await().opcode, Opcode::kReceive);
}

TEST_F(ProcessTest, AStoppedServerMakesConnectTimeOut) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  server.Stop();
  absl::StatusOr<std::unique_ptr<Connection>> connection = endpoint_->Connect(address_, "", 50);
  ASSERT_TRUE(connection.ok());
  EXPECT_EQ(Await().opcode, Opcode::kDisconnected);
  EXPECT_THAT(std::string((*connection)->status().message()), HasSubstr("in time"));
}

TEST_F(ProcessTest, AFullBacklogMakesConnectTimeOut) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  server.Stop();
  std::vector<std::unique_ptr<Connection>> queued;
  for (int i = 0; i < 3000; ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = endpoint_->Connect(address_, "", 300'000);
    ASSERT_TRUE(connection.ok());
    queued.push_back(*std::move(connection));
  }
  absl::StatusOr<std::unique_ptr<Connection>> late = endpoint_->Connect(address_, "", 50);
  ASSERT_TRUE(late.ok());
  const Completion completion = Await();
  EXPECT_EQ(completion.opcode, Opcode::kDisconnected);
  EXPECT_EQ(completion.connection, late->get());
  // Expect: once it continues, it serves all clients that still wait.
  server.Continue();
  for (size_t connected = 0; connected < queued.size(); ++connected) {
    ASSERT_EQ(Await().opcode, Opcode::kConnected);
  }
}

TEST_F(ProcessTest, AKilledServerIsNoticedByTheNextRead) {
  for (int round = 0; round < 20; ++round) {
    ServerProcess server(address_);
    ASSERT_TRUE(server.ready());
    Connect();
    uint64_t word = 0;
    ASSERT_EQ(Read(64, &word), WcStatus::kSuccess);
    if (round % 2 == 1) server.Stop();  // also when it was stopped before
    server.Kill();
    EXPECT_FALSE(connection_->alive());
    word = 12345;
    EXPECT_EQ(Read(64, &word), WcStatus::kFlushed);
    EXPECT_EQ(word, 12345u);
    EXPECT_EQ(Await().opcode, Opcode::kDisconnected);
    EXPECT_EQ(connection_->status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(connection_->status().message()), HasSubstr("died"));
    connection_.reset();
    endpoint_.reset();
    // The next round replaces the socket file that the dead server left.
    EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  }
}

TEST_F(ProcessTest, ASleepingClientIsWokenByTheServersDeath) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  ASSERT_TRUE(endpoint_->Arm());
  server.Kill();
  pollfd waiting = {endpoint_->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, kBoundMs), 1);
  EXPECT_EQ(Await().opcode, Opcode::kDisconnected);
}

TEST_F(ProcessTest, ASpinningClientNoticesTheServersDeath) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  server.Kill();
  Completion completion;
  int polls = 0;
  while (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 0) ASSERT_LT(++polls, 1000);
  EXPECT_EQ(completion.opcode, Opcode::kDisconnected);
}

TEST_F(ProcessTest, AnswersSentBeforeTheDeathArrive) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  Connect();
  ASSERT_TRUE(connection_->PostSend("one", ""));
  connection_->Ring();
  EXPECT_EQ(Await().opcode, Opcode::kReceive);
  ASSERT_TRUE(connection_->PostSend("two", ""));
  connection_->Ring();
  // The echo is in the ring once there is something to poll.
  if (endpoint_->Arm()) {
    pollfd waiting = {endpoint_->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, kBoundMs), 1);
  }
  server.Kill();
  EXPECT_EQ(Await().opcode, Opcode::kReceive);
  EXPECT_EQ(Await().opcode, Opcode::kDisconnected);
}

TEST_F(ProcessTest, ASecondServerIsRefusedAlsoWhileTheFirstIsStopped) {
  ServerProcess server(address_);
  ASSERT_TRUE(server.ready());
  for (const bool stopped : {false, true}) {
    if (stopped) server.Stop();
    const absl::Status status = Listen(address_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("pid ", server.pid())));
  }
  server.Continue();
  Connect();
}

TEST_F(ProcessTest, ServersThatStartTogetherLeaveOne) {
  for (int round = 0; round < 10; ++round) {
    { ServerProcess stale(address_); }  // leaves its files
    std::vector<std::unique_ptr<ServerProcess>> servers;
    for (int i = 0; i < 4; ++i) servers.push_back(std::make_unique<ServerProcess>(address_));
    int ready = 0;
    for (const auto& server : servers) ready += server->ready() ? 1 : 0;
    EXPECT_EQ(ready, 1);
  }
}

TEST_F(ProcessTest, WhatIsNoSocketIsNotReplaced) {
  std::ofstream(path_) << "precious";
  const absl::Status status = Listen(address_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not the socket of a server, and was left as it is"));
  std::string content;
  std::ifstream(path_) >> content;
  EXPECT_EQ(content, "precious");
  EXPECT_NE(access((path_ + ".lock").c_str(), F_OK), 0);
  unlink(path_.c_str());
}

TEST_F(ProcessTest, AListenerLeavesNoFiles) {
  {
    absl::StatusOr<std::unique_ptr<Listener>> listener = Listen(address_);
    ASSERT_TRUE(listener.ok());
    EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
  EXPECT_NE(access((path_ + ".lock").c_str(), F_OK), 0);
}

TEST_F(ProcessTest, AddressesThatCannotBeTakenNameTheCure) {
  const absl::Status status = Listen("shm:///tmp/no/such/directory/x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("create the directory"));
  EXPECT_EQ(Listen("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace farlook::rdma
