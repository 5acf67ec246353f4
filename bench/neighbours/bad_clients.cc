#include "bench/neighbours/bad_clients.h"

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farlook/client.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"

namespace farlook::bench {
namespace {

constexpr int kLoops = 4;          // that connect, or break the protocol
constexpr int kConnections = 100;  // that do not read
constexpr uint64_t kUnread = 256;  // requests of each
constexpr size_t kLargeBytes = 16 << 20;
constexpr size_t kInFlight = 8;  // of large values
constexpr useconds_t kNap = 100'000;

// A connection that can send arbitrary messages.
class RawClient {
 public:
  // Connects, and sends a Hello. Returns false on failure.
  bool Connect(const std::string& address) {
    return ConnectSilently(address) && Send(kv::Hello().Encode()) && PollUntil(rdma::Opcode::kReceive);
  }
  // Connects, and sends nothing. Returns whether there is a connection.
  bool ConnectSilently(const std::string& address) {
    auto endpoint = rdma::CreateEndpoint(address);
    if (!endpoint.ok()) return false;
    endpoint_ = *std::move(endpoint);
    auto connection = endpoint_->Connect(address, kv::ConnectData().Encode(), kConnectMs);
    if (!connection.ok()) return false;
    connection_ = *std::move(connection);
    return PollUntil(rdma::Opcode::kConnected);
  }
  bool Send(absl::string_view message) {
    const bool sent = connection_->PostSend(message, {});
    connection_->Ring();
    return sent;
  }
  // Returns false if the connection ended first.
  bool PollUntil(rdma::Opcode opcode) {
    while (true) {
      rdma::Completion completion;
      if (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 0) {
        std::this_thread::yield();
      } else if (completion.opcode == opcode) {
        return true;
      } else if (completion.opcode == rdma::Opcode::kDisconnected) {
        return false;
      }
    }
  }

 private:
  static constexpr int64_t kConnectMs = 10'000;

  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
};

[[noreturn]] void WaitForEver() {
  while (true) usleep(kNap);
}

// Threads that each call `once` repeatedly.
std::string Loop(int threads, void (*ready)(), const std::function<void(int)>& once) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&once, i] {
      while (true) once(i);
    });
  }
  ready();
  WaitForEver();
}

std::string Busy(const std::string& /*address*/, void (*ready)()) {
  static std::atomic<uint64_t> spun{0};
  return Loop(kLoops, ready, [](int) { spun.fetch_add(1, std::memory_order_relaxed); });
}

std::string DoesNotRead(const std::string& address, void (*ready)()) {
  auto put = Client::Connect(address);
  if (!put.ok()) return put.status().ToString();
  const absl::Status status = (*put)->Put("unread", std::string(3900, 'v')).status();
  if (!status.ok()) return status.ToString();
  std::vector<RawClient> clients(kConnections);
  for (RawClient& client : clients) {
    if (!client.Connect(address)) return "cannot connect";
    for (uint64_t number = 1; number <= kUnread; ++number) {
      kv::Request request;
      request.type = kv::RequestType::kGet;
      request.number = number;
      request.key = "unread";
      char head[kv::kMaxRequestHeadBytes];
      client.Send(absl::string_view(head, request.EncodeHead(head)));
    }
  }
  ready();
  WaitForEver();
}

std::string LargeValues(const std::string& address, void (*ready)()) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  auto client = Client::Connect(address, options);
  if (!client.ok()) return client.status().ToString();
  const std::string value(kLargeBytes, 'l');
  std::vector<std::string> names;
  for (size_t i = 0; i < kInFlight; ++i) names.push_back(absl::StrCat("large ", i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const std::vector<std::string_view> values(kInFlight, value);
  std::vector<Result<uint64_t>> results;
  bool started = false;
  while (true) {
    if (const absl::Status status = (*client)->MultiPut(keys, values, &results); !status.ok()) return status.ToString();
    if (!std::exchange(started, true)) ready();
  }
}

std::string ConnectsInLoops(const std::string& address, void (*ready)()) {
  return Loop(kLoops, ready, [&address](int) { (void)Client::Connect(address).ok(); });
}

std::string ConnectsSilently(const std::string& address, void (*ready)()) {
  return Loop(kLoops, ready, [&address](int) { (void)RawClient().ConnectSilently(address); });
}

std::string BreaksTheProtocol(const std::string& address, void (*ready)()) {
  return Loop(kLoops, ready, [&address](int) {
    RawClient client;
    if (client.Connect(address) && client.Send("this is no request")) client.PollUntil(rdma::Opcode::kDisconnected);
  });
}

// Uses counters, and creates and deletes them, so that stopping this client delays what the server waits for.
std::string StopsWithinAtomics(const std::string& address, void (*ready)()) {
  return Loop(2, ready, [&address](int thread) {
    auto client = Client::Connect(address);
    if (!client.ok()) return;
    for (int64_t round = 0;; ++round) {
      const std::string key = absl::StrCat("counter ", thread, " ", round % 8);
      (void)(*client)->CreateCounter(key, 0).ok();
      for (int i = 0; i < 1000; ++i) (void)(*client)->FetchAdd(key, 1).ok();
      (void)(*client)->DeleteCounter(key).ok();
    }
  });
}

}  // namespace

const std::vector<BadClient>& BadClients() {
  static const std::vector<BadClient>* const kClients = new std::vector<BadClient>{
      {"busy", "four threads that only take processor time", Busy},
      {"unread", "100 connections with 256 gets of 3,900 bytes each, whose replies are not read", DoesNotRead},
      {"large", "8 puts of 16 MiB in flight", LargeValues},
      {"connects", "four threads that connect and leave", ConnectsInLoops},
      {"silent", "four threads that connect, send nothing and leave", ConnectsSilently},
      {"breaks", "four threads that connect and break the protocol", BreaksTheProtocol},
      {"stops", "two threads on counters, stopped for 50 of 55 ms", StopsWithinAtomics, /*stopped=*/true},
  };
  return *kClients;
}

}  // namespace farlook::bench
