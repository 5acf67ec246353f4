// A worker's path for a put, run under callgrind so that its instructions can be counted: see
// bench/micro/instructions.py.
//
// One thread is client and worker by turns, over real shared memory, with the same keys and the same hash seed each
// time. Worker::Poll() is counted, from the message in one ring to the answer in the other.
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "bench/common/environment.h"
#include "bench/common/key_name.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "kv/table/table.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "server/acceptor/acceptor.h"
#include "server/base/log.h"
#include "server/base/partition_locks.h"
#include "server/session/connection_quota.h"
#include "server/worker/worker.h"

namespace farlook {
namespace {

constexpr int64_t kKeys = 4096;
constexpr size_t kValueBytes = 100;
constexpr size_t kTogether = 16;

void Require(bool holds, absl::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "server_paths: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

class ServerPaths {
 public:
  ServerPaths() : address_(absl::StrCat("shm:///tmp/farlook_paths_", absl::Dec(getpid(), absl::kZeroPad10))) {
    rdma::SharedMemoryOptions options;
    options.bytes = size_t{64} << 20;
    options.huge_pages = rdma::HugePages::kNone;
    memory_ = std::make_unique<rdma::SharedMemory>(*rdma::SharedMemory::Create(options));
    kv::TableOptions table;
    table.incarnation = 1;
    table.hash_seed = 2;
    table_ = *kv::Table::Create(absl::MakeSpan(memory_->data(), memory_->bytes()), table);
    locks_ = std::make_unique<server::PartitionLocks>(table_.get());
    listener_ = *rdma::Listen(address_);
    range_ = *listener_->Offer(memory_->range(), rdma::Access::kRemoteRead);
    endpoint_ = *listener_->CreateEndpoint();
    server::Shared shared;
    shared.table = table_.get();
    shared.locks = locks_.get();
    shared.clock = &rdma::Clock::Real();
    shared.incarnation = 1;
    shared.quota = &quota_;
    server::SessionOptions sessions;
    sessions.incarnation = 1;
    sessions.random = [this] { return random_ += server::SessionTable::kMaxWorkers; };
    worker_ = std::make_unique<server::Worker>(shared, std::move(sessions), [] {});
    worker_->AddPort(endpoint_.get(), range_);
    acceptor_ = std::make_unique<server::Acceptor>(std::vector<rdma::Listener*>{listener_.get()}, shared.clock);
    acceptor_->Open({worker_.get()});
    for (int64_t i = 0; i < kKeys; ++i) {
      keys_.emplace_back();
      bench::BuildKeyName(i, &keys_.back());
    }
  }
  ~ServerPaths() {
    client_.reset();
    unlink(address_.substr(std::strlen("shm://")).c_str());
  }

  void Run() {
    Connect();
    CountPuts("put_server", 1);
    CountPuts("multi_put_16_server", kTogether);
  }

 private:
  void Connect() {
    std::atomic<bool> connected{false};
    std::thread serving([this, &connected] {
      while (!connected) {
        acceptor_->Poll();
        worker_->Poll();
        usleep(100);
      }
    });
    auto client = Client::Connect(address_, {.timeout_ms = 600'000});
    connected = true;
    serving.join();
    Require(client.ok(), client.status().ToString());
    client_ = *std::move(client);
  }

  // Counts `together` puts that are posted at once. A first round, uncounted, makes the items.
  void CountPuts(const char* name, size_t together) {
    const std::string value(kValueBytes, 'w');
    for (int round = 0; round < 2; ++round) {
      for (size_t first = 0; first < keys_.size(); first += together) {
        std::deque<PutOperation> puts;
        std::vector<AsyncOperation*> started;
        for (size_t i = first; i < first + together; ++i) {
          puts.emplace_back(keys_[i], Borrowed{value});
          started.push_back(&puts.back());
        }
        client_->Start(started);
        if (round == 1) CALLGRIND_TOGGLE_COLLECT;
        worker_->Poll();
        if (round == 1) CALLGRIND_TOGGLE_COLLECT;
        std::array<AsyncOperation*, kTogether> done;
        Require(client_->Poll(done) == together, "a put was not answered");
        for (const PutOperation& put : puts) Require(put.status().ok(), put.status().ToString());
      }
    }
    // Callgrind reads the name later.
    static auto* const names = new std::deque<std::string>;
    names->push_back(absl::StrCat(name, "/", keys_.size()));
    CALLGRIND_DUMP_STATS_AT(names->back().c_str());
    CALLGRIND_ZERO_STATS;
  }

  const std::string address_;
  std::unique_ptr<rdma::SharedMemory> memory_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<server::PartitionLocks> locks_;
  std::unique_ptr<rdma::Listener> listener_;
  rdma::RemoteRange range_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  server::ConnectionQuota quota_{1024};
  uint64_t random_ = 0;
  std::unique_ptr<server::Worker> worker_;
  std::unique_ptr<server::Acceptor> acceptor_;
  std::unique_ptr<Client> client_;
  std::vector<std::string> keys_;
};

}  // namespace
}  // namespace farlook

int main() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // like kv_server
  farlook::server::SetLogLevel(farlook::server::LogLevel::kWarning);
  std::printf("%s\n", farlook::bench::DescribeEnvironment().compiler.c_str());
  farlook::ServerPaths().Run();
  return 0;
}
