// The whole server in this process, with clients over shm.

#include "server/daemon/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"
#include "kv/layout/region.h"
#include "server/base/log.h"
#include "server/session/session.h"
#include "server/testing/test_client.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

kv::Request Put(uint64_t number, absl::string_view key, absl::string_view value) {
  kv::Request request;
  request.type = RequestType::kPut;
  request.number = number;
  request.key = key;
  request.value = value;
  return request;
}

kv::Request Make(RequestType type, uint64_t number, absl::string_view key = {}) {
  kv::Request request;
  request.type = type;
  request.number = number;
  request.key = key;
  return request;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    // A socket's path must be short, so it is not in the test's own directory.
    char name[] = "/tmp/farlook-test-XXXXXX";
    directory_ = mkdtemp(name);
    options_.listen = {Address("a")};
    options_.memory_bytes = 64 << 20;
    options_.huge_pages = rdma::HugePages::kNone;
  }
  ~ServerTest() override {
    server_.reset();
    rmdir(directory_.c_str());
  }

  std::string Address(absl::string_view name) const { return absl::StrCat("shm://", directory_, "/", name); }

  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::map<std::string, std::string> Stats() const {
    std::map<std::string, std::string> stats;
    for (absl::string_view line : absl::StrSplit(server_->Stats(), '\n', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> pair = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      stats.insert(pair);
    }
    return stats;
  }

  // Waits, within a bound, until a figure has a value.
  bool StatBecomes(const std::string& name, const std::string& value) {
    for (int i = 0; i < 10'000; ++i) {
      if (Stats()[name] == value) return true;
      usleep(1000);
    }
    return false;
  }

  std::string directory_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ServesAClient) {
  Start();
  TestClient client(server_->addresses()[0]);
  ASSERT_TRUE(client.status().ok()) << client.status();
  EXPECT_EQ(client.Ask(Put(1, "key", "value")).code, Code::kOk);
  EXPECT_EQ(client.Ask(Make(RequestType::kGet, 2, "key")).payload, "value");
  EXPECT_EQ(client.Ask(Make(RequestType::kDelete, 3, "key")).code, Code::kOk);
  EXPECT_EQ(client.Ask(Make(RequestType::kGet, 4, "key")).code, Code::kNotFound);
  EXPECT_EQ(client.Ask(Make(RequestType::kPing, 5)).number, 5u);
  EXPECT_TRUE(absl::StrContains(client.Ask(Make(RequestType::kStat, 6)).payload, "\nrequests_put 1\n"));
  EXPECT_EQ(client.Ask(Make(RequestType::kStat, 7, "keys")).payload, "keys 0\n");
}

TEST_F(ServerTest, AVersionOfTheServerBeforeIsNotOneOfThisOnes) {
  Start();
  uint64_t version;
  {
    TestClient client(server_->addresses()[0]);
    const TestClient::Answer put = client.Ask(Put(1, "balance", "100"));
    ASSERT_EQ(put.code, Code::kOk);
    version = put.version;
    EXPECT_LT(version, uint64_t{1} << 48) << "the bits above are kept free";
  }
  server_.reset();
  Start();
  TestClient client(server_->addresses()[0]);
  ASSERT_EQ(client.Ask(Put(1, "balance", "7")).code, Code::kOk);
  kv::Request cas = Put(2, "balance", "99");
  cas.condition = kv::Condition::kVersion;
  cas.version = version;
  // Expect: a version read from the earlier server does not allow replacing this one's value.
  EXPECT_EQ(client.Ask(cas).code, Code::kVersionMismatch);
  EXPECT_EQ(client.Ask(Make(RequestType::kGet, 3, "balance")).payload, "7");
}

TEST_F(ServerTest, PullsALargeValueFromTheClient) {
  Start();
  TestClient client(server_->addresses()[0]);
  ASSERT_TRUE(client.status().ok()) << client.status();
  const size_t kBytes = 5'000'001;
  auto buffer = client.endpoint().Allocate(kBytes, /*readable_by_peers=*/true);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (size_t i = 0; i < kBytes; ++i) (*buffer)->bytes()[i] = static_cast<char>(i * 7);

  // The seed of the hash is in the region's header.
  uint64_t header[kv::kRegionHeaderBytes / 8];
  const rdma::Sge to = {reinterpret_cast<char*>(header), sizeof header};
  ASSERT_TRUE(client.connection().PostRead(1, absl::MakeConstSpan(&to, 1), client.accept().table.address,
                                           client.accept().table.rkey));
  client.connection().Ring();
  rdma::Completion completion;
  ASSERT_TRUE(client.Wait([&] { return client.endpoint().Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  ASSERT_EQ(completion.status, rdma::WcStatus::kSuccess);
  auto region = kv::DecodeRegionHeader({reinterpret_cast<const char*>(header), sizeof header}, options_.memory_bytes);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(region->incarnation, client.accept().incarnation);

  kv::Request request = Make(RequestType::kPutPulled, 1, "large");
  request.value_bytes = kBytes;
  request.source.address = (*buffer)->remote().address;
  request.source.rkey = (*buffer)->remote().rkey;
  request.source.hash = kv::Hasher(region->hash_seed)((*buffer)->bytes().data(), kBytes);
  EXPECT_EQ(client.Ask(request).code, Code::kOk);
  EXPECT_EQ(Stats()["value_bytes"], absl::StrCat(kBytes));
  EXPECT_EQ(Stats()["pulled_bytes"], absl::StrCat(kBytes));

  // Expect: naming a buffer that the client does not have costs at most this request.
  request.number = 2;
  request.source.rkey += 1;
  const TestClient::Answer answer = client.Ask(request);
  EXPECT_TRUE(answer.number == 0 || answer.code == Code::kBadValue);
  TestClient other(server_->addresses()[0]);
  EXPECT_EQ(other.Ask(Put(1, "key", "value")).code, Code::kOk);
}

TEST_F(ServerTest, ResumesOverANewConnection) {
  Start();
  auto client = std::make_unique<TestClient>(server_->addresses()[0]);
  const TestClient::Answer first = client->Ask(Put(1, "key", "value"));
  const kv::Hello hello = client->HelloToResume();
  const bool alive_at_resumption[] = {true, false};
  uint32_t epoch = 1;
  for (bool alive : alive_at_resumption) {
    kv::Hello next_hello = hello;
    next_hello.epoch = epoch++;
    if (!alive) client.reset();
    TestClient next(server_->addresses()[0], next_hello);
    ASSERT_TRUE(next.status().ok()) << next.status();
    EXPECT_EQ(next.welcome().flags, kv::Welcome::kResumed);
    EXPECT_EQ(next.welcome().epoch, epoch);
    if (alive) {
      EXPECT_TRUE(client->WaitForDisconnect());
    }
    const TestClient::Answer again = next.Ask(Put(1, "key", "value"));
    EXPECT_EQ(again.code, Code::kOk);
    EXPECT_EQ(again.version, first.version);
  }
  EXPECT_EQ(Stats()["puts"], "1");
  EXPECT_EQ(Stats()["resumed"], "2");
}

TEST_F(ServerTest, SessionsGoBackToTheirWorkerAcrossListeners) {
  options_.listen = {Address("a"), Address("b")};
  options_.workers = 3;
  Start();
  ASSERT_EQ(server_->addresses().size(), 2u);
  EXPECT_EQ(Stats()["partitions"], "8");
  std::set<int> owners;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<TestClient>(Address("a")));
    ASSERT_TRUE(clients.back()->status().ok());
    owners.insert(SessionTable::OwnerOf(clients.back()->welcome().session));
    EXPECT_EQ(clients.back()->Ask(Put(1, absl::StrCat("key", i), "value")).code, Code::kOk);
  }
  EXPECT_EQ(owners.size(), 3u) << "clients are spread over the workers";
  for (auto& client : clients) {
    const kv::Hello hello = client->HelloToResume(1);
    client = std::make_unique<TestClient>(Address("b"), hello);
    ASSERT_TRUE(client->status().ok()) << client->status();
    EXPECT_EQ(client->welcome().session, hello.session);
    EXPECT_EQ(client->welcome().flags, kv::Welcome::kResumed);
  }
  EXPECT_EQ(Stats()["sessions"], "6");
  EXPECT_EQ(Stats()["keys"], "6");
}

TEST_F(ServerTest, TurnsAwayWhatIsNoClient) {
  Start();
  TestClient noise(server_->addresses()[0], "GET / HTTP/1.1");
  EXPECT_FALSE(noise.status().ok());
  kv::ConnectData later;
  later.min_version = later.max_version = 99;
  const std::string other_version = later.Encode();
  TestClient newer(server_->addresses()[0], other_version);
  EXPECT_TRUE(absl::StrContains(newer.status().message(), "version")) << newer.status();
  EXPECT_EQ(newer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stats()["rejected"], "2");
  EXPECT_TRUE(TestClient(server_->addresses()[0]).status().ok());
}

TEST_F(ServerTest, LimitsItsClients) {
  options_.max_clients = 1;
  Start();
  TestClient first(server_->addresses()[0]);
  EXPECT_TRUE(first.status().ok());
  TestClient second(server_->addresses()[0]);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(second.status().message(), "--max_clients")) << second.status();
}

TEST_F(ServerTest, DropsWhoBreaksTheProtocolAndServesOthers) {
  Start();
  TestClient good(server_->addresses()[0]);
  TestClient bad(server_->addresses()[0]);
  EXPECT_TRUE(bad.Send("not a request"));
  EXPECT_TRUE(bad.WaitForDisconnect());
  EXPECT_EQ(good.Ask(Put(1, "key", "value")).code, Code::kOk);
  EXPECT_EQ(Stats()["dropped"], "1");
}

TEST_F(ServerTest, NoticesThatAClientIsGone) {
  Start();
  {
    TestClient reader(server_->addresses()[0]);
    reader.Ask(Make(RequestType::kGet, 1, "key"));
    TestClient writer(server_->addresses()[0]);
    writer.Ask(Put(1, "key", "value"));
    TestClient polite(server_->addresses()[0]);
    polite.Ask(Put(1, "key", "value"));
    EXPECT_TRUE(polite.Send(Make(RequestType::kGoodbye, 0)));
  }
  EXPECT_TRUE(StatBecomes("connections", "0"));
  // Expect: only sessions that may matter later are kept.
  EXPECT_EQ(Stats()["kept_sessions"], "1");
  EXPECT_EQ(Stats()["sessions"], "1");
}

TEST_F(ServerTest, WhoConnectsAndSaysNothingIsAClientAndIsDroppedInTime) {
  options_.liveness_ms = 100;
  options_.max_clients = 1;
  Start();
  TestClient silent(server_->addresses()[0], kv::ConnectData().Encode());
  ASSERT_TRUE(silent.status().ok()) << silent.status();
  EXPECT_EQ(TestClient(server_->addresses()[0]).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(silent.WaitForDisconnect());
  EXPECT_TRUE(StatBecomes("silent_drops", "1"));
  EXPECT_TRUE(StatBecomes("connections", "0"));
  EXPECT_TRUE(TestClient(server_->addresses()[0]).status().ok());
}

TEST_F(ServerTest, AWindowOfRequestsIsAnswered) {
  Start();
  TestClient client(server_->addresses()[0]);
  uint64_t number = 0, answered = 0;
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < client.welcome().window; ++i) {
      ++number;
      ASSERT_TRUE(client.Send(Put(number, absl::StrCat("key", number), std::string(3000, 'v'))));
    }
    for (uint32_t i = 0; i < client.welcome().window; ++i) {
      TestClient::Answer answer;
      ASSERT_TRUE(client.Receive(&answer));
      EXPECT_EQ(answer.code, Code::kOk);
      EXPECT_EQ(answer.number, ++answered) << "each once, in order";
    }
  }
  EXPECT_EQ(Stats()["keys"], absl::StrCat(number));
}

// The server stops reading from a client that it keeps many bytes for. Its requests wait in the ring, and are answered
// later.
TEST_F(ServerTest, RepliesThatFillTheRingAllArriveAndFewAreKept) {
  Start();
  TestClient client(server_->addresses()[0]);
  ASSERT_EQ(client.Ask(Put(1, "key", std::string(4000, 'v'))).code, Code::kOk);
  // 255 replies of 4 KiB do not fit in a ring, and the client does not take them meanwhile.
  uint64_t number = 1;
  std::string batch;
  for (uint32_t i = 1; i < client.welcome().window; ++i) {
    kv::Request request = Make(RequestType::kGet, ++number, "key");
    char head[kv::kMaxRequestHeadBytes];
    ASSERT_TRUE(client.connection().PostSend({head, request.EncodeHead(head)}, {}));
  }
  client.connection().Ring();
  EXPECT_TRUE(StatBecomes("paused_connections", "1"));
  uint64_t kept = 0;
  EXPECT_TRUE(absl::SimpleAtoi(Stats()["kept_bytes"], &kept));
  EXPECT_GT(kept, 64u << 10);
  EXPECT_LE(kept, (128u << 10) + 16 * (4096 + 100));  // a turn of messages beyond the limit
  EXPECT_NE(Stats()["requests_get"], absl::StrCat(number - 1));
  for (uint64_t i = 2; i <= number; ++i) {
    TestClient::Answer answer;
    ASSERT_TRUE(client.Receive(&answer)) << i;
    EXPECT_EQ(answer.number, i);
    EXPECT_EQ(answer.payload.size(), 4000u);
  }
  EXPECT_NE(Stats()["postponed_replies"], "0");
  EXPECT_EQ(Stats()["requests_get"], absl::StrCat(number - 1));
  EXPECT_TRUE(StatBecomes("kept_bytes", "0"));
  EXPECT_EQ(Stats()["paused_connections"], "0");
}

TEST_F(ServerTest, StopAnswersAndDisconnects) {
  Start();
  TestClient client(server_->addresses()[0]);
  for (uint64_t n = 1; n <= 100; ++n) ASSERT_TRUE(client.Send(Put(n, absl::StrCat("key", n), "value")));
  server_->Stop();
  for (uint64_t n = 1; n <= 100; ++n) {
    TestClient::Answer answer;
    ASSERT_TRUE(client.Receive(&answer)) << n;
    EXPECT_EQ(answer.number, n);
    EXPECT_EQ(answer.code, Code::kOk);
  }
  EXPECT_TRUE(client.WaitForDisconnect());
  server_->Stop();
  server_.reset();
  TestClient late(Address("a"));
  EXPECT_FALSE(late.status().ok());
}

// Clients must not be refused: a refusal is final, but these should reconnect, or connect elsewhere.
TEST_F(ServerTest, WhoComesWhileItStopsHearsNoRefusal) {
  options_.drain_timeout_ms = 0;
  const std::string connect = kv::ConnectData().Encode();
  std::atomic<int> came{0}, refused{0};
  for (int round = 0; round < 20; ++round) {
    Start();
    std::atomic<bool> over{false};
    std::vector<std::thread> clients;
    // While others have requests, a new client waits for a turn.
    clients.emplace_back([&] {
      TestClient busy(Address("a"));
      for (uint64_t n = 1; busy.status().ok() && busy.Send(Put(n, "key", "value")); ++n) {
        TestClient::Answer answer;
        if (!busy.Receive(&answer)) return;
      }
    });
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        while (!over) {
          const absl::Status status = TestClient(Address("a"), connect).status();
          came += status.ok();
          refused += absl::IsPermissionDenied(status);
        }
      });
    }
    while (came < 50 * (round + 1)) std::this_thread::yield();
    server_.reset();
    over = true;
    for (std::thread& client : clients) client.join();
  }
  EXPECT_EQ(refused, 0);
}

TEST_F(ServerTest, AnAddressHasOneServer) {
  Start();
  auto second = Server::Start(options_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  server_.reset();
  EXPECT_TRUE(Server::Start(options_).ok());
}

TEST_F(ServerTest, BadOptionsNameTheirFlag) {
  const auto refused = [this](absl::string_view flag, auto change) {
    ServerOptions options = options_;
    change(options);
    const auto server = Server::Start(options);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << flag;
    EXPECT_TRUE(absl::StrContains(server.status().message(), flag)) << server.status();
  };
  refused("--listen", [](ServerOptions& o) { o.listen = {}; });
  refused("--slow_ms", [](ServerOptions& o) { o.slow_ms = -1; });
  refused("--slow_ms", [](ServerOptions& o) { o.slow_ms = 24 * 60 * 60 * 1000 + 1; });
  refused("shm:///", [](ServerOptions& o) { o.listen = {"http://x"}; });
  refused("--memory", [](ServerOptions& o) { o.memory_bytes = 1 << 20; });
  refused("--memory", [](ServerOptions& o) { o.memory_bytes = UINT64_MAX; });
  refused("--workers", [](ServerOptions& o) { o.workers = 0; });
  refused("--workers", [](ServerOptions& o) { o.workers = 65; });
  refused("--window", [](ServerOptions& o) { o.window = 0; });
  refused("--window", [](ServerOptions& o) { o.window = 4097; });
  refused("--max_value_bytes", [](ServerOptions& o) { o.max_value_bytes = (512 << 20) + 1; });
  refused("--max_clients", [](ServerOptions& o) { o.max_clients = 0; });
  refused("--max_clients", [](ServerOptions& o) { o.max_clients = (1 << 20) + 1; });
  refused("--spin_us", [](ServerOptions& o) { o.spin_us = -1; });
  // The value of --liveness=inf.
  refused("--spin_us", [](ServerOptions& o) { o.spin_us = INT64_MAX; });
  refused("--liveness", [](ServerOptions& o) { o.liveness_ms = INT64_MAX; });
  refused("--keep_sessions", [](ServerOptions& o) { o.keep_sessions_ms = INT64_MAX; });
  refused("--drain_timeout", [](ServerOptions& o) { o.drain_timeout_ms = INT64_MAX; });
  refused("--counter_patience", [](ServerOptions& o) { o.counter_patience_ms = INT64_MAX; });
  refused("node", [](ServerOptions& o) { o.numa_node = 1000; });
  refused("--group_user", [](ServerOptions& o) { o.group_user = "group"; });
  refused("--group_user", [](ServerOptions& o) { o.group_user = "group", o.users = "/none"; });
}

// Clients in their own threads put, delete and count; in the end the table holds what they report.
TEST_F(ServerTest, ManyClientsOfSeveralWorkers) {
  options_.workers = 2;
  Start();
  constexpr int kClients = 4;
  constexpr uint64_t kPuts = 2000;
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([this, c] {
      TestClient client(server_->addresses()[0]);
      ASSERT_TRUE(client.status().ok());
      uint64_t number = 0;
      for (uint64_t i = 0; i < kPuts; ++i) {
        ASSERT_EQ(client.Ask(Put(++number, absl::StrCat(c, "-", i % 500), absl::StrCat(i))).code, Code::kOk);
        if (i % 2 == 1) {
          ASSERT_EQ(client.Ask(Make(RequestType::kDelete, ++number, absl::StrCat(c, "-", i % 500))).code, Code::kOk);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Stats()["keys"], absl::StrCat(kClients * 250));
  EXPECT_EQ(Stats()["puts"], absl::StrCat(kClients * kPuts));
  EXPECT_EQ(Stats()["deletes"], absl::StrCat(kClients * kPuts / 2));
}

}  // namespace
}  // namespace farlook::server
