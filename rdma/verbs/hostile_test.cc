// Clients that break the rules, on a real device: the server goes on serving, its memory is unharmed, and nothing
// leaks.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/handshake/envelope.h"
#include "rdma/verbs/raw_client.h"

namespace farlook::rdma::verbs {
namespace {

constexpr int64_t kBoundNs = 30'000'000'000;

bool OnSiw() {
  const char* const device = std::getenv("FARLOOK_RDMA_DEVICE");
  return device != nullptr && absl::string_view(device).substr(0, 3) == "siw";
}

// A server that accepts every client and echoes, on its own thread.
class HostileTest : public testing::Test {
 protected:
  HostileTest() {
    static int next = 21'000;
    port_ = next++;
    SharedMemoryOptions options;
    options.bytes = 1 << 20;
    options.huge_pages = HugePages::kNone;
    memory_ = std::make_unique<SharedMemory>(*SharedMemory::Create(options));
    options.access = Access::kRemoteReadAtomic;
    counters_memory_ = std::make_unique<SharedMemory>(*SharedMemory::Create(options));
    listener_ = *Listen(address());
    table_ = *listener_->Offer(memory_->range(), Access::kRemoteRead);
    counters_ = *listener_->Offer(counters_memory_->range(), Access::kRemoteReadAtomic);
    endpoint_ = *listener_->CreateEndpoint();
    thread_ = std::thread([this] { Serve(); });
  }
  ~HostileTest() override {
    done_.store(true);
    thread_.join();
    connections_.clear();
    endpoint_.reset();
    listener_.reset();
  }

  std::string address() const { return absl::StrCat("rdma://", TestHost(), ":", port_); }

  void Serve() {
    size_t accepted = 0;
    while (!done_.load()) {
      while (std::unique_ptr<ConnectionRequest> request = listener_->Next()) {
        std::vector<uint32_t> rkeys = {table_.rkey};
        if (grant_counters_.load()) rkeys.push_back(counters_.rkey);
        if (withhold_.load()) request->WithholdReads();
        absl::StatusOr<std::unique_ptr<Connection>> connection = request->Accept(endpoint_.get(), "welcome", rkeys);
        if (!connection.ok()) continue;
        connections_.push_back(*std::move(connection));
        ++accepted;
      }
      Completion completions[16];
      const size_t count = endpoint_->Poll(absl::MakeSpan(completions));
      for (size_t i = 0; i < count; ++i) {
        const Completion& c = completions[i];
        if (c.opcode == Opcode::kReceive) {
          if (withhold_.load()) {
            EXPECT_TRUE(c.connection->Grant(grant_atomics_.load()).ok());
          }
          c.connection->PostSend("echo", "");
          c.connection->Ring();
        } else if (c.opcode == Opcode::kDisconnected) {
          std::erase_if(connections_, [&c](const auto& connection) { return connection.get() == c.connection; });
        }
      }
      open_.store(connections_.size());
      accepted_.store(accepted);  // after open_: this number implies the state of those connections
      if (count == 0) std::this_thread::yield();
    }
  }

  static std::string Hello() {
    Envelope envelope;
    envelope.window = 64;
    return EncodeEnvelope(envelope, "raw");
  }

  // Connects; the server may notice the connection later than the client.
  bool Connect(RawClient& client, const std::string& hello) {
    if (!client.Connect(hello)) return false;
    ++connected_;
    return true;
  }

  // Expect: every connection of the server ended, including those not yet noticed, and an honest client is served.
  void ExpectServerIsWell() {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundNs;
    const auto all_ended = [this] { return accepted_.load() >= connected_ && open_.load() == 0; };
    while (!all_ended() && Clock::Real().NowNs() < end_ns) std::this_thread::yield();
    EXPECT_TRUE(all_ended()) << accepted_.load() << " accepted of " << connected_ << ", " << open_.load() << " open";
    std::unique_ptr<Endpoint> endpoint = *CreateEndpoint(address());
    std::unique_ptr<Connection> connection = *endpoint->Connect(address(), "hello", 10'000);
    bool echoed = false;
    while (!echoed && Clock::Real().NowNs() < end_ns) {
      Completion done;
      if (endpoint->Poll({&done, 1}) == 0) continue;
      if (done.opcode == Opcode::kConnected) {
        ++connected_;
        connection->PostSend("x", "");
      }
      ASSERT_NE(done.opcode, Opcode::kDisconnected) << connection->status();
      echoed = done.opcode == Opcode::kReceive;
    }
    EXPECT_TRUE(echoed);
    for (uint64_t i = 0; i < memory_->bytes(); i += 4096) ASSERT_EQ(memory_->data()[i], 0);
  }

  int port_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<SharedMemory> counters_memory_;
  std::unique_ptr<Listener> listener_;
  RemoteRange table_;
  RemoteRange counters_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> done_{false};
  std::atomic<bool> grant_counters_{false};
  std::atomic<bool> withhold_{false};  // until the client's first message; then it is granted:
  std::atomic<bool> grant_atomics_{false};
  std::atomic<size_t> open_{0};
  std::atomic<size_t> accepted_{0};  // in total
  size_t connected_ = 0;
  std::thread thread_;
};

TEST_F(HostileTest, TheDeviceRefusesToChangeWhatIsOnlyToBeRead) {
  for (const bool grant : {false, true}) {
    grant_counters_.store(grant);
    for (const ibv_wr_opcode opcode :
         {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_RDMA_READ}) {
      RawClient client(port_);
      ASSERT_TRUE(Connect(client, Hello()));
      const ibv_wc_status status = client.Try(opcode, table_.address, table_.rkey);
      if (OnSiw() && opcode == IBV_WR_RDMA_WRITE) continue;  // not answered there; the bytes are checked
      EXPECT_EQ(status == IBV_WC_SUCCESS, opcode == IBV_WR_RDMA_READ) << opcode << " " << ibv_wc_status_str(status);
    }
  }
  ExpectServerIsWell();
}

// A client that knows every key, and has not proved its identity. On siw only the keys themselves keep it out.
TEST_F(HostileTest, NothingIsReadBeforeItIsGranted) {
  withhold_.store(true);
  grant_counters_.store(true);
  for (const bool granted : {false, true}) {
    for (const bool atomics : {false, true}) {
      grant_atomics_.store(atomics);
      for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        RawClient client(port_);
        ASSERT_TRUE(Connect(client, Hello()));
        if (granted) {
          ASSERT_TRUE(client.Send(std::string(8, '\0') + "I am who I am"));
          ASSERT_EQ(client.Wait(), IBV_WC_SUCCESS);
          ASSERT_TRUE(client.AwaitMessage()) << "the echo, which comes after the grant";
        }
        const bool read = opcode == IBV_WR_RDMA_READ;
        const RemoteRange& range = read ? table_ : counters_;
        const bool done = client.Try(opcode, range.address, range.rkey) == IBV_WC_SUCCESS;
        const bool may = OnSiw() ? read : granted && (read || atomics);
        EXPECT_EQ(done, may) << granted << atomics << opcode;
      }
    }
  }
  withhold_.store(false);
  ExpectServerIsWell();
}

// The same key on a queue pair of another protection domain: for example, of another process' device context.
TEST_F(HostileTest, AKeyIsOfNoUseInAnotherProtectionDomain) {
  absl::StatusOr<std::unique_ptr<Listener>> other = Listen(absl::StrCat("rdma://", TestHost(), ":", port_ + 5000));
  ASSERT_TRUE(other.ok()) << other.status();
  std::unique_ptr<Endpoint> endpoint = *(*other)->CreateEndpoint();
  std::atomic<bool> done{false};
  std::thread serve([&] {
    std::unique_ptr<Connection> accepted;
    while (!done.load()) {
      if (auto request = (*other)->Next(); request != nullptr) accepted = *request->Accept(endpoint.get(), "", {});
      Completion completion;
      endpoint->Poll({&completion, 1});
      std::this_thread::yield();
    }
  });
  {
    RawClient client(port_ + 5000);
    EXPECT_TRUE(client.Connect(Hello()));
    EXPECT_NE(client.Try(IBV_WR_RDMA_READ, table_.address, table_.rkey), IBV_WC_SUCCESS);
  }
  done.store(true);
  serve.join();
  endpoint.reset();
  ExpectServerIsWell();
}

TEST_F(HostileTest, AtomicsNeedTheGrantAlsoWhereTheKeyIsKnown) {
  for (const bool grant : {false, true}) {
    grant_counters_.store(grant);
    RawClient client(port_);
    ASSERT_TRUE(Connect(client, Hello()));
    const bool done = client.Try(IBV_WR_ATOMIC_FETCH_AND_ADD, counters_.address, counters_.rkey) == IBV_WC_SUCCESS;
    EXPECT_EQ(done, grant && !OnSiw());  // siw has no atomics
  }
  RawClient client(port_);
  ASSERT_TRUE(Connect(client, Hello()));
  const ibv_wc_status status = client.Try(IBV_WR_RDMA_WRITE, counters_.address, counters_.rkey);
  if (!OnSiw()) {  // there a WRITE is not answered
    EXPECT_NE(status, IBV_WC_SUCCESS);
  }
  ExpectServerIsWell();
  uint64_t cell;
  memcpy(&cell, counters_memory_->data(), sizeof(cell));
  EXPECT_EQ(cell, OnSiw() ? 0u : 1u);  // one add was granted, and no WRITE
}

TEST_F(HostileTest, GarbageIsRejected) {
  std::mt19937 random(20260101);
  for (int i = 0; i < 30; ++i) {
    std::string bytes(random() % 57, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    RawClient client(port_);
    EXPECT_FALSE(client.Connect(bytes)) << "round " << i;
  }
  std::string other_version = Hello();
  other_version[2] = 9;
  RawClient client(port_);
  EXPECT_FALSE(client.Connect(other_version));
  ExpectServerIsWell();
}

TEST_F(HostileTest, MalformedMessagesEndTheirConnectionOnly) {
  const std::string huge_limit("\xff\xff\xff\x7f\0\0\0\0payload", 15);
  for (const std::string& message : {std::string("x"), std::string(7, '\0'), std::string(100, '\xff'), huge_limit}) {
    RawClient client(port_);
    ASSERT_TRUE(Connect(client, Hello()));
    EXPECT_TRUE(client.Send(message));
    client.Wait();
    ExpectServerIsWell();
  }
}

TEST_F(HostileTest, WhoSendsMoreThanGrantedHurtsNobodyElse) {
  RawClient client(port_);
  ASSERT_TRUE(Connect(client, Hello()));
  const std::string message = std::string(8, '\0') + "more";
  // Ignores credits. The server ends the connection, at the latest when its own credits are used up.
  for (int i = 0; i < 250; ++i) client.Send(message);
  ExpectServerIsWell();
}

TEST_F(HostileTest, AProbeThatCannotBeAnsweredEndsTheConnection) {
  Envelope envelope;
  envelope.window = 64;
  envelope.probe_address = 0x1000;
  envelope.probe_rkey = 4711;
  RawClient client(port_);
  ASSERT_TRUE(Connect(client, EncodeEnvelope(envelope, "raw")));
  ExpectServerIsWell();
}

// A server that is busy for longer than its client waits, for example while it registers its memory. The kernel does
// not report the loss of a client before it is accepted. If it is accepted first, its connection ends.
TEST(ListenerTest, AClientThatGaveUpBeforeItWasAcceptedIsSaidToHave) {
  const std::string address = absl::StrCat("rdma://", TestHost(), ":20999");
  std::unique_ptr<Listener> listener = *Listen(address);
  std::unique_ptr<Endpoint> server = *listener->CreateEndpoint();
  std::unique_ptr<Endpoint> client = *CreateEndpoint(address);
  const auto await = [](Endpoint* endpoint, Endpoint* other, Opcode opcode) {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundNs;
    Completion done, ignored;
    while (Clock::Real().NowNs() < end_ns) {
      if (endpoint->Poll({&done, 1}) > 0 && done.opcode == opcode) return true;
      other->Poll({&ignored, 1});
    }
    return false;
  };
  bool gave_up = false;
  for (int round = 0; round < 10 && !gave_up; ++round) {
    std::unique_ptr<Connection> connection = *client->Connect(address, "hello", 1'000);
    ASSERT_TRUE(await(client.get(), server.get(), Opcode::kDisconnected));
    connection.reset();
    std::unique_ptr<ConnectionRequest> request = listener->Next();
    if (request == nullptr) continue;  // it timed out before it found the server
    absl::StatusOr<std::unique_ptr<Connection>> accepted = request->Accept(server.get(), "welcome", {});
    if (accepted.ok()) {
      EXPECT_TRUE(await(server.get(), client.get(), Opcode::kDisconnected));
      if (OnSiw()) return;  // iWARP's connection manager keeps the connection
    } else {
      EXPECT_EQ(accepted.status().code(), absl::StatusCode::kUnavailable);
      gave_up = accepted.status().message().find("gave up") != absl::string_view::npos;
      EXPECT_TRUE(gave_up || OnSiw()) << accepted.status();
    }
  }
  EXPECT_TRUE(gave_up || OnSiw());
}

int QueuePairsOfThisHost() {
  FILE* const pipe = popen("rdma resource show qp | grep -c RC", "r");
  int count = -1;
  if (pipe == nullptr || fscanf(pipe, "%d", &count) != 1) count = -1;
  pclose(pipe);
  return count;
}

TEST_F(HostileTest, KilledAndVanishedClientsLeaveNothingBehind) {
  ExpectServerIsWell();
  const int before = QueuePairsOfThisHost();
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "raw", "--die", std::to_string(port_).c_str(), std::to_string(i % 3).c_str(), nullptr);
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
  }
  ExpectServerIsWell();
  const int64_t end_ns = Clock::Real().NowNs() + kBoundNs;
  while (QueuePairsOfThisHost() > before && Clock::Real().NowNs() < end_ns) std::this_thread::yield();
  EXPECT_LE(QueuePairsOfThisHost(), before);
}

// The other side of the test above: connects, and is killed before, while or after it uses the connection.
int Die(int port, int how) {
  auto* const client = new RawClient(port);
  if (how > 0) client->Connect("\x46\x4c\x01\x03\x40" + std::string(11, '\0') + "raw");
  if (how > 1) client->Send(std::string(8, '\0') + "last words");
  return raise(SIGKILL);
}

}  // namespace
}  // namespace farlook::rdma::verbs

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--die") {
    return farlook::rdma::verbs::Die(std::atoi(argv[2]), std::atoi(argv[3]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
