// Attacks by a raw client or server at the other end of the sockets on a listener, an endpoint and the thread that
// answers READs. An attack ends its own connection, costs a bounded amount, and disturbs no other.
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/resolver.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shared_memory.h"
#include "rdma/tcp/bytes.h"
#include "rdma/tcp/endpoint.h"
#include "rdma/tcp/frame.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/listener.h"
#include "rdma/tcp/socket.h"
#include "rdma/tcp/test_address.h"
#include "rdma/transport.h"
#include "rdma/violations.h"

namespace farlook::rdma::tcp {
namespace {

constexpr auto kBound = std::chrono::seconds(20);

std::string Framed(FrameType type, uint64_t argument, absl::string_view payload) {
  Bytes out;
  EXPECT_TRUE(AppendFrame(type, argument, payload, "", &out));
  return std::string(out.view());
}

std::string Asked(const ReadOrder& order) {
  Bytes out;
  EXPECT_TRUE(AppendRead(order, &out));
  return std::string(out.view());
}

// A socket that sends whatever a test wants.
class Raw {
 public:
  // `room_bytes`: approximate receive buffer of its kernel; 0: the default.
  explicit Raw(const std::string& address, int room_bytes = 0) {
    const SocketAddress to = ResolveWithin(*ParseAddress(address), 0)->front();
    socket_ = UniqueFd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (room_bytes > 0) setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &room_bytes, sizeof(room_bytes));
    EXPECT_EQ(connect(socket_.get(), to.get(), to.bytes()), 0) << strerror(errno);
  }
  explicit Raw(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  void Close() { socket_.reset(); }
  // Sends as much as the kernel takes.
  size_t Send(absl::string_view bytes) {
    const ssize_t sent = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<size_t>(sent);
  }
  // Returns the next frame; type 0 if the other side ended the connection. `idle` runs while nothing arrives.
  Frame Receive(const std::function<void()>& idle = [] {}) {
    const auto until = std::chrono::steady_clock::now() + kBound;
    for (;;) {
      absl::string_view received(received_);
      received.remove_prefix(used_);
      Frame frame;
      const Parsed parsed = NextFrame(&received, &frame);
      if (parsed == Parsed::kFrame) {
        used_ = received_.size() - received.size();
        payload_ = std::string(frame.payload);
        frame.payload = payload_;
        return frame;
      }
      EXPECT_EQ(parsed, Parsed::kPartial);
      idle();
      char bytes[4096];
      const ssize_t came = recv(fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (came > 0) received_.append(bytes, static_cast<size_t>(came));
      frame.type = FrameType{0};
      if (came == 0 || (came < 0 && errno != EAGAIN)) return frame;
      if (came < 0 && std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "nothing came, and no end";
        return frame;
      }
      if (came < 0) std::this_thread::yield();
    }
  }
  bool Ended(const std::function<void()>& idle = [] {}) { return Receive(idle).type == FrameType{0}; }

 private:
  UniqueFd socket_;
  std::string received_;
  size_t used_ = 0;
  std::string payload_;
};

// Returns this process' socket that `socket` is connected to; -1: there is none.
int OtherEndOf(int socket) {
  const std::string end = ThisSideOf(socket);
  for (int fd = 0; fd < 1024; ++fd) {
    if (fd != socket && PeerOf(fd) == end) return fd;
  }
  return -1;
}

class HostileTest : public testing::Test {
 protected:
  static constexpr uint64_t kTableBytes = uint64_t{4} << 20;

  void SetUp() override {
    SetViolationObserver([this](Violator who, absl::string_view, absl::string_view) {
      ++(who == Violator::kStranger ? strangers_ : violating_clients_);
    });
    address_ = UnusedAddress();
    TransportOptions options;
    options.liveness_ms = 500;
    listener_ = *TcpListener::Create(*ParseAddress(address_), options);
    SharedMemoryOptions memory;
    memory.bytes = kTableBytes;
    memory.huge_pages = HugePages::kNone;
    memory_ = std::make_unique<SharedMemory>(*SharedMemory::Create(memory));
    memset(memory_->data(), 't', kTableBytes);
    table_ = *listener_->Offer(memory_->range(), Access::kRemoteRead);
    server_ = *listener_->CreateEndpoint();
    client_ = *TcpEndpoint::Create({});
  }

  void TearDown() override { SetViolationObserver(nullptr); }

  void Pump() {
    Completion done[16];
    for (Endpoint* endpoint : {server_.get(), static_cast<Endpoint*>(client_.get())}) {
      const size_t count = endpoint->Poll(absl::MakeSpan(done));
      for (size_t i = 0; i < count; ++i) {
        if (done[i].opcode == Opcode::kDisconnected) ended_.push_back(done[i].connection);
        if (done[i].opcode == Opcode::kReceive) ++messages_;
        if (done[i].opcode == Opcode::kRead) reads_.push_back(done[i].status);
        if (done[i].opcode == Opcode::kConnected) ++connected_;
      }
    }
  }
  bool PumpUntil(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + kBound;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      Pump();
      std::this_thread::yield();
    }
    return true;
  }
  bool Ended(const Connection* connection) {
    return PumpUntil([&] { return std::count(ended_.begin(), ended_.end(), connection) == 1; });
  }

  // Returns the server's side of the next client.
  std::unique_ptr<Connection> AcceptNext(bool withheld = false) {
    std::unique_ptr<ConnectionRequest> request;
    EXPECT_TRUE(PumpUntil([&] { return (request = listener_->Next()) != nullptr; }));
    if (request == nullptr) return nullptr;
    if (withheld) request->WithholdReads();
    return *request->Accept(server_.get(), "welcome", {&table_.rkey, 1});
  }

  // Connects a raw client's first socket, and returns it with the server's side.
  std::pair<Raw, std::unique_ptr<Connection>> Greet() {
    ended_.clear();  // a connection may have the address of an earlier one
    Raw raw(address_);
    raw.Send(Framed(FrameType::kHello, Greeting(), "raw"));
    std::unique_ptr<Connection> connection = AcceptNext(withheld_);
    const Frame welcome = raw.Receive();
    EXPECT_EQ(welcome.type, FrameType::kWelcome);
    ticket_ = std::string(welcome.payload.substr(0, sizeof(Ticket)));
    return {std::move(raw), std::move(connection)};
  }
  Raw Attach(int room_bytes = 0) {
    Raw raw(address_, room_bytes);
    raw.Send(Framed(FrameType::kAttach, Greeting(), ticket_));
    EXPECT_EQ(raw.Receive().type, FrameType::kAttached);
    return raw;
  }

  // Expect: an honest client connects, READs and is served.
  void ExpectServes() {
    auto client = *client_->Connect(address_, "honest", 10'000);
    auto server = AcceptNext();
    ASSERT_TRUE(PumpUntil([&] { return connected_ == 1; })) << client->status();
    connected_ = 0;
    uint64_t word = 0;
    const Sge piece = {reinterpret_cast<char*>(&word), 8};
    ASSERT_TRUE(client->PostRead(1, {&piece, 1}, table_.address, table_.rkey));
    client->Ring();
    ASSERT_TRUE(PumpUntil([&] { return reads_.size() == 1; }));
    EXPECT_EQ(reads_[0], WcStatus::kSuccess);
    EXPECT_EQ(word, 0x7474747474747474u);
    reads_.clear();
  }

  std::string address_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<TcpListener> listener_;
  RemoteRange table_;
  std::unique_ptr<Endpoint> server_;
  std::unique_ptr<TcpEndpoint> client_;
  bool withheld_ = false;
  std::string ticket_;
  std::vector<Connection*> ended_;
  std::vector<WcStatus> reads_;
  int messages_ = 0;
  int connected_ = 0;
  std::atomic<int> strangers_{0}, violating_clients_{0};  // as reported
};

TEST_F(HostileTest, StrangersWhoSpeakOtherProtocolsAreHungUpOn) {
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(4096, '\0'), std::string(4096, '\xff'),
        Framed(FrameType::kMessage, 0, "hello"), Framed(FrameType::kAttach, Greeting(), std::string(16, 'x')),
        Framed(FrameType::kHello, Greeting(), "a") + Framed(FrameType::kMessage, 0, "early")}) {
    Raw raw(address_);
    raw.Send(words);
    Frame last = raw.Receive();
    if (last.type == FrameType::kReject) last = raw.Receive();
    EXPECT_EQ(last.type, FrameType{0}) << words.substr(0, 20);
  }
  EXPECT_EQ(strangers_, 6) << "each is reported";
  ExpectServes();
  EXPECT_EQ(strangers_, 6);
  EXPECT_EQ(violating_clients_, 0);
}

TEST_F(HostileTest, AnotherVersionIsToldWhy) {
  Raw raw(address_);
  raw.Send(Framed(FrameType::kHello, Greeting() + (uint64_t{1} << 56), "newer"));
  const Frame answer = raw.Receive();
  EXPECT_EQ(answer.type, FrameType::kReject);
  EXPECT_NE(std::string(answer.payload).find("version 2"), std::string::npos) << answer.payload;
  EXPECT_EQ(strangers_, 1);
}

TEST_F(HostileTest, WhoSaysNothingIsHungUpOnAndKeepsNobodyOut) {
  std::vector<Raw> silent;
  for (size_t i = 0; i < kMaxStrangers + 50; ++i) silent.emplace_back(address_);
  for (Raw& raw : silent) raw.Send("\x03");
  ExpectServes();
  for (Raw& raw : silent) EXPECT_TRUE(raw.Ended());
}

TEST_F(HostileTest, ATicketIsGoodOnceAndNoOtherIs) {
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  Raw again(address_);
  again.Send(Framed(FrameType::kAttach, Greeting(), ticket_));
  EXPECT_TRUE(again.Ended());
  Raw guess(address_);
  guess.Send(Framed(FrameType::kAttach, Greeting(), std::string(16, 'g')));
  EXPECT_TRUE(guess.Ended());
  reads.Send(Asked({table_.address, table_.rkey, 8}));
  EXPECT_EQ(reads.Receive().payload, "tttttttt") << "the first one is served on";
}

TEST_F(HostileTest, ReadsBeforeTheyAreGrantedAreRefusedAndAfterwardsServed) {
  withheld_ = true;
  {
    auto [raw, connection] = Greet();
    Raw reads = Attach();
    reads.Send(Asked({table_.address, table_.rkey, 8}));
    EXPECT_EQ(reads.Receive().type, FrameType::kRefused);
    EXPECT_TRUE(reads.Ended());
  }
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  EXPECT_TRUE(connection->Grant(false).ok());
  reads.Send(Asked({table_.address, table_.rkey, 8}));
  EXPECT_EQ(reads.Receive().type, FrameType::kData);
}

TEST_F(HostileTest, WhatIsNotAskedAsAReadIsRefusedOrHungUpOn) {
  const ReadOrder kRefused[] = {
      {table_.address, table_.rkey + 1, 8},      {table_.address, table_.rkey, 0},
      {table_.address + 4, table_.rkey, 8},      {kTableBytes, table_.rkey, 8},
      {kTableBytes - 8, table_.rkey, 16},        {UINT64_MAX - 7, table_.rkey, 16},
      {table_.address, table_.rkey, UINT32_MAX}, {table_.address, table_.rkey, (1 << 20) + 1},
  };
  for (const ReadOrder& order : kRefused) {
    auto [raw, connection] = Greet();
    Raw reads = Attach();
    reads.Send(Asked(order) + Asked({table_.address, table_.rkey, 8}));
    EXPECT_EQ(reads.Receive().type, FrameType::kRefused) << order.address << " " << order.bytes;
    EXPECT_TRUE(reads.Ended());
  }
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  reads.Send(Framed(FrameType::kMessage, 0, "not here"));
  EXPECT_TRUE(reads.Ended());
  EXPECT_EQ(violating_clients_, static_cast<int>(std::size(kRefused)) + 1) << "each is reported";
  ExpectServes();
}

TEST_F(HostileTest, MessagesThatBreakTheProtocolEndTheConnectionOnly) {
  std::string flood;
  for (uint64_t i = 0; i < kWindow + 1; ++i) flood += Framed(FrameType::kMessage, 0, "m");
  struct {
    const char* what;
    std::string words;
    bool receiving;
  } const kCases[] = {
      {"more than the window", flood, false},
      {"taken what was not sent", Framed(FrameType::kTaken, 1, ""), true},
      {"data that nobody asked for", Framed(FrameType::kData, 0, "d"), true},
      {"a READ where messages go", Asked({0, table_.rkey, 8}), true},
      {"a second hello", Framed(FrameType::kHello, Greeting(), ""), true},
      {"no frame", std::string(64, '\x7f'), true},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.what);
    auto [raw, connection] = Greet();
    connection->SetReceiving(c.receiving);
    raw.Send(c.words);
    EXPECT_TRUE(Ended(connection.get()));
    EXPECT_TRUE(raw.Ended());
    EXPECT_FALSE(connection->status().ok());
  }
  EXPECT_EQ(violating_clients_, static_cast<int>(std::size(kCases))) << "each is reported";
  EXPECT_EQ(messages_, 0);
  ExpectServes();
}

// A client that sends requests and does not take the answers: the server keeps a bounded amount for it, and finally
// stops reading from it.
TEST_F(HostileTest, WhoDoesNotTakeAnswersCostsABoundedAmountAndNobodyElseAnything) {
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  std::string asked;
  for (int i = 0; i < 1000; ++i) asked += Asked({table_.address, table_.rkey, 1 << 20});
  // Until the thread has begun to answer, and has stopped.
  uint64_t before = 0, now = 0;
  do {
    before = now;
    for (int rounds = 0; rounds < 50; ++rounds) {
      reads.Send(asked);
      Pump();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    now = listener_->reads_served().bytes;
  } while (now == 0 || (now != before && now < uint64_t{512} << 20));
  EXPECT_LT(listener_->reads_served().bytes, uint64_t{64} << 20) << "of more than 1,000 MiB that were asked for";
  ExpectServes();
}

// Its requests are in the server's socket when it disconnects: none of them is fetched any more.
TEST_F(HostileTest, WhoAsksForMuchAndLeavesIsAnsweredNoMore) {
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  std::string asked;
  for (int i = 0; i < 10'000; ++i) asked += Asked({table_.address, table_.rkey, 1 << 20});
  size_t sent = 0;
  while (const size_t taken = reads.Send(absl::string_view(asked).substr(sent))) sent += taken;
  // Until its socket is full, and no more is fetched.
  uint64_t before = 0, now = 0;
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = listener_->reads_served().bytes;
  } while (now == 0 || now != before);
  const linger at_once = {1, 0};
  ASSERT_EQ(setsockopt(reads.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
  reads.Close();  // with a reset
  ExpectServes();
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = listener_->reads_served().bytes;
  } while (now != before);
  EXPECT_LT(now, uint64_t{64} << 20) << "of 10,000 MiB that were asked for";
}

// Without a limit the kernel would buffer megabytes for each socket, up to tcp_wmem, at the server's cost.
TEST_F(HostileTest, TheKernelKeepsLittleForWhoTakesNoAnswers) {
  auto [raw, connection] = Greet();
  Raw reads = Attach(/*room_bytes=*/4096);
  const int server = OtherEndOf(reads.fd());
  ASSERT_GE(server, 0);
  std::string asked;
  for (int i = 0; i < 64; ++i) asked += Asked({table_.address, table_.rkey, 1 << 20});
  reads.Send(asked);
  // Until it takes no more, or the server has given up a client that takes nothing.
  int most = 0;
  const auto until = std::chrono::steady_clock::now() + kBound;
  for (int bytes = 0; ioctl(server, SIOCOUTQ, &bytes) == 0 && OtherEndOf(reads.fd()) == server;) {
    most = std::max(most, bytes);
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(most, 0);
  EXPECT_LE(static_cast<size_t>(most), 4 * kMaxWaitingInKernelBytes);
}

TEST_F(HostileTest, AnEndedConnectionReadsNoMore) {
  auto [raw, connection] = Greet();
  Raw reads = Attach();
  connection->Disconnect();
  EXPECT_TRUE(reads.Ended());
  EXPECT_TRUE(raw.Ended([this] { Pump(); }));
}

// A server's READ of a live client that does not answer: without a limit it would wait for ever.
TEST_F(HostileTest, AClientThatDoesNotAnswerReadsIsGivenUp) {
  auto [raw, connection] = Greet();
  char to[64];
  const Sge piece = {to, sizeof(to)};
  ASSERT_TRUE(connection->PostRead(1, {&piece, 1}, 0, 1));
  connection->Ring();
  EXPECT_EQ(raw.Receive().type, FrameType::kRead);
  EXPECT_TRUE(Ended(connection.get()));
  ASSERT_EQ(reads_.size(), 1u);
  EXPECT_EQ(reads_[0], WcStatus::kRetryExceeded);
}

// A child of the process holds the sockets too: closing them would end nothing.
TEST_F(HostileTest, AChildThatWasForkedKeepsNoConnection) {
  auto client = *client_->Connect(address_, "parent", 10'000);
  auto server = AcceptNext();
  ASSERT_TRUE(PumpUntil([&] { return connected_ == 1; }));
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  client->Disconnect();
  EXPECT_TRUE(Ended(server.get())) << "the child keeps it";
  EXPECT_TRUE(Ended(client.get()));
  client.reset();
  server.reset();
  // Expect: they cause no events, although the child's sockets exist.
  for (int i = 0; i < 1000; ++i) Pump();
  while (!client_->Arm()) Pump();
  pollfd waiting = {client_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 100), 0) << "it would be woken without end";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A side that polls rarely, and does not sleep in between, finds earlier arrivals at its next poll.
TEST_F(HostileTest, AnAnswerIsFoundByTheNextPollHoweverLongItWasQuiet) {
  auto client = *client_->Connect(address_, "quiet", 10'000);
  auto server = AcceptNext();
  ASSERT_TRUE(PumpUntil([&] { return connected_ == 1; }));
  Completion done[4];
  for (uint32_t i = 0; i < 3 * kQuietPolls + 1; ++i) client_->Poll(absl::MakeSpan(done));
  ASSERT_TRUE(client->PostSend("question", ""));
  client->Ring();
  ASSERT_TRUE(PumpUntil([&] { return messages_ == 1; }));
  ASSERT_TRUE(server->PostSend("answer", ""));
  server->Ring();
  pollfd waiting = {client_->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, 20'000), 1);
  EXPECT_EQ(client_->Poll(absl::MakeSpan(done)), 1u);
}

// ---- Servers that are no Farlook servers, or hostile.

class HostileServerTest : public HostileTest {
 protected:
  void SetUp() override {
    HostileTest::SetUp();
    address_ = UnusedAddress();
    listening_ = std::move(ListenAt(*ParseAddress(address_))->front());
    connection_ = *client_->Connect(address_, "hello", 10'000);
    server_socket_ = std::make_unique<Raw>(Next());
    EXPECT_EQ(server_socket_->Receive([this] { Pump(); }).type, FrameType::kHello);
  }
  UniqueFd Next() {
    UniqueFd socket;
    EXPECT_TRUE(PumpUntil([&] { return (socket = AcceptFrom(listening_.get(), 3000)).ok(); }));
    return socket;
  }
  // Acts as a server until the connection is established.
  void Welcome() {
    server_socket_->Send(Framed(FrameType::kWelcome, Greeting(), std::string(16, 't') + "w"));
    reads_socket_ = std::make_unique<Raw>(Next());
    EXPECT_EQ(reads_socket_->Receive([this] { Pump(); }).type, FrameType::kAttach);
    reads_socket_->Send(Framed(FrameType::kAttached, Greeting(), ""));
    EXPECT_TRUE(PumpUntil([&] { return connected_ == 1; }));
  }

  UniqueFd listening_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Raw> server_socket_;
  std::unique_ptr<Raw> reads_socket_;
};

TEST_F(HostileServerTest, WhatIsNoServerOfOursIsSaid) {
  server_socket_->Send("-ERR unknown command 'FARLOOK'\r\n");
  EXPECT_TRUE(Ended(connection_.get()));
  EXPECT_EQ(connection_->status().code(), absl::StatusCode::kFailedPrecondition) << connection_->status();
}

TEST_F(HostileServerTest, AnAnswerThatIsNoneEndsIt) {
  server_socket_->Send(Framed(FrameType::kMessage, Greeting(), "m"));
  EXPECT_TRUE(Ended(connection_.get()));
}

TEST_F(HostileServerTest, MoreDataThanWasAskedForEndsItAndIsNotWritten) {
  Welcome();
  char to[16];
  memset(to, 'u', sizeof(to));
  const Sge piece = {to, 8};
  ASSERT_TRUE(connection_->PostRead(1, {&piece, 1}, 0, 1));
  connection_->Ring();
  EXPECT_EQ(reads_socket_->Receive([this] { Pump(); }).type, FrameType::kRead);
  reads_socket_->Send(Framed(FrameType::kData, 0, "123456789"));
  EXPECT_TRUE(Ended(connection_.get()));
  EXPECT_EQ(std::string(to, 16), std::string(16, 'u'));
}

TEST_F(HostileServerTest, ReadsOfMemoryThatIsNoBufferAreRefused) {
  Welcome();
  auto buffer = *client_->Allocate(4096, /*readable_by_peers=*/true);
  memset(buffer->bytes().data(), 'b', 4096);
  server_socket_->Send(Asked({buffer->remote().address, buffer->remote().rkey, 16}));
  EXPECT_EQ(server_socket_->Receive([this] { Pump(); }).payload, std::string(16, 'b'));
  server_socket_->Send(Asked({4096 - 8, buffer->remote().rkey, 16}));
  EXPECT_EQ(server_socket_->Receive([this] { Pump(); }).type, FrameType::kRefused);
  server_socket_->Send(Asked({0, buffer->remote().rkey + 1, 16}));
  EXPECT_EQ(server_socket_->Receive([this] { Pump(); }).type, FrameType::kRefused);
}

// A killed server ends both sockets at once. Its earlier answers are delivered all the same.
TEST_F(HostileServerTest, AllThatCameBeforeTheEndIsDelivered) {
  Welcome();
  constexpr int kMessages = 60;  // more than Pump() takes at once
  std::string words;
  for (int i = 0; i < kMessages; ++i) words += Framed(FrameType::kMessage, 0, std::string(500, 'm'));
  ASSERT_EQ(server_socket_->Send(words), words.size());
  // Waits until the client's kernel has all of it: unsent bytes of a killed process are lost with it.
  for (int unsent = 1; unsent != 0; std::this_thread::yield())
    ASSERT_EQ(ioctl(server_socket_->fd(), SIOCOUTQ, &unsent), 0);
  server_socket_->Close();
  reads_socket_->Close();
  EXPECT_TRUE(Ended(connection_.get()));
  EXPECT_EQ(messages_, kMessages);
}

// The answer was begun, more of it waits than the socket takes, and the buffer is freed.
TEST_F(HostileServerTest, ABufferThatGoesWhileItIsReadIsReadNoMore) {
  Welcome();
  auto buffer = *client_->Allocate(16 << 20, /*readable_by_peers=*/true);
  std::string asked;
  for (int i = 0; i < 16; ++i) asked += Asked({0, buffer->remote().rkey, 1 << 20});
  server_socket_->Send(asked);
  for (int i = 0; i < 50; ++i) Pump();
  buffer.reset();  // Expect: no access to freed memory
  Frame frame;
  do {
    frame = server_socket_->Receive([this] { Pump(); });
  } while (frame.type == FrameType::kData);
  EXPECT_EQ(frame.type, FrameType::kRefused);
}

}  // namespace
}  // namespace farlook::rdma::tcp
