// A transport without a peer, for tests: the test is the peer. It says what arrives and when READs complete, and sees
// what was sent.
//
// Strict where a real one would be treacherous: a message's bytes are freed at the next Poll, so that asan sees who
// kept them; a READ's destination is scribbled over when it completes, even flushed, so that memory given back too
// early shows as damage; destroying a connection before its kDisconnected was delivered is counted.
#ifndef FARLOOK_SERVER_FAKE_TRANSPORT_H_
#define FARLOOK_SERVER_FAKE_TRANSPORT_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::server {

class FakeClock : public rdma::Clock {
 public:
  int64_t NowNs() const override { return now_ns; }
  int64_t now_ns = 1;
};

class FakeEndpoint;

// What the test sees of a connection; outlives it.
struct FakePeer {
  struct Read {
    uint64_t wr_id;
    char* to;
    uint32_t bytes;
    uint64_t remote_address;
    uint32_t rkey;
  };

  rdma::Connection* connection = nullptr;  // null once destroyed
  FakeEndpoint* endpoint = nullptr;
  std::deque<std::string> sent;  // messages, from the server, after the first
  std::string first;             // the server's first message
  std::deque<Read> reads;        // posted and not completed
  bool disconnecting = false;    // Disconnect() was called, or Break()
  bool closed_here = false;      // Disconnect() was called
  bool disconnected = false;     // kDisconnected was delivered
  bool destroyed_early = false;
  int rings = 0;

  // What the test may set.
  size_t send_room = SIZE_MAX;     // PostSend fails when it is 0
  size_t read_room = SIZE_MAX;     // PostRead fails when it is 0
  bool hold_disconnected = false;  // kDisconnected waits until Release()
  bool quiescent = true;           // false: the client was stopped within an atomic

  void Send(absl::string_view message);  // to the server
  // Completes the oldest READ: with `data` (which it must fit), or without.
  void CompleteRead(absl::string_view data);
  void FailRead(rdma::WcStatus status);
  // The connection breaks: READs are flushed, kDisconnected follows.
  void Break();
  void Release();
};

class FakeEndpoint : public rdma::Endpoint {
 public:
  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(absl::string_view, absl::string_view, int64_t) override {
    return absl::UnimplementedError("a server does not connect");
  }
  absl::StatusOr<std::unique_ptr<rdma::Buffer>> Allocate(size_t, bool) override {
    return absl::UnimplementedError("the server allocates none");
  }
  size_t Poll(absl::Span<rdma::Completion> out) override {
    delivered_.clear();
    size_t n = 0;
    for (; n < out.size() && n < max_batch && !events_.empty(); ++n) {
      Event event = std::move(events_.front());
      events_.pop_front();
      out[n] = event.completion;
      if (event.completion.opcode == rdma::Opcode::kReceive) {
        auto copy = std::make_unique<char[]>(event.message.size());
        std::memcpy(copy.get(), event.message.data(), event.message.size());
        out[n].message = absl::MakeConstSpan(copy.get(), event.message.size());
        delivered_.push_back(std::move(copy));
      } else if (event.completion.opcode == rdma::Opcode::kDisconnected) {
        event.peer->disconnected = true;
      }
    }
    return n;
  }
  bool Arm() override {
    ++arms;
    return events_.empty();
  }
  int fd() const override { return -1; }
  void Wake() override {}

  void Push(FakePeer* peer, rdma::Completion completion, absl::string_view message = {}) {
    completion.connection = peer->connection;
    events_.push_back({peer, completion, std::string(message)});
  }
  bool empty() const { return events_.empty(); }

  size_t max_batch = SIZE_MAX;
  int arms = 0;

 private:
  struct Event {
    FakePeer* peer;
    rdma::Completion completion;
    std::string message;
  };
  std::deque<Event> events_;
  std::vector<std::unique_ptr<char[]>> delivered_;
};

class FakeConnection : public rdma::Connection {
 public:
  FakeConnection(FakePeer* peer, const rdma::Capabilities& capabilities) : peer_(peer), capabilities_(capabilities) {
    peer->connection = this;
  }
  ~FakeConnection() override {
    peer_->destroyed_early = !peer_->disconnected;
    peer_->connection = nullptr;
  }

  bool PostRead(uint64_t wr_id, absl::Span<const rdma::Sge> to, uint64_t remote_address, uint32_t rkey) override {
    if (peer_->disconnecting || peer_->read_room == 0) return false;
    --peer_->read_room;
    peer_->reads.push_back({wr_id, to[0].data, to[0].bytes, remote_address, rkey});
    return true;
  }
  bool PostSend(absl::string_view head, absl::string_view body) override {
    // A break by the other side is not known here before its completion is polled.
    if (peer_->closed_here || peer_->send_room == 0) return false;
    --peer_->send_room;
    unrung_.push_back(std::string(head) + std::string(body));
    return true;
  }
  bool PostFetchAdd(uint64_t, uint64_t*, uint64_t, uint32_t, uint64_t) override { return false; }
  bool PostCompareSwap(uint64_t, uint64_t*, uint64_t, uint32_t, uint64_t, uint64_t) override { return false; }
  void Ring() override {
    ++peer_->rings;
    for (std::string& message : unrung_) {
      if (peer_->first.empty()) {
        peer_->first = std::move(message);
      } else {
        peer_->sent.push_back(std::move(message));
      }
    }
    unrung_.clear();
  }
  void Disconnect() override {
    peer_->closed_here = true;
    peer_->Break();
  }
  bool alive() const override { return !peer_->disconnecting; }
  bool quiescent() override { return peer_->quiescent; }
  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return {}; }
  absl::Status status() const override {
    return peer_->disconnecting ? absl::UnavailableError("gone") : absl::OkStatus();
  }
  std::string peer() const override { return "fake"; }

 private:
  FakePeer* const peer_;
  const rdma::Capabilities capabilities_;
  std::vector<std::string> unrung_;  // posted, not started
};

// What the test sees of a request to connect; outlives it.
struct FakeCall {
  std::string hello;  // with the connection request
  std::string first;  // a message that is sent as soon as the connection is there, if not empty
  rdma::Capabilities capabilities;
  absl::Status accept_status;           // what Accept() says
  std::string welcome;                  // set by Accept()
  std::vector<uint32_t> rkeys;          // set by Accept()
  std::optional<std::string> rejected;  // the reason
  bool accepted = false;
  FakePeer peer;
};

class FakeRequest : public rdma::ConnectionRequest {
 public:
  explicit FakeRequest(FakeCall* call) : call_(call) {}
  ~FakeRequest() override {
    if (!call_->accepted && !call_->rejected) call_->rejected = "";
  }
  absl::string_view hello() const override { return call_->hello; }
  std::string peer() const override { return "fake"; }
  absl::StatusOr<std::unique_ptr<rdma::Connection>> Accept(rdma::Endpoint* endpoint, absl::string_view welcome,
                                                           absl::Span<const uint32_t> rkeys) override {
    if (!call_->accept_status.ok()) return call_->accept_status;
    call_->accepted = true;
    call_->welcome = std::string(welcome);
    call_->rkeys.assign(rkeys.begin(), rkeys.end());
    call_->peer.endpoint = static_cast<FakeEndpoint*>(endpoint);
    auto connection = std::make_unique<FakeConnection>(&call_->peer, call_->capabilities);
    if (!call_->first.empty()) call_->peer.Send(call_->first);
    return connection;
  }
  void Reject(absl::string_view reason) override { call_->rejected = std::string(reason); }

 private:
  FakeCall* const call_;
};

class FakeListener : public rdma::Listener {
 public:
  std::string address() const override { return "fake://"; }
  absl::StatusOr<rdma::RemoteRange> Offer(const rdma::SharedRange&, rdma::Access) override {
    return absl::UnimplementedError("not needed");
  }
  absl::StatusOr<std::unique_ptr<rdma::Endpoint>> CreateEndpoint() override {
    return absl::UnimplementedError("not needed");
  }
  std::unique_ptr<rdma::ConnectionRequest> Next() override {
    if (calls.empty()) return nullptr;
    auto request = std::make_unique<FakeRequest>(calls.front());
    calls.pop_front();
    return request;
  }
  int fd() const override { return -1; }
  absl::Status status() const override { return away; }

  std::deque<FakeCall*> calls;
  absl::Status away;  // not OK: why no client can come
};

inline void FakePeer::Send(absl::string_view message) {
  if (disconnecting) return;
  rdma::Completion completion;
  completion.opcode = rdma::Opcode::kReceive;
  endpoint->Push(this, completion, message);
}

inline void FakePeer::CompleteRead(absl::string_view data) {
  const Read read = reads.front();
  reads.pop_front();
  std::memcpy(read.to, data.data(), read.bytes);
  rdma::Completion completion;
  completion.wr_id = read.wr_id;
  endpoint->Push(this, completion);
}

inline void FakePeer::FailRead(rdma::WcStatus status) {
  const Read read = reads.front();
  reads.pop_front();
  std::memset(read.to, 0xee, read.bytes);
  rdma::Completion completion;
  completion.wr_id = read.wr_id;
  completion.status = status;
  endpoint->Push(this, completion);
}

inline void FakePeer::Break() {
  if (disconnecting) return;
  disconnecting = true;
  if (!hold_disconnected) Release();
}

inline void FakePeer::Release() {
  while (!reads.empty()) FailRead(rdma::WcStatus::kFlushed);
  rdma::Completion completion;
  completion.opcode = rdma::Opcode::kDisconnected;
  endpoint->Push(this, completion);
}

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_FAKE_TRANSPORT_H_
