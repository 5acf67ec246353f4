// The blocking client with a small server in a thread of its own; over shared memory, or RDMA.

#include "farlook/client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/mini_server.h"
#include "farlook/async.h"
#include "gtest/gtest.h"
#include "kv/message.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"

namespace farlook {
namespace {

// A MiniServer that listens. Everything of it but the constructor and Stop() runs on its thread.
class ThreadedServer {
 public:
  ThreadedServer(const std::string& address, uint64_t incarnation) {
    rdma::SharedMemoryOptions options;
    options.bytes = client::MiniServer::kRegionBytes;
    options.huge_pages = rdma::HugePages::kNone;
    memory_ = std::make_unique<rdma::SharedMemory>(*rdma::SharedMemory::Create(options));
    server_ = std::make_unique<client::MiniServer>(incarnation, absl::MakeSpan(memory_->data(), memory_->bytes()));
    listener_ = *rdma::Listen(address);
    range_ = *listener_->Offer(memory_->range(), rdma::Access::kRemoteRead);
    endpoint_ = *listener_->CreateEndpoint();
    thread_ = std::thread([this] { Run(); });
  }
  ~ThreadedServer() { Stop(); }

  void Stop() {
    if (!thread_.joinable()) return;
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    peers_.clear();
    endpoint_.reset();
    listener_.reset();
  }

  // Breaks every connection, once.
  void BreakConnections() { break_.store(true, std::memory_order_relaxed); }
  // Takes messages and does not answer; nor does it answer handshakes.
  void SetDeaf(bool deaf) { deaf_.store(deaf, std::memory_order_relaxed); }

 private:
  struct Peer {
    std::unique_ptr<rdma::Connection> connection;
    uint64_t session;
    std::vector<std::string> unanswered;
  };

  void Run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      while (auto request = deaf_.load(std::memory_order_relaxed) ? nullptr : listener_->Next()) Accept(*request);
      const size_t count = Poll();
      for (rdma::Connection* gone : std::exchange(gone_, {})) peers_.erase(gone);
      if (break_.exchange(false, std::memory_order_relaxed)) {
        for (auto& [connection, peer] : peers_) peer.connection->Disconnect();
      }
      if (deaf_.load(std::memory_order_relaxed)) continue;
      for (auto& [connection, peer] : peers_) {
        if (connection->alive()) Answer(peer);
      }
      // Gives way to the client: there may be fewer processors than threads.
      if (count > 0 || !endpoint_->Arm()) continue;
      pollfd fds[] = {{endpoint_->fd(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}};
      poll(fds, 2, /*timeout=*/2);
    }
  }

  size_t Poll() {
    rdma::Completion completions[16];
    const size_t count = endpoint_->Poll(absl::MakeSpan(completions));
    for (size_t i = 0; i < count; ++i) Handle(completions[i]);
    return count;
  }

  void Accept(rdma::ConnectionRequest& request) {
    auto accept = server_->Accept(request.hello(), {range_.address, range_.bytes, range_.rkey});
    if (!accept.ok()) return request.Reject(accept.status().message());
    auto connection = request.Accept(endpoint_.get(), *accept, {&range_.rkey, 1});
    if (!connection.ok()) return;
    rdma::Connection* const key = connection->get();
    peers_[key] = {*std::move(connection), 0, {}};
  }

  void Handle(const rdma::Completion& completion) {
    if (completion.opcode == rdma::Opcode::kDisconnected) {
      gone_.push_back(completion.connection);  // it may be in use
    } else if (completion.opcode == rdma::Opcode::kRead) {
      pulled_ = completion.status;
    } else if (completion.opcode == rdma::Opcode::kReceive) {
      const absl::string_view message(completion.message.data(), completion.message.size());
      peers_[completion.connection].unanswered.emplace_back(message);
    }
  }

  void Answer(Peer& peer) {
    for (const std::string& message : std::exchange(peer.unanswered, {})) {
      const auto pull = [&](const kv::ValueSource& source, uint32_t bytes) { return Pull(peer, source, bytes); };
      const std::string reply = server_->Answer(&peer.session, message, pull);
      if (reply.empty()) continue;
      while (!peer.connection->PostSend(reply, "") && peer.connection->alive()) Poll();
      peer.connection->Ring();
    }
  }

  // A value out of the client's memory; empty if it cannot be had.
  std::string Pull(Peer& peer, const kv::ValueSource& source, uint32_t bytes) {
    auto buffer = endpoint_->Allocate(bytes, /*readable_by_peers=*/false);
    if (!buffer.ok()) return "";
    char* const begin = (*buffer)->bytes().data();
    const uint64_t most = peer.connection->capabilities().max_read_bytes & ~uint64_t{7};
    for (uint64_t done = 0; done < bytes;) {
      const rdma::Sge to = {begin + done, static_cast<uint32_t>(std::min(bytes - done, most))};
      if (!peer.connection->PostRead(1, {&to, 1}, source.address + done, source.rkey)) return "";
      peer.connection->Ring();
      pulled_.reset();
      while (!pulled_.has_value()) Poll();
      if (*pulled_ != rdma::WcStatus::kSuccess) return "";
      done += to.bytes;
    }
    return std::string(begin, bytes);
  }

  std::unique_ptr<rdma::SharedMemory> memory_;
  std::unique_ptr<client::MiniServer> server_;
  std::unique_ptr<rdma::Listener> listener_;
  rdma::RemoteRange range_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::map<rdma::Connection*, Peer> peers_;
  std::vector<rdma::Connection*> gone_;
  std::optional<rdma::WcStatus> pulled_;
  std::atomic<bool> stop_{false}, break_{false}, deaf_{false};
  std::thread thread_;
};

class ClientTest : public testing::Test {
 protected:
  static ClientOptions Patient() {
    ClientOptions options;
    options.timeout_ms = 30'000;  // other tests may keep the processors busy
    return options;
  }

  // See ClientOptions::location_cache_bytes.
  static uint64_t MostMemory() { return (1 << 20) + (rdma::TestsUseRdma() ? 16 << 20 : 0); }

  std::unique_ptr<Client> Connect(const ClientOptions& options = Patient()) {
    auto client = Client::Connect(address_, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  const std::string address_ = rdma::UnusedTestAddress();
};

TEST_F(ClientTest, ConnectSaysWhatIsWrong) {
  EXPECT_EQ(Client::Connect("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  auto absent = Client::Connect(address_);
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(absent.status().message().find(address_), absl::string_view::npos);
}

TEST_F(ClientTest, CallsDoWhatTheySay) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Get("key").status().code(), absl::StatusCode::kNotFound);
  const auto inserted = client->Put("key", "one", {.condition = Condition::IfAbsent()});
  ASSERT_TRUE(inserted.ok());
  EXPECT_EQ(client->Put("key", "x", {.condition = Condition::IfAbsent()}).status().code(),
            absl::StatusCode::kAlreadyExists);
  auto got = client->Get("key");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->data, "one");
  EXPECT_EQ(got->version, *inserted);
  EXPECT_TRUE(*client->Exists("key"));
  EXPECT_FALSE(*client->Exists("other"));
  const auto set = client->Put("key", "two", {.condition = Condition::IfVersion(got->version)});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(client->Put("key", "three", {.condition = Condition::IfVersion(got->version)}).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(client->Put("other", "x", {.condition = Condition::IfPresent()}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(client->Put("key", "four", {.condition = Condition::IfPresent()}).ok());
  char buffer[10];
  uint64_t version = 0;
  EXPECT_EQ(*client->GetInto("key", buffer, {}, &version), 4);
  EXPECT_EQ(absl::string_view(buffer, 4), "four");
  EXPECT_NE(version, 0);
  EXPECT_EQ(client->GetInto("key", std::span(buffer).first(3)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(client->Delete("key").ok());
  EXPECT_EQ(client->Delete("key").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client->Ping().ok());
  EXPECT_EQ(client->ServerStats()->substr(0, 8), "executed");
  EXPECT_EQ(client->incarnation(), 1);
  EXPECT_LE(client->memory_bytes(), MostMemory());
}

TEST_F(ClientTest, MultiGetAnswersEachKey) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back(absl::StrCat("key", i));
    if (i % 3 != 0) {
      ASSERT_TRUE(client->Put(names.back(), absl::StrCat("value", i)).ok());
    }
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Result<Value>> results;
  ClientOptions by_message = Patient();
  by_message.lookups = Lookups::kMessages;
  auto asking = Connect(by_message);
  ASSERT_NE(asking, nullptr);
  for (Client* reader : {client.get(), client.get(), asking.get()}) {
    ASSERT_TRUE(reader->MultiGet(keys, &results).ok());
    ASSERT_EQ(results.size(), keys.size());
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(results[i].status.code(), i % 3 == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
      EXPECT_EQ(results[i].value.data, i % 3 == 0 ? "" : absl::StrCat("value", i));
    }
  }
  EXPECT_EQ(asking->stats().server_gets, 1000);
  EXPECT_EQ(asking->stats().bucket_reads, 0);
  EXPECT_TRUE(client->MultiGet({}, &results).ok());
  const std::string_view bad[] = {"key1", "", "key2"};
  EXPECT_EQ(client->MultiGet(bad, &results).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[2].value.data, "value2");
}

TEST_F(ClientTest, LargeValuesGoThereAndBack) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  for (size_t bytes : {4000, 5000, 100'000, 3 << 20}) {
    std::string value(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 7 + i / 255);
    const auto put = client->Put("key", value);
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_TRUE(client->Get("key")->data == value);
    std::string buffer(bytes, 'x');
    EXPECT_EQ(*client->GetInto("key", buffer), bytes);
    EXPECT_TRUE(buffer == value);
  }
  EXPECT_LE(client->memory_bytes(), MostMemory());
}

TEST_F(ClientTest, SleepsUntilTheAnswerComes) {
  ThreadedServer server(address_, 1);
  ClientOptions options = Patient();
  options.spin_us = 0;
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(client->Put("key", absl::StrCat(i)).ok());
  EXPECT_EQ(client->Get("key")->data, "199");
}

TEST_F(ClientTest, AsynchronousOperationsEndThroughPollAndWakeItsDescriptor) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::vector<std::string> keys;
  for (int i = 0; i < 500; ++i) keys.push_back(absl::StrCat("key", i));
  std::deque<PutOperation> operations;
  for (int i = 0; i < 500; ++i) {
    operations.emplace_back(keys[i], Borrowed{keys[i]}, PutOptions{.timeout_ms = 10'000}).set_tag(&keys[i]);
    client->Start(&operations.back());
  }
  // A call in between ends on its own, and takes nobody's completion.
  EXPECT_TRUE(client->Ping().ok());
  size_t ended = 0;
  while (client->in_flight() > 0) {
    AsyncOperation* done[7];
    const size_t count = client->Poll(done);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(done[i]->status().ok()) << done[i]->status();
      EXPECT_EQ(*static_cast<std::string*>(done[i]->tag()), done[i]->key());
    }
    ended += count;
    if (count > 0 || !client->Arm()) continue;
    pollfd fd = {client->fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>(client->wait_ms()));
  }
  EXPECT_EQ(ended, 500);
  EXPECT_EQ(client->Get("key499")->data, "key499");
}

TEST_F(ClientTest, AServerThatDoesNotAnswerCostsTheDeadlineAndReadsGoOn) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  server.SetDeaf(true);
  EXPECT_EQ(client->Put("key", "x", {.timeout_ms = 20}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Ping({.timeout_ms = 20}).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Get("key")->data, "value");
  // Expect: it is done later, once.
  server.SetDeaf(false);
  EXPECT_TRUE(client->Ping({.timeout_ms = 10'000}).ok());
  EXPECT_EQ(client->Get("key")->data, "x");
}

TEST_F(ClientTest, ABrokenConnectionIsNotNoticedByItsUser) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 300; ++i) {
    if (i % 10 == 0) server.BreakConnections();
    // Insert of a new key: were it done twice, the second would say so.
    const auto inserted = client->Put(absl::StrCat("key", i), i % 7 == 0 ? std::string(9000, 'v') : "v",
                                      {.condition = Condition::IfAbsent()});
    ASSERT_TRUE(inserted.ok()) << i << ": " << inserted.status();
    ASSERT_TRUE(client->Get(absl::StrCat("key", i)).ok());
  }
  EXPECT_GE(client->stats().reconnects, 1);
}

TEST_F(ClientTest, AServerThatGoesAndComesBackIsAnotherIncarnation) {
  auto server = std::make_unique<ThreadedServer>(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  server.reset();
  EXPECT_EQ(client->Get("key").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->Put("key", "value").status().code(), absl::StatusCode::kUnavailable);
  server = std::make_unique<ThreadedServer>(address_, 2);
  // Within a backoff of its return it is found.
  absl::StatusOr<Value> got = client->Get("key");
  for (int i = 0; i < 1000 && absl::IsUnavailable(got.status()); ++i) {
    poll(nullptr, 0, 1);
    got = client->Get("key");
  }
  EXPECT_EQ(got.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(got.status().message().find("incarnation"), absl::string_view::npos) << got.status();
  EXPECT_EQ(client->incarnation(), 2);
  EXPECT_EQ(client->stats().incarnation_changes, 1);
}

TEST_F(ClientTest, ReadersSeeWholeValuesWhileTheServerWrites) {
  // Values that name their key and prove themselves: "<key> <letter repeated>".
  const auto value_of = [](int key, uint64_t round) {
    return absl::StrCat("key", key, " ", std::string(round * 37 % 1500, static_cast<char>('a' + round % 26)));
  };
  ThreadedServer server(address_, 1);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  for (int key = 0; key < 50; ++key) ASSERT_TRUE(clients[0]->Put(absl::StrCat("key", key), value_of(key, 0)).ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 1; i < 3; ++i) {
    readers.emplace_back([&, i] {
      Value found;
      const std::string& value = found.data;
      for (uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
        const std::string key = absl::StrCat("key", n % 50);
        const absl::Status status = clients[i]->Get(key, &found, {.timeout_ms = 10'000});
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(value.substr(0, key.size() + 1), key + " ");
        ASSERT_TRUE(std::all_of(value.begin() + static_cast<std::ptrdiff_t>(key.size()) + 1, value.end(),
                                [&](char c) { return c == value.back(); }));
      }
    });
  }
  for (uint64_t round = 1; round < 100; ++round) {
    for (int key = 0; key < 50; ++key) {
      ASSERT_TRUE(clients[0]->Put(absl::StrCat("key", key), value_of(key, round), {.timeout_ms = 10'000}).ok());
    }
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& reader : readers) reader.join();
}

TEST_F(ClientTest, ConditionsOfDeletes) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const auto first = client->Put("key", "one"), second = client->Put("key", "two");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfVersion(*first)}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfAbsent()}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Get("key")->data, "two");
  EXPECT_TRUE(client->Delete("key", {.condition = Condition::IfVersion(*second)}).ok());
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfVersion(*second)}).code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, BatchesOfWritesAnswerEachKey) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  constexpr size_t kCount = 700;  // several runs
  std::vector<std::string> names;
  for (size_t i = 0; i < kCount; ++i) names.push_back(absl::StrCat("key", i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Result<uint64_t>> results;
  ASSERT_TRUE(client->MultiPut(keys, keys, &results, {.condition = Condition::IfAbsent()}).ok());
  for (size_t i = 0; i < kCount; i += 99) {
    const auto got = client->Get(names[i]);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->data, names[i]);
    EXPECT_EQ(got->version, results[i].value);
  }
  // Expect: those that are there are told apart from those that are not, and the call says the first error.
  ASSERT_TRUE(client->Delete(names[7]).ok());
  const std::vector<Result<uint64_t>> before = results;
  EXPECT_EQ(client->MultiPut(keys, keys, &results, {.condition = Condition::IfAbsent()}).code(),
            absl::StatusCode::kAlreadyExists);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(results[i].status.code(), i == 7 ? absl::StatusCode::kOk : absl::StatusCode::kAlreadyExists);
    if (i != 7) {
      EXPECT_EQ(results[i].value, before[i].value);
    }
  }
  // Expect: a key that is absent is no error of the call.
  ASSERT_TRUE(client->Delete(names[9]).ok());
  EXPECT_TRUE(client->MultiDelete(keys, &results).ok());
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(results[i].status.code(), i == 9 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
  }
  EXPECT_EQ(client->MultiPut(keys, {}, &results).code(), absl::StatusCode::kInvalidArgument);
  std::vector<Result<int64_t>> sums;
  EXPECT_EQ(client->MultiFetchAdd(keys, {}, &sums).code(), absl::StatusCode::kInvalidArgument);

  // Expect: counters are created side by side; of one that is there already its value is told.
  const std::vector<std::string_view> counters = {"c1", "c2", "c3"};
  const std::vector<int64_t> initials = {10, 20, 30};
  ASSERT_TRUE(client->CreateCounter("c2", 7).ok());
  EXPECT_EQ(client->MultiCreateCounter(counters, initials, &sums).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sums[1].status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sums[1].value, 7);
  ASSERT_TRUE(client->MultiReadCounter(counters, &sums).ok());
  EXPECT_EQ(sums[0].value, 10);
  EXPECT_EQ(sums[1].value, 7);
  EXPECT_EQ(sums[2].value, 30);
  EXPECT_EQ(client->MultiCreateCounter(counters, {}, &sums).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, WritesToOneKeyTakeEffectInTheOrderTheyWereStarted) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::string last;
  for (int round = 0; round < 20; ++round) {
    std::deque<PutOperation> puts;
    for (int i = 0; i < 8; ++i) {
      // Every other one is pulled.
      last = absl::StrCat(round, " ", i, " ", std::string(i % 2 == round % 2 ? 20'000 : 10, 'v'));
      client->Start(&puts.emplace_back("key", Borrowed{last}));
      puts.back().set_value(last);  // small ones are sent by now; large ones have been copied
    }
    AsyncOperation* done[8];
    while (client->in_flight() > 0) client->Wait(done);
    for (const PutOperation& put : puts) EXPECT_TRUE(put.status().ok()) << put.status();
    EXPECT_TRUE(client->Get("key")->data == last) << round;
  }
}

TEST_F(ClientTest, ACallbackOwnsItsOperationAndMayStartItAgainOrDestroyIt) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  int calls = 0;
  std::function<void(AsyncOperation*)> again = [&](AsyncOperation* ended) {
    EXPECT_EQ(static_cast<GetOperation*>(ended)->value(), "value");
    EXPECT_EQ(client->Get("key")->data, "value");  // a call that waits may be made
    if (++calls < 5) {
      client->Start(ended, again);
    } else {
      delete ended;
    }
  };
  client->Start(new GetOperation("key"), again);
  // Beside it one that is polled: neither keeps the other from its end.
  PutOperation put("other", std::string("x"));
  client->Start(&put);
  AsyncOperation* done[1];
  size_t polled = 0;
  while (client->in_flight() > 0) polled += client->Wait(done);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(polled, 1);
  EXPECT_EQ(done[0], &put);
  EXPECT_TRUE(put.status().ok()) << put.status();
  EXPECT_EQ(client->Wait(done), 0);
}

TEST_F(ClientTest, APollWithoutRoomRunsCallbacksAndKeepsTheOthers) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::deque<GetOperation> gets;
  int calls = 0;
  for (int i = 0; i < 200; ++i) {
    gets.emplace_back(absl::StrCat(i));
    if (i % 2 == 0) {
      client->Start(&gets.back(), [&](AsyncOperation*) { ++calls; });
    } else {
      client->Start(&gets.back());
    }
  }
  for (int i = 0; i < 100'000'000 && calls < 100; ++i) client->Poll({});
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(client->in_flight(), 100);
  EXPECT_FALSE(client->Arm());
  AsyncOperation* done[200];
  size_t count = 0;
  while (count < 100) count += client->Poll(std::span(done).subspan(count));
  EXPECT_EQ(client->in_flight(), 0);
  std::set<AsyncOperation*> polled(done, done + 100);  // in flight together, they end in any order
  for (int i = 1; i < 200; i += 2) {
    EXPECT_EQ(polled.count(&gets[i]), 1);
    EXPECT_EQ(gets[i].status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(ClientTest, OperationsWaitForAServerThatComesBackWhereTheOptionSaysSo) {
  auto server = std::make_unique<ThreadedServer>(address_, 1);
  ClientOptions options = Patient();
  options.wait_for_server = true;
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  server.reset();
  EXPECT_EQ(client->Get("key", {.timeout_ms = 30}).status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread starting([&] {
    poll(nullptr, 0, 30);
    server = std::make_unique<ThreadedServer>(address_, 2);
  });
  const auto put = client->Put("key", "value", {.timeout_ms = 60'000});
  starting.join();
  EXPECT_TRUE(put.ok()) << put.status();
}

TEST_F(ClientTest, WaitsForAServerThatIsNotThereYet) {
  ClientOptions options = Patient();
  options.timeout_ms = 50;
  EXPECT_EQ(Client::Connect(address_, options).status().code(), absl::StatusCode::kUnavailable);
  options.wait_for_server = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Client::Connect(address_, options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  options.timeout_ms = 60'000;
  std::unique_ptr<ThreadedServer> server;
  std::thread starting([&] {
    poll(nullptr, 0, 30);
    server = std::make_unique<ThreadedServer>(address_, 1);
  });
  auto client = Client::Connect(address_, options);
  starting.join();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Put("key", "value").ok());
}

}  // namespace
}  // namespace farlook
