// A transport in memory without a peer, for tests of servers and of clients: the test is the peer. It determines
// arrivals and completions of work requests, sees sent messages, and breaks connections. One thread, no sleep.
//
// Strict where a real transport would hide errors:
//   * posted work is not visible before Ring();
//   * a message's bytes are freed at the next Poll, so that asan finds uses after it;
//   * the memory of a READ that fails is overwritten, and a READ completed late writes late, so that memory released too
//     early is damaged;
//   * destroying a connection before its kDisconnected was delivered is counted.
#ifndef FARLOOK_RDMA_FAKE_FAKE_TRANSPORT_H_
#define FARLOOK_RDMA_FAKE_FAKE_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::rdma {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(int64_t start_ns = 1) : now_ns(start_ns) {}
  int64_t NowNs() const override {
    ++readings;
    return now_ns += step_ns;
  }
  void AdvanceMs(int64_t ms) { now_ns += ms * 1'000'000; }
  mutable int64_t now_ns;
  int64_t step_ns = 0;  // time that passes before a reading
  mutable int64_t readings = 0;
};

class FakeEndpoint;

// The test's view of a connection, and its control as the other side; outlives the connection.
struct FakePeer {
  // A READ, or an atomic.
  struct Read {
    uint64_t wr_id = 0;
    std::vector<Sge> to;
    uint32_t bytes = 0;  // of all pieces
    uint64_t remote_address = 0;
    uint32_t rkey = 0;
    Opcode opcode = Opcode::kRead;
    uint64_t operand = 0;  // of an atomic: delta or expected
    uint64_t desired = 0;
  };

  FakePeer() = default;
  FakePeer(const FakePeer&) = delete;
  FakePeer& operator=(const FakePeer&) = delete;

  Connection* connection = nullptr;  // null once destroyed
  FakeEndpoint* endpoint = nullptr;
  std::deque<std::string> sent;  // messages after the first
  std::string first;             // the first message
  std::deque<Read> reads;        // posted, rung and not completed
  bool disconnecting = false;    // Disconnect() was called, or Break()
  bool closed_here = false;      // Disconnect() was called
  bool disconnected = false;     // kDisconnected was delivered
  bool destroyed_early = false;
  bool receiving = true;  // set by SetReceiving()
  size_t refused_sends = 0;
  size_t quiescent_looks = 0;
  int rings = 0;
  int sends_with_ring = 0;  // by PostSendAndRing()

  // May be set by the test.
  size_t send_room = SIZE_MAX;        // PostSend fails when it is 0
  size_t read_room = SIZE_MAX;        // PostRead and atomics fail when it is 0
  size_t* send_room_at = &send_room;  // or a shared room of several connections
  size_t* read_room_at = &read_room;
  bool hold_disconnected = false;  // kDisconnected waits until Release()
  bool quiescent = true;           // false: the client was stopped within an atomic
  bool connected = true;           // false: nothing can be posted
  absl::Status status;             // reason of the end; UNAVAILABLE if OK
  std::string welcome;
  std::string granted;  // by Grant(), "reads" or "atomics"; "told" by Granted()
  std::string server_address = "10.0.0.1:7471";
  uint32_t looks = 0;  // `looks` of the last ReadAtOnce()
  // Called if set: whether this may be read or changed (otherwise it completes with kRemoteAccess); with each message
  // when it is posted; after Ring(); for Mapped(). The last returns whether the other side is alive.
  std::function<bool(const Read&)> permits;
  std::function<void(const std::string&)> on_send;
  std::function<void()> on_ring;
  std::function<const char*(uint64_t address, uint64_t bytes, uint32_t rkey)> mapped;
  std::function<bool()> alive;

  void Connected();                      // Connect() succeeded
  void Send(absl::string_view message);  // to the side under test
  // Completes a work request.
  void Complete(const Read& read, WcStatus status = WcStatus::kSuccess);
  // Completes the oldest READ: with `data` (which must have its length), or with an error.
  void CompleteRead(absl::string_view data);
  void FailRead(WcStatus status);
  // The connection breaks: READs are flushed, kDisconnected follows.
  void Break();
  void Release();

  std::vector<Read> unrung_reads;  // posted, not started
  std::vector<std::string> unrung;
};

// The memory that endpoints have registered.
class FakeMemory {
 public:
  // Returns whether the piece is completely in registered memory.
  bool Registered(const Sge& piece) const;
  // Returns a buffer that peers may READ; empty if there is none with this key.
  absl::Span<char> Offered(uint32_t rkey) const;
  // Simulates a device that was removed and returned: readable buffers get other keys.
  void ChangeKeys();

  size_t most_bytes = SIZE_MAX;  // of a buffer that an endpoint allocates
  std::unique_ptr<Buffer> Allocate(size_t bytes, bool readable_by_peers);
  std::unique_ptr<Buffer> Register(absl::Span<char> memory);

 private:
  class FakeBuffer;
  std::map<const char*, size_t> registered_;
  std::map<uint32_t, absl::Span<char>> offered_;  // by rkey
  std::vector<FakeBuffer*> readable_;
  uint32_t next_rkey_ = 100;
};

class FakeEndpoint : public Endpoint {
 public:
  // Without memory it allocates none, as a server's endpoint need not.
  explicit FakeEndpoint(FakeMemory* memory = nullptr) : memory_(memory) {}

  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> memory) override;
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override {
    ++arms;
    return Next() == events_.end();
  }
  int fd() const override { return -1; }
  void Wake() override {}
  PeerActivity peer_activity() const override { return activity; }

  void Push(FakePeer* peer, Completion completion, absl::string_view message = {});
  // The connection is destroyed: nothing more is delivered for it.
  void Forget(const FakePeer* peer);
  bool empty() const { return events_.empty(); }
  // Takes the next completion if it is a success of this READ; returns whether it did.
  bool TakeRead(const FakePeer* peer, uint64_t wr_id);

  size_t max_batch = SIZE_MAX;
  int arms = 0;
  std::string dialled;  // the last address
  PeerActivity activity = PeerActivity::kElsewhere;
  // Called at the end of Poll().
  std::function<void()> on_polled;
  // Implements Connect().
  std::function<std::unique_ptr<Connection>(FakeEndpoint*, absl::string_view hello)> on_connect;

 private:
  struct Event {
    FakePeer* peer;
    Completion completion;
    std::string message;
  };
  // The first event that may be delivered.
  std::deque<Event>::iterator Next();

  FakeMemory* const memory_;
  std::deque<Event> events_;
  std::vector<std::unique_ptr<char[]>> delivered_;
};

class FakeConnection : public Connection {
 public:
  FakeConnection(FakePeer* peer, const Capabilities& capabilities) : peer_(peer), capabilities_(capabilities) {
    peer->connection = this;
  }
  ~FakeConnection() override;

  bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) override;
  AtOnce ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey, uint32_t looks) override;
  const char* Mapped(uint64_t remote_address, uint64_t bytes, uint32_t rkey) override;
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostSendAndRing(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override;
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override;
  void SetReceiving(bool receiving) override { peer_->receiving = receiving; }
  void Ring() override;
  void Disconnect() override;
  bool alive() const override { return peer_->connected && !peer_->disconnecting && (!peer_->alive || peer_->alive()); }
  bool quiescent() override {
    ++peer_->quiescent_looks;
    return peer_->quiescent;
  }
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return peer_->welcome; }
  absl::Status status() const override;
  std::string peer() const override { return "fake"; }
  absl::Status Grant(bool atomics) override {
    peer_->granted = atomics ? "atomics" : "reads";
    return absl::OkStatus();
  }
  void Granted() override { peer_->granted = "told"; }
  std::string server_address() const override { return peer_->server_address; }

 private:
  bool Post(FakePeer::Read read);

  FakePeer* const peer_;
  const Capabilities capabilities_;
};

// The test's view of a request to connect; outlives the request.
struct FakeCall {
  std::string hello;  // with the connection request
  std::string first;  // if not empty: a message that is sent as soon as the connection exists
  Capabilities capabilities;
  absl::Status accept_status;           // returned by Accept()
  std::string welcome;                  // set by Accept()
  std::vector<uint32_t> rkeys;          // set by Accept()
  std::optional<std::string> rejected;  // the reason
  std::optional<PeerCredentials> credentials;
  bool prepared = false;  // before it was accepted
  bool withheld = false;  // set by WithholdReads()
  bool accepted = false;
  FakePeer peer;
};

class FakeRequest : public ConnectionRequest {
 public:
  explicit FakeRequest(FakeCall* call) : call_(call) {}
  ~FakeRequest() override {
    if (!call_->accepted && !call_->rejected) call_->rejected = "";
  }
  absl::string_view hello() const override { return call_->hello; }
  std::string peer() const override { return "fake"; }
  const PeerCredentials* credentials() const override {
    return call_->credentials.has_value() ? &*call_->credentials : nullptr;
  }
  void WithholdReads() override { call_->withheld = true; }
  void Prepare() override { call_->prepared = true; }
  absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                     absl::Span<const uint32_t> rkeys) override;
  void Reject(absl::string_view reason) override { call_->rejected = std::string(reason); }

 private:
  FakeCall* const call_;
};

class FakeListener : public Listener {
 public:
  std::string address() const override { return "fake://"; }
  absl::StatusOr<RemoteRange> Offer(const SharedRange&, Access) override {
    return absl::UnimplementedError("not needed");
  }
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override { return absl::UnimplementedError("not needed"); }
  std::unique_ptr<ConnectionRequest> Next() override;
  int fd() const override { return -1; }
  absl::Status status() const override { return away; }
  void CleanUp() override { ++cleanings; }

  std::deque<FakeCall*> calls;
  int cleanings = 0;
  absl::Status away;  // not OK: the reason why no client can connect
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_FAKE_FAKE_TRANSPORT_H_
