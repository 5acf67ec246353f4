// The cost of a write: one worker, one client thread, shm, both in this process.
//
//     bazel run --config=opt //server/daemon:server_benchmark
//
// Each figure is followed by its design goal (issue 2): Put acknowledged in 3 round trips of a cache line, a million
// asynchronous Puts a second. BM_CacheLine is the floor: one such round trip between two threads.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "kv/wire/message.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "server/testing/test_client.h"

namespace farlook::server {
namespace {

constexpr uint64_t kKeys = 1 << 18;
constexpr size_t kValueBytes = 100;

std::unique_ptr<Server> StartServer() {
  SetLogLevel(LogLevel::kWarning);
  ServerOptions options;
  options.listen = {absl::StrCat("shm:///tmp/farlook-benchmark-", std::random_device()())};
  options.memory_bytes = 256 << 20;
  options.huge_pages = rdma::HugePages::kNone;
  auto server = Server::Start(options);
  if (!server.ok()) {
    Log(LogLevel::kError, "cannot start", {{"reason", server.status().message()}});
    std::abort();
  }
  return *std::move(server);
}

// A minimal client.
class Putter {
 public:
  explicit Putter(TestClient* client) : client_(client) {}

  bool Post() {
    const uint64_t number = next_ + 1;
    const uint64_t key = number * 0x9e3779b97f4a7c15 % kKeys;
    kv::Request request;
    request.type = kv::RequestType::kPut;
    request.number = number;
    request.key = {reinterpret_cast<const char*>(&key), sizeof key};
    request.value_bytes = kValueBytes;
    char head[kv::kMaxRequestHeadBytes];
    const size_t bytes = request.EncodeHead(head);
    if (!client_->connection().PostSend({head, bytes}, {value_.data(), value_.size()})) return false;
    next_ = number;
    return true;
  }

  // Returns the number of replies that arrived.
  uint64_t Poll() {
    const size_t n = client_->endpoint().Poll(absl::MakeSpan(completions_));
    for (size_t i = 0; i < n; ++i) {
      if (completions_[i].opcode != rdma::Opcode::kReceive) std::abort();
      const auto reply = kv::Reply::Decode({completions_[i].message.data(), completions_[i].message.size()});
      if (!reply.ok() || reply->code != kv::Code::kOk) std::abort();
    }
    return n;
  }

 private:
  TestClient* const client_;
  uint64_t next_ = 0;
  std::array<char, kValueBytes> value_{};
  std::array<rdma::Completion, 64> completions_;
};

void BM_PutAcknowledged(benchmark::State& state) {
  auto server = StartServer();
  TestClient client(server->addresses()[0]);
  Putter putter(&client);
  for (auto _ : state) {
    if (!putter.Post()) std::abort();
    client.connection().Ring();
    while (putter.Poll() == 0) {
    }
  }
  state.SetLabel("100-byte values");
}
BENCHMARK(BM_PutAcknowledged)->UseRealTime();

void BM_PutAsynchronous(benchmark::State& state) {
  auto server = StartServer();
  TestClient client(server->addresses()[0]);
  Putter putter(&client);
  const uint64_t window = client.welcome().window;
  uint64_t outstanding = 0;
  uint64_t done = 0;
  while (state.KeepRunningBatch(1024)) {
    const uint64_t target = done + 1024;
    while (done < target) {
      int posted = 0;
      while (outstanding < window && posted < 32 && putter.Post()) {
        ++outstanding;
        ++posted;
      }
      if (posted > 0) client.connection().Ring();
      const uint64_t replies = putter.Poll();
      done += replies;
      outstanding -= replies;
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(done));
  state.SetLabel("100-byte values");
}
BENCHMARK(BM_PutAsynchronous)->UseRealTime();

void BM_CacheLine(benchmark::State& state) {
  struct alignas(64) Line {
    std::atomic<uint64_t> word{0};
  } there, back;
  std::thread echo([&] {
    for (uint64_t seen = 0; seen != UINT64_MAX;) {
      const uint64_t now = there.word.load(std::memory_order_acquire);
      if (now == seen) continue;
      seen = now;
      back.word.store(now, std::memory_order_release);
    }
  });
  uint64_t n = 0;
  for (auto _ : state) {
    there.word.store(++n, std::memory_order_release);
    while (back.word.load(std::memory_order_acquire) != n) {
    }
  }
  there.word.store(UINT64_MAX, std::memory_order_release);
  echo.join();
}
BENCHMARK(BM_CacheLine)->UseRealTime();

}  // namespace
}  // namespace farlook::server

BENCHMARK_MAIN();
