// The local hot paths, run under callgrind so that their instructions can be counted: see bench/micro/instructions.py.
//
// Two runs execute the same instructions: there is one thread, the same keys and the same hash seed, and a server that
// only serves the handshake and the writes. Reads use the real client over real shared memory. Of a put, only the
// client's part and the table's are counted, and nothing of the server in between.
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/common/environment.h"
#include "bench/common/key_name.h"
#include "bench/common/random.h"
#include "bench/micro/floor_memory.h"
#include "client/testing/mini_server.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "kv/expiry/expiry.h"
#include "kv/layout/epoch_word.h"
#include "kv/read/expiry_clock.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace farlook::bench {
namespace {

constexpr int64_t kKeys = 4096;
constexpr size_t kValueBytes = 100;
// Long enough for the hash to use AVX2, where the processor has it.
constexpr int64_t kLongKeys = 512;
constexpr size_t kLongBytes = 1000;
constexpr size_t kBatch = 64;
constexpr size_t kTogether = 16;
constexpr size_t kSweptAtOnce = 8;  // as server/executor/sweep.h

[[noreturn]] void Fail(absl::string_view what) {
  std::fprintf(stderr, "hot_paths: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

// A MiniServer that listens on shm, and runs only when called.
class Server {
 public:
  explicit Server(const std::string& address) {
    rdma::SharedMemoryOptions options;
    options.bytes = client::MiniServer::kRegionBytes;
    options.huge_pages = rdma::HugePages::kNone;
    memory_ = std::make_unique<rdma::SharedMemory>(*rdma::SharedMemory::Create(options));
    server_ =
        std::make_unique<client::MiniServer>(/*incarnation=*/1, absl::MakeSpan(memory_->data(), memory_->bytes()));
    server_->puts = server_->window = kTogether;
    listener_ = *rdma::Listen(address);
    range_ = *listener_->Offer(memory_->range(), rdma::Access::kRemoteRead);
    endpoint_ = *listener_->CreateEndpoint();
  }

  client::MiniServer& mini() { return *server_; }

  void AcceptOne() {
    while (!Accept()) usleep(1000);
  }
  // Returns false if no client has connected.
  bool Accept() {
    {
      const std::unique_ptr<rdma::ConnectionRequest> request = listener_->Next();
      if (request == nullptr) return false;
      auto accept = server_->Accept(request->hello(), {range_.address, range_.bytes, range_.rkey});
      if (!accept.ok()) Fail("the handshake failed");
      session_ = 0;
      auto connection = request->Accept(endpoint_.get(), *accept, {&range_.rkey, 1});
      if (!connection.ok()) Fail("the connection failed");
      connections_.push_back(*std::move(connection));
      while (session_ == 0) Answer();  // the Hello
    }
    return true;
  }

  // Answers the messages that have arrived on the last connection.
  void Answer() {
    if (connections_.empty()) return;
    rdma::Completion completions[16];
    const size_t count = endpoint_->Poll(absl::MakeSpan(completions));
    for (size_t i = 0; i < count; ++i) {
      if (completions[i].opcode != rdma::Opcode::kReceive) continue;
      const absl::string_view message(completions[i].message.data(), completions[i].message.size());
      const auto pull = [](const kv::ValueSource&, uint32_t) { return std::string(); };
      if (completions[i].connection != connections_.back().get()) continue;  // of a client that sends its goodbye
      connections_.back()->PostSend(server_->Answer(&session_, message, pull), "");
      connections_.back()->Ring();
    }
  }

 private:
  std::unique_ptr<rdma::SharedMemory> memory_;
  std::unique_ptr<client::MiniServer> server_;
  std::unique_ptr<rdma::Listener> listener_;
  rdma::RemoteRange range_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::vector<std::unique_ptr<rdma::Connection>> connections_;
  uint64_t session_ = 0;
};

// Callgrind counts from each Begin() to End(), until Dump() writes the sum under a name.
class Counter {
 public:
  static void Begin() { CALLGRIND_TOGGLE_COLLECT; }
  static void End() { CALLGRIND_TOGGLE_COLLECT; }
  static void Dump(const char* name, int64_t operations) {
    // Callgrind reads the name later.
    static auto* const names = new std::deque<std::string>;
    names->push_back(absl::StrCat(name, "/", operations));
    CALLGRIND_DUMP_STATS_AT(names->back().c_str());
    CALLGRIND_ZERO_STATS;
  }
};

class HotPaths {
 public:
  // The address always has the same length: it may be copied.
  HotPaths()
      : address_(absl::StrCat("shm:///tmp/farlook_hot_", absl::Dec(getpid(), absl::kZeroPad10))), server_(address_) {
    for (int64_t i = 0; i < 2 * kKeys + kLongKeys; ++i) {
      std::string key;
      BuildKeyName(i, &key);
      (i < kKeys ? keys_ : i < 2 * kKeys ? absent_ : long_).push_back(key);
    }
    const std::string value(kValueBytes, 'v');
    for (const std::string& key : keys_) {
      if (server_.mini().Put(key, value).code != kv::Code::kOk) Fail("a put failed");
    }
    for (const std::string& key : long_) {
      if (server_.mini().Put(key, std::string(kLongBytes, 'v')).code != kv::Code::kOk) Fail("a put failed");
    }
  }
  ~HotPaths() { unlink(address_.substr(std::strlen("shm://")).c_str()); }

  void Run() {
    std::unique_ptr<Client> client = Connect();
    CountGets(client.get(), keys_, "get");
    CountGets(client.get(), absent_, "get_absent");
    CountGets(client.get(), long_, "get_1000");
    CountMultiGets(client.get(), keys_, "multi_get_64");
    CountMultiGets(client.get(), long_, "multi_get_64_1000");
    CountReads("get_into", [&client, buffer = std::string(kValueBytes, ' ')](const std::string& key) mutable {
      return client->GetInto(key, buffer).ok();
    });
    CountReads("exists", [&client](const std::string& key) { return client->Exists(key).value_or(false); });
    CountPuts(client.get());
    CountPutsTogether(client.get());
    CountTablePuts();
    CountGroups();
    CountSweep();
  }

 private:
  // The cost of finding the group of a key: the difference between a cluster of two groups, and a single group.
  void CountGroups() {
    const auto is_group = [](Server* server, const std::string& address) {
      server->mini().group_epoch = 1;
      server->mini().table().ShowEpoch(kv::EpochWord::Open(1));
      server->mini().primary = address;
    };
    is_group(&server_, address_);
    {
      const std::unique_ptr<Client> client = Connect();
      CountGets(client.get(), keys_, "get_in_group");
      CountMultiGets(client.get(), keys_, "multi_get_64_in_group");
    }
    const std::string other_address = address_ + "b";
    Server other(other_address);
    is_group(&other, other_address);
    const std::string value(kValueBytes, 'v');
    for (const std::string& key : keys_) {
      if (other.mini().Put(key, value).code != kv::Code::kOk) Fail("a put failed");
    }
    kv::ClusterMap map{.name = "kv", .id = 1, .hash_seed = server_.mini().table().hasher().seed()};
    map.groups.push_back({"a", 1, {address_}, *kv::ParseSlots("0-2047")});
    map.groups.push_back({"b", 1, {other_address}, *kv::ParseSlots("2048-4095")});
    server_.mini().slots = kv::WordsOf(map.groups[0].slots);
    other.mini().slots = kv::WordsOf(map.groups[1].slots);
    for (Server* const server : {&server_, &other}) {
      server->mini().cluster = map.name;
      server->mini().map = map.Encode();
    }
    std::atomic<bool> connected = false;
    std::thread answering([&] {
      while (!connected) {
        for (Server* const server : {&server_, &other}) {
          server->Accept();
          server->Answer();
        }
        usleep(1000);
      }
    });
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_, Patient());
    if (!client.ok()) Fail(client.status().ToString());
    // While a request is in progress, each get polls for its reply. Once a group has executed a put, the client's
    // requests on connecting have been answered too.
    for (size_t i = 0; i < kBatch; ++i) {
      if (!(*client)->Put(keys_[i], value).ok()) Fail("a put failed");
    }
    connected = true;
    answering.join();
    CountGets(client->get(), keys_, "get_in_cluster");
    CountMultiGets(client->get(), keys_, "multi_get_64_in_cluster");
    client->reset();
    unlink(other_address.substr(std::strlen("shm://")).c_str());
  }

  static ClientOptions Patient() {
    ClientOptions options;
    options.timeout_ms = 600'000;
    return options;
  }
  std::unique_ptr<Client> Connect() {
    std::thread accepting([this] { server_.AcceptOne(); });
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_, Patient());
    accepting.join();
    if (!client.ok()) Fail(client.status().ToString());
    return *std::move(client);
  }

  // The first round, which is not counted, completes one-time work: buffers, the allocator, late binding by the linker.
  void CountGets(Client* client, const std::vector<std::string>& keys, const char* name, bool warm = true) {
    Value value;
    for (int round = warm ? 0 : 1; round < 2; ++round) {
      for (const std::string& key : keys) {
        if (round == 1) Counter::Begin();
        const absl::Status status = client->Get(key, &value);
        if (round == 1) Counter::End();
        if (status.ok() != (&keys != &absent_)) Fail(status.ToString());
      }
    }
    Counter::Dump(name, static_cast<int64_t>(keys.size()));
  }

  // `read` returns whether it found the key.
  template <typename Read>
  void CountReads(const char* name, Read read) {
    for (int round = 0; round < 2; ++round) {
      for (const std::string& key : keys_) {
        if (round == 1) Counter::Begin();
        const bool found = read(key);
        if (round == 1) Counter::End();
        if (!found) Fail(absl::StrCat(name, ": ", key, " is not there"));
      }
    }
    Counter::Dump(name, kKeys);
  }

  void CountMultiGets(Client* client, const std::vector<std::string>& keys, const char* name) {
    std::vector<std::string_view> batch(kBatch);
    std::vector<Result<Value>> results;
    for (int round = 0; round < 2; ++round) {
      for (size_t first = 0; first < keys.size(); first += kBatch) {
        for (size_t i = 0; i < kBatch; ++i) batch[i] = keys[first + i];
        if (round == 1) Counter::Begin();
        const absl::Status status = client->MultiGet(batch, &results);
        if (round == 1) Counter::End();
        if (!status.ok()) Fail(status.ToString());
      }
    }
    Counter::Dump(name, static_cast<int64_t>(keys.size()));
  }

  void CountPuts(Client* client) {
    const std::string value(kValueBytes, 'w');
    for (int round = 0; round < 2; ++round) {
      for (const std::string& key : keys_) {
        PutOperation operation(key, Borrowed{value});
        if (round == 1) Counter::Begin();
        client->Start(&operation);
        if (round == 1) Counter::End();
        server_.Answer();
        AsyncOperation* done = nullptr;
        if (round == 1) Counter::Begin();
        const size_t ended = client->Poll({&done, 1});
        if (round == 1) Counter::End();
        if (ended != 1 || !operation.status().ok()) Fail("a put was not answered");
      }
    }
    Counter::Dump("put_client", kKeys);
  }

  // Puts that are sent together in one message.
  void CountPutsTogether(Client* client) {
    const std::string value(kValueBytes, 'w');
    for (int round = 0; round < 2; ++round) {
      for (size_t first = 0; first < keys_.size(); first += kTogether) {
        std::deque<PutOperation> puts;
        std::vector<AsyncOperation*> started, done(kTogether);
        for (size_t i = first; i < first + kTogether; ++i) {
          started.push_back(&puts.emplace_back(keys_[i], Borrowed{value}));
        }
        if (round == 1) Counter::Begin();
        client->Start(started);
        if (round == 1) Counter::End();
        server_.Answer();
        if (round == 1) Counter::Begin();
        const size_t ended = client->Poll(done);
        if (round == 1) Counter::End();
        if (ended != kTogether || !puts.back().status().ok()) Fail("puts were not answered");
      }
    }
    Counter::Dump("multi_put_16_client", kKeys);
  }

  void CountTablePuts() {
    absl::StatusOr<FloorMemory> memory = FloorMemory::Map(size_t{64} << 20, PageSize::k4KiB);
    if (!memory.ok()) Fail("no memory");
    std::memset(memory->data(), 0, memory->size());
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 2;
    auto table = *kv::Table::Create(absl::MakeSpan(memory->data(), memory->size()), options);
    const std::string value(kValueBytes, 'v');
    for (int round = 0; round < 2; ++round) {
      for (const std::string& key : keys_) {
        if (round == 1) Counter::Begin();
        const auto result = table->Put(table->HashOf(key), key, value, kv::Condition::kAlways, 0, /*now_ns=*/round);
        if (round == 1) Counter::End();
        if (result.code != kv::Code::kOk) Fail("a put failed");
      }
    }
    Counter::Dump("put_table", kKeys);
  }

  // The cost of each expiring item if many others expire later: as many in a tick as of ten million in half an hour.
  void CountSweep() {
    class : public kv::TableClock {
     public:
      uint64_t NowUs() const override { return now_us; }
      uint64_t now_us = 1'000'000;
    } clock;
    constexpr int64_t kExpiring = 40'000;
    constexpr uint64_t kWithinMs = 2'000'000;
    constexpr uint64_t kTickMs = uint64_t{1} << kv::ExpiryIndex::kTickBits;
    absl::StatusOr<FloorMemory> memory = FloorMemory::Map(size_t{16} << 20, PageSize::k4KiB);
    if (!memory.ok()) Fail("no memory");
    std::memset(memory->data(), 0, memory->size());
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 2;
    options.clock = &clock;
    auto table = *kv::Table::Create(absl::MakeSpan(memory->data(), memory->size()), options);
    Random random(3);
    std::string key;
    kv::PutParams params;
    for (int64_t i = 0; i < kExpiring; ++i) {
      BuildKeyName(i, &key);
      params.expiry_ms = 1'000 + 1 + random.Below(kWithinMs);
      if (table->Put(table->HashOf(key), key, "12345678", params, /*now_ns=*/0).code != kv::Code::kOk) {
        Fail("a put failed");
      }
    }
    std::vector<kv::ExpiredItem> left;
    while (clock.now_us / 1000 < kWithinMs / 10) {
      clock.now_us += kTickMs * 1000;
      Counter::Begin();
      while (table->Sweep(/*partition=*/0, kSweptAtOnce, /*now_ns=*/0, &left)) {
      }
      Counter::End();
    }
    Counter::Dump("sweep_table", static_cast<int64_t>(table->stats().expired_items));
  }

  const std::string address_;
  Server server_;
  std::vector<std::string> keys_, absent_, long_;
};

}  // namespace
}  // namespace farlook::bench

int main() {
  std::printf("%s\n", farlook::bench::DescribeEnvironment().compiler.c_str());
  farlook::bench::HotPaths().Run();
  return 0;
}
