// A transport in memory, for tests of the client: one thread, virtual time, and a test that decides what is slow, lost
// or refused. Behind it stands a MiniServer.
//
// Strict where it matters: READs may only land in registered memory unless the capabilities say otherwise; a held READ
// writes when it is released, so memory that was given away too early shows as damage; messages are moved away at the
// next Poll, so that sanitizers see who kept them.
#ifndef FARLOOK_CLIENT_FAKE_TRANSPORT_H_
#define FARLOOK_CLIENT_FAKE_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/mini_server.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::client {

class FakeClock final : public rdma::Clock {
 public:
  int64_t NowNs() const override {
    ++readings;
    return now_ns;
  }
  void AdvanceMs(int64_t ms) { now_ns += ms * 1'000'000; }
  int64_t now_ns = 1'000'000'000;
  mutable int64_t readings = 0;
};

class FakeBuffer;
class FakeConnection;

// What the test decides, and sees. Outlives the endpoints.
class FakeNetwork {
 public:
  FakeNetwork();

  std::unique_ptr<rdma::Endpoint> CreateEndpoint();

  // The server behind the address; null: none, connecting is refused.
  MiniServer* server = nullptr;
  bool accepting = true;            // false: attempts get no answer
  absl::Status reject;              // not OK: the server's reason to refuse
  rdma::Capabilities capabilities;  // of connections to come
  uint32_t rkey = 7;                // of the table on connections to come
  // The cells of counters, where the server offers them.
  static constexpr uint64_t kCellsAddress = uint64_t{1} << 32;
  static constexpr uint32_t kCellsRkey = 9;
  bool hold_reads = false;     // READs run only by ReleaseReads()
  bool hold_requests = false;  // messages to the server wait for ReleaseRequests()
  bool lose_replies = false;   // the server does what it is asked, and nobody hears of it
  bool server_alive = true;
  size_t send_room = SIZE_MAX;  // PostSend fails when it is 0
  size_t read_room = SIZE_MAX;  // PostRead fails when it is 0
  size_t now_room = SIZE_MAX;   // ReadNow stops when it is 0
  std::function<void(uint64_t address, uint32_t bytes)> before_read_now;

  void ReleaseReads(bool newest_first = false);
  // Lets the server answer the held messages at these places (0 is the oldest), in this order; all, when empty.
  void ReleaseRequests(std::vector<size_t> which = {});
  size_t held_requests() const { return held_requests_.size(); }
  size_t held_reads() const { return held_reads_.size(); }
  // Breaks the connection: what is held is flushed or lost.
  void Break();
  // As if the client's device had been taken away and were back: readable buffers have other keys.
  void ChangeKeys();
  // The client gets these bytes as a message.
  void Inject(absl::string_view message);

  // What happened.
  uint64_t connects = 0;
  uint64_t reads = 0;  // posted
  uint64_t reads_now = 0;
  uint64_t rings = 0;
  uint64_t read_pieces = 0;
  uint64_t atomics = 0;
  std::vector<std::string> sent;  // every message posted but Hellos

 private:
  friend class FakeBuffer;
  friend class FakeConnection;
  friend class FakeEndpoint;
  struct HeldRead {
    uint64_t wr_id;
    std::vector<rdma::Sge> to;
    uint64_t address;
    rdma::Opcode opcode = rdma::Opcode::kRead;
    uint64_t operand = 0;  // of an atomic: delta or expected
    uint64_t desired = 0;
  };

  char* Memory(uint64_t address, uint64_t bytes, uint32_t rkey) const;
  bool Registered(const rdma::Sge& piece) const;
  void Run(const HeldRead& read);
  void Serve(const std::string& message);
  void Complete(rdma::Completion completion, std::string message = std::string());

  FakeConnection* connection_ = nullptr;
  uint64_t session_ = 0;
  std::map<const char*, size_t> registered_;      // local memory
  std::map<uint32_t, absl::Span<char>> offered_;  // of it, by rkey, what the server may READ
  std::vector<FakeBuffer*> readable_;
  uint32_t next_rkey_ = 100;
  std::vector<HeldRead> posted_reads_, held_reads_;
  std::vector<std::string> held_requests_;
  struct Event {
    rdma::Completion completion;
    std::string message;
  };
  std::deque<Event> events_;
  std::vector<std::unique_ptr<std::string>> delivered_;  // messages of the last Poll
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_FAKE_TRANSPORT_H_
