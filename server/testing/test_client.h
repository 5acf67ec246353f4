// A client of the bare protocol over a real transport, for tests: sends Hello and requests, receives replies. It has no
// lookups and retries nothing.
#ifndef FARLOOK_SERVER_TESTING_TEST_CLIENT_H_
#define FARLOOK_SERVER_TESTING_TEST_CLIENT_H_

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::server {

class TestClient {
 public:
  static constexpr int64_t kTimeoutNs = 10'000'000'000;

  // Connects and sends Hello; accept() and welcome() are set if status() is OK afterwards.
  explicit TestClient(absl::string_view address, const kv::Hello& hello = {}) : TestClient(address, ConnectFor(hello)) {
    if (!status_.ok() || !Send(hello.Encode())) return;
    Wait([this] { return disconnected_ || !first_.empty(); });
    if (kv::IsFirstMessage(first_, kv::FirstMessage::kRefusal)) {
      const auto refusal = kv::Refusal::Decode(first_);
      status_ = refusal.ok() ? kv::RefusalStatus(refusal->code, refusal->text) : refusal.status();
      return;
    }
    auto welcome = kv::Welcome::Decode(first_);
    status_ = welcome.status();
    if (welcome.ok()) welcome_ = *welcome;
  }
  // Connects with these private data, and sends nothing.
  TestClient(absl::string_view address, absl::string_view connect) {
    auto endpoint = rdma::CreateEndpoint(address);
    if (!endpoint.ok()) {
      status_ = endpoint.status();
      return;
    }
    endpoint_ = *std::move(endpoint);
    auto connection = endpoint_->Connect(address, connect, /*timeout_ms=*/10'000);
    if (!connection.ok()) {
      status_ = connection.status();
      return;
    }
    connection_ = *std::move(connection);
    Wait([this] { return connected_ || disconnected_; });
    if (!connected_) {
      const auto reject = kv::RejectData::Decode(connection_->status().message());
      status_ = reject.ok() ? kv::RefusalStatus(reject->code, reject->text) : connection_->status();
      return;
    }
    auto accept = kv::AcceptData::Decode(connection_->welcome());
    status_ = accept.status();
    if (accept.ok()) accept_ = *accept;
  }
  ~TestClient() { connection_.reset(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // The connection's status: the reason if it was closed or never established.
  absl::Status status() const { return status_.ok() && disconnected_ ? connection_->status() : status_; }
  const kv::AcceptData& accept() const { return accept_; }
  const kv::Welcome& welcome() const { return welcome_; }
  bool disconnected() const { return disconnected_; }
  rdma::Connection& connection() { return *connection_; }
  rdma::Endpoint& endpoint() { return *endpoint_; }

  struct Answer {
    kv::Code code = kv::Code::kOk;
    uint64_t number = 0;
    uint64_t version = 0;
    std::string payload;
  };

  // Posts a message, waiting for room. Returns false if the connection is closed.
  bool Send(absl::string_view message) {
    bool posted = false;  // Wait() may call post again after it returned true
    const auto post = [&] { return posted = posted || disconnected_ || connection_->PostSend(message, {}); };
    return Wait(post) && !disconnected_ && Ring();
  }
  bool Send(kv::Request request) {
    if (request.type == kv::RequestType::kPut) request.value_bytes = static_cast<uint32_t>(request.value.size());
    char head[kv::kMaxRequestHeadBytes];
    const size_t bytes = request.EncodeHead(head);
    return Send(absl::StrCat(absl::string_view(head, bytes), request.value));
  }

  // Waits for the next reply. Returns false if the connection is closed, or after kTimeoutNs.
  bool Receive(Answer* answer) {
    Wait([this] { return disconnected_ || !answers_.empty(); });
    if (answers_.empty()) return false;
    *answer = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }

  // Sends one request and returns its reply, or a default answer with number 0 if none arrived.
  Answer Ask(const kv::Request& request) {
    Answer answer;
    if (Send(request)) Receive(&answer);
    return answer;
  }

  bool WaitForDisconnect() {
    return Wait([this] { return disconnected_; });
  }

  // Returns the Hello that resumes the session.
  kv::Hello HelloToResume(uint64_t acknowledged = 0) const {
    kv::Hello hello;
    hello.flags = (welcome_.flags & kv::Welcome::kReadOnly) != 0 ? kv::Hello::kReadOnly : 0u;
    hello.session = welcome_.session;
    hello.epoch = welcome_.epoch;
    hello.incarnation = accept_.incarnation;
    hello.acknowledged = acknowledged;
    return hello;
  }

  // Polls until `done`, sleeping in between, for at most kTimeoutNs.
  template <typename Done>
  bool Wait(Done done) {
    const int64_t deadline_ns = rdma::Clock::Real().NowNs() + kTimeoutNs;
    while (!done()) {
      if (rdma::Clock::Real().NowNs() > deadline_ns) return false;
      if (Poll() == 0 && !done() && endpoint_->Arm()) {
        pollfd fd = {endpoint_->fd(), POLLIN, 0};
        poll(&fd, 1, /*timeout=*/100);
      }
    }
    return true;
  }

 private:
  static std::string ConnectFor(const kv::Hello& hello) {
    kv::ConnectData connect;
    connect.session = hello.session;
    connect.flags = (hello.flags & kv::Hello::kReadOnly) != 0 ? kv::ConnectData::kReadOnly : 0u;
    return connect.Encode();
  }

  bool Ring() {
    connection_->Ring();
    return true;
  }

  size_t Poll() {
    std::array<rdma::Completion, 64> completions;
    const size_t n = endpoint_->Poll(absl::MakeSpan(completions));
    for (size_t i = 0; i < n; ++i) {
      switch (completions[i].opcode) {
        case rdma::Opcode::kConnected:
          connected_ = true;
          break;
        case rdma::Opcode::kDisconnected:
          disconnected_ = true;
          break;
        case rdma::Opcode::kReceive: {
          const absl::string_view message(completions[i].message.data(), completions[i].message.size());
          if (first_.empty()) {
            first_ = std::string(message);
            break;
          }
          auto reply = kv::Reply::Decode(message);
          if (reply.ok()) answers_.push_back({reply->code, reply->number, reply->version, std::string(reply->payload)});
          break;
        }
        default:
          break;
      }
    }
    return n;
  }

  absl::Status status_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
  kv::AcceptData accept_;
  kv::Welcome welcome_;
  std::string first_;  // the server's first message
  bool connected_ = false;
  bool disconnected_ = false;
  std::deque<Answer> answers_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TESTING_TEST_CLIENT_H_
