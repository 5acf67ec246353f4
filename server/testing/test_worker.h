// A worker over a fake transport and a real table, for tests and the fuzzer.
#ifndef FARLOOK_SERVER_TESTING_TEST_WORKER_H_
#define FARLOOK_SERVER_TESTING_TEST_WORKER_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"
#include "kv/wire/gets.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/fake/fake_transport.h"
#include "rdma/transport.h"
#include "server/base/partition_locks.h"
#include "server/counters/cell_writer.h"
#include "server/counters/counters.h"
#include "server/replication/commit_gate.h"
#include "server/session/connection_list.h"
#include "server/session/connection_quota.h"
#include "server/session/users.h"
#include "server/worker/worker.h"

namespace farlook::server {

using rdma::FakeCall;
using rdma::FakeClock;
using rdma::FakeEndpoint;
using rdma::FakeListener;
using rdma::FakePeer;
using rdma::FakeRequest;

inline constexpr uint64_t kTestIncarnation = 0x1ca2;
inline constexpr uint32_t kTestWindow = 12;
inline constexpr uint64_t kTestCellBytes = 4096;
inline constexpr int64_t kTestPatienceNs = 1'000'000'000;
inline constexpr int64_t kTestHelloNs = 2'000'000'000;

// Returns the request's bytes as sent.
inline std::string Encode(kv::Request request) {
  if (!request.value.empty()) request.value_bytes = static_cast<uint32_t>(request.value.size());
  std::string bytes(kv::kMaxRequestHeadBytes, '\0');
  bytes.resize(request.EncodeHead(bytes.data()));
  return absl::StrCat(bytes, request.value);
}

inline kv::Request MakePut(uint64_t number, absl::string_view key, absl::string_view value,
                           kv::Condition condition = kv::Condition::kAlways, uint64_t version = 0) {
  kv::Request request;
  request.type = kv::RequestType::kPut;
  request.condition = condition;
  request.number = number;
  request.version = version;
  request.key = key;
  request.value = value;
  return request;
}

inline kv::Request MakeRequest(kv::RequestType type, uint64_t number, absl::string_view key = {}) {
  kv::Request request;
  request.type = type;
  request.number = number;
  request.key = key;
  return request;
}

// Returns the request with this ttl; 0: for ever. Valid until the next call.
inline kv::Request WithTtl(kv::Request request, uint64_t ttl_ms) {
  static thread_local std::string bytes;
  kv::RequestOptions options;
  options.has_ttl = true;
  options.ttl_us = ttl_ms * 1000;
  options.create = request.type == kv::RequestType::kCounterAdd;  // without it an add has no ttl
  bytes.resize(kv::RequestOptions::kMaxBytes);
  bytes.resize(options.Encode(bytes.data()));
  request.options = bytes;
  return request;
}

// A received reply, with its own copy of the payload.
struct TestReply {
  explicit TestReply(std::string message) : bytes(std::move(message)) {
    auto decoded = kv::Reply::Decode(bytes);
    if (!decoded.ok()) std::abort();
    code = decoded->code;
    number = decoded->number;
    version = decoded->version;
    slot = decoded->slot;
    time_us = decoded->time_us;
    payload = std::string(decoded->payload);
    kv::CounterResult::Decode(payload, &counter);
  }
  std::string bytes;
  kv::Code code;
  uint64_t number, version;
  kv::Slot slot;
  uint64_t time_us;
  std::string payload;
  kv::CounterResult counter;  // zeros if there is none
};

// Returns all received replies, those of packs one by one; `*messages` is the number of messages.
inline std::vector<TestReply> TakeReplies(FakeCall* call, int* messages) {
  std::vector<TestReply> replies;
  for (*messages = 0; !call->peer.sent.empty(); ++*messages) {
    const std::string message = call->peer.sent.front();
    call->peer.sent.pop_front();
    if (!kv::ReplyPack::Is(message)) {
      replies.emplace_back(message);
      continue;
    }
    kv::PackedReplies pack(message);
    for (absl::string_view reply; pack.Next(&reply);) replies.emplace_back(std::string(reply));
    if (!pack.whole()) std::abort();
  }
  return replies;
}

class TestWorker {
 public:
  explicit TestWorker(size_t region_bytes = 32 << 20, size_t max_kept = 16, int64_t max_clients = 100, int number = 3,
                      Users* users = nullptr, uint32_t window = kTestWindow, bool evict = false,
                      RecordStream* stream = nullptr, uint32_t figures_ms = 0, RecordSource* records = nullptr,
                      const std::function<void(Shared*)>& adjust = nullptr)
      : quota(max_clients), memory_(region_bytes) {
    kv::TableOptions options;
    options.incarnation = kTestIncarnation;
    options.hash_seed = 3;
    options.partitions = 2;
    options.clock = &table_time_;
    options.evict = evict;
    options.keeps_expired = stream != nullptr;
    auto created = kv::Table::Create(memory_.span(), options);
    if (!created.ok()) std::abort();
    table_ = *std::move(created);
    locks_ = std::make_unique<PartitionLocks>(table_.get());
    kv::FormatCellRegion(cells_.span(), kTestIncarnation);
    counters_ = std::make_unique<Counters>(table_.get(), locks_.get(), &clock, ServerTime(), cells_.span(),
                                           std::make_unique<CpuCellWriter>(cells_.span()));
    Shared& shared = shared_;
    shared.counters = counters_.get();
    shared.counter_patience_ns = kTestPatienceNs;
    shared.hello_timeout_ns = kTestHelloNs;
    shared.table = table_.get();
    shared.locks = locks_.get();
    shared.clock = &clock;
    shared.incarnation = kTestIncarnation;
    shared.users = users;
    shared.records = records;
    if (stream != nullptr) {
      gate_ = std::make_unique<CommitGate>(table_.get(), locks_.get(), &clock, ServerTime(), stream);
      shared.gate = gate_.get();
    }
    shared.figures_ms = figures_ms;
    shared.quota = &quota;
    shared.connections = &connections;
    shared.wake_workers = [this] { ++wakes; };
    shared.stat = [this](absl::string_view what) {
      if (on_stat) on_stat();
      return absl::StrCat(stat_text, what);
    };
    if (adjust != nullptr) adjust(&shared);
    SessionOptions sessions;
    sessions.worker = number;
    sessions.incarnation = kTestIncarnation;
    sessions.window = window;
    sessions.max_kept = max_kept;
    sessions.random = [this] { return next_random_ += 640; };
    worker_ = std::make_unique<Worker>(shared, std::move(sessions), [this] { ++wakes; });
    worker_->AddPort(&endpoints[0], {0, region_bytes, 11}, {8192, kTestCellBytes, 12});
    worker_->AddPort(&endpoints[1], {4096, region_bytes, 22});
  }

  Worker& worker() { return *worker_; }
  // The time that the server's clock shows.
  uint64_t ShownTime() const { return shared_.time.At(clock.now_ns); }
  std::deque<FakeCall>& calls() { return calls_; }
  kv::Table& table() { return *table_; }
  PartitionLocks& locks() { return *locks_; }
  CommitGate& gate() { return *gate_; }
  Counters& counters() { return *counters_; }
  const Shared& shared() const { return shared_; }
  absl::Span<char> cells() const { return cells_.span(); }
  absl::Span<char> region() const { return memory_.span(); }

  // Polls until there is nothing to do, within a bound.
  void PollAll() {
    for (int i = 0; i < 10'000; ++i) {
      if (worker_->Poll() == 0) return;
    }
    std::abort();
  }

  // Connects a client that sends its Hello; PollAll() admits it.
  FakeCall* Call(const kv::Hello& hello, int port = 0, uint32_t flags = 0) {
    FakeCall* call = CallSilently(hello, port, flags);
    call->first = hello.Encode();
    return call;
  }
  // The same without sending the Hello.
  FakeCall* CallSilently(const kv::Hello& hello = {}, int port = 0, uint32_t flags = 0) {
    kv::ConnectData connect;
    connect.session = hello.session;
    connect.flags = flags | ((hello.flags & kv::Hello::kReadOnly) != 0 ? kv::ConnectData::kReadOnly : 0u);
    calls_.emplace_back();
    FakeCall* call = &calls_.back();
    call->hello = connect.Encode();
    call->capabilities.max_outstanding_reads = 2;
    call->capabilities.max_read_bytes = max_read_bytes;
    call->capabilities.local = local;
    worker_->Deliver({std::make_unique<FakeRequest>(call), connect, port});
    return call;
  }

  // Connects a client as an operator.
  FakeCall* CallAsOperator() {
    kv::Hello hello;
    hello.flags = kv::Hello::kReadOnly;
    return Call(hello, /*port=*/0, kv::ConnectData::kOperator);
  }

  FakeCall* Connect(bool read_only = false) {
    kv::Hello hello;
    if (read_only) hello.flags = kv::Hello::kReadOnly;
    FakeCall* call = Call(hello);
    PollAll();
    return call;
  }

  // Returns the Hello with which a client with that Welcome would resume.
  static kv::Hello HelloAfter(const FakeCall* call, uint64_t acknowledged = 0) {
    const kv::Welcome welcome = WelcomeOf(call);
    kv::Hello hello;
    hello.flags = (welcome.flags & kv::Welcome::kReadOnly) != 0 ? kv::Hello::kReadOnly : 0u;
    hello.session = welcome.session;
    hello.epoch = welcome.epoch;
    hello.incarnation = AcceptOf(call).incarnation;
    hello.acknowledged = acknowledged;
    return hello;
  }

  static kv::AcceptData AcceptOf(const FakeCall* call) {
    auto accept = kv::AcceptData::Decode(call->welcome);
    if (!accept.ok()) std::abort();
    return *accept;
  }
  static bool Welcome(const FakeCall* call) { return kv::IsFirstMessage(call->peer.first, kv::FirstMessage::kWelcome); }
  static kv::Welcome WelcomeOf(const FakeCall* call) {
    auto welcome = kv::Welcome::Decode(call->peer.first);
    if (!welcome.ok()) std::abort();
    return *welcome;
  }
  static kv::Refusal RefusalOf(const FakeCall* call) {
    auto refusal = kv::Refusal::Decode(call->peer.first);
    if (!refusal.ok()) std::abort();
    return *refusal;
  }
  // Decodes the reject.
  static kv::RejectData RejectOf(const FakeCall* call) {
    auto reject = kv::RejectData::Decode(call->rejected.value_or(""));
    if (!reject.ok()) std::abort();
    return *reject;
  }

  // Sends, polls, and takes the oldest reply, if one arrived.
  std::optional<TestReply> Ask(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    PollAll();
    return TakeReply(call);
  }

  static std::optional<TestReply> TakeReply(FakeCall* call) {
    if (call->peer.sent.empty()) return std::nullopt;
    TestReply reply(std::move(call->peer.sent.front()));
    call->peer.sent.pop_front();
    return reply;
  }

  // Returns what a client would read, if anything.
  std::optional<std::string> ReadKey(absl::string_view key) { return kv::TestReader(memory_.span()).Get(key); }

  kv::Request MakePulled(uint64_t number, absl::string_view key, absl::string_view value) {
    kv::Request request = MakeRequest(kv::RequestType::kPutPulled, number, key);
    request.value_bytes = static_cast<uint32_t>(value.size());
    request.source.address = kValueAddress;
    request.source.rkey = 5;
    request.source.hash = table_->hasher()(value);
    return request;
  }

  // Completes the posted READs with the bytes of `value`.
  static void ServeReads(FakeCall* call, absl::string_view value) {
    while (!call->peer.reads.empty()) {
      const FakePeer::Read& read = call->peer.reads.front();
      call->peer.CompleteRead(value.substr(read.remote_address - kValueAddress, read.bytes));
    }
  }

  // Executes a pulled put from request to reply.
  std::optional<TestReply> PutPulled(FakeCall* call, uint64_t number, absl::string_view key, absl::string_view value) {
    call->peer.Send(Encode(MakePulled(number, key, value)));
    for (size_t i = 0; i < 2 + value.size() / max_read_bytes; ++i) {
      PollAll();
      ServeReads(call, value);
    }
    PollAll();
    return TakeReply(call);
  }

  static constexpr uint64_t kValueAddress = 64;  // of every pulled value, in its client's memory

  uint64_t max_read_bytes = 1024;  // of later clients
  bool local = false;              // of later clients
  FakeClock clock;
  FakeEndpoint endpoints[2];
  ConnectionQuota quota;
  ConnectionList connections{&quota};
  std::string stat_text = "uptime 1\n";
  std::function<void()> on_stat;  // called while a stat request is answered
  int wakes = 0;

 private:
  TableTime table_time_{&clock, ServerTime()};
  kv::TestMemory memory_, cells_{kTestCellBytes};
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<CommitGate> gate_;  // only with a stream
  std::deque<FakeCall> calls_;        // before the worker, whose connections point into it
  uint64_t next_random_ = 0;
  Shared shared_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TESTING_TEST_WORKER_H_
