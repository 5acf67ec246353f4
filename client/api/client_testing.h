// A small server in its own thread, for tests of the public client; over shared memory, or RDMA.
#ifndef FARLOOK_CLIENT_API_CLIENT_TESTING_H_
#define FARLOOK_CLIENT_API_CLIENT_TESTING_H_

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/testing/mini_server.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"

namespace farlook {

// A MiniServer that listens. Everything except the constructor and Stop() runs on its thread.
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
  // If silent, it takes messages and does not reply, not even to handshakes.
  void SetSilent(bool silent) { silent_.store(silent, std::memory_order_relaxed); }

 private:
  struct Peer {
    std::unique_ptr<rdma::Connection> connection;
    uint64_t session;
    std::vector<std::string> unanswered;
  };

  void Run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      while (auto request = silent_.load(std::memory_order_relaxed) ? nullptr : listener_->Next()) Accept(*request);
      const size_t count = Poll();
      for (rdma::Connection* gone : std::exchange(gone_, {})) peers_.erase(gone);
      if (break_.exchange(false, std::memory_order_relaxed)) {
        for (auto& [connection, peer] : peers_) peer.connection->Disconnect();
      }
      if (silent_.load(std::memory_order_relaxed)) continue;
      for (auto& [connection, peer] : peers_) {
        if (connection->alive()) Answer(peer);
      }
      // Yields to the client: there may be fewer processors than threads.
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

  // Pulls a value from the client's memory; empty if that fails.
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
  std::atomic<bool> stop_{false}, break_{false}, silent_{false};
  std::thread thread_;
};

class ClientTest : public testing::Test {
 protected:
  static ClientOptions Patient() {
    ClientOptions options;
    options.timeout_ms = 30'000;  // other tests may keep the processors busy
    return options;
  }

  // See ClientOptions::mirror_bytes.
  static uint64_t MostMemory() { return (1 << 20) + (rdma::TestsUseRdma() || rdma::TestsUseTcp() ? 256 << 20 : 0); }

  std::unique_ptr<Client> Connect(const ClientOptions& options = Patient()) {
    auto client = Client::Connect(address_, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  const std::string address_ = rdma::UnusedTestAddress();
};

}  // namespace farlook

#endif  // FARLOOK_CLIENT_API_CLIENT_TESTING_H_
