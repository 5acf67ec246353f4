// A MiniServer behind the fake transport, for tests of the client: it carries out what the client posts, and the test
// decides what is slow, lost or refused.
#ifndef FARLOOK_CLIENT_FAKE_NETWORK_H_
#define FARLOOK_CLIENT_FAKE_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/mini_server.h"
#include "rdma/fake/fake_transport.h"
#include "rdma/transport.h"

namespace farlook::client {

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
  size_t send_room = SIZE_MAX;         // PostSend fails when it is 0
  size_t read_room = SIZE_MAX;         // PostRead fails when it is 0
  bool maps = true;                    // the region, where the server is on this host
  std::function<void()> when_asked;    // whether the server is alive
  std::function<void()> when_dialled;  // before the server answers

  void ReleaseReads(bool newest_first = false);
  // Lets the server answer the held messages at these places (0 is the oldest), in this order; all, when empty.
  void ReleaseRequests(std::vector<size_t> which = {});
  uint32_t looks() const { return peers_.back().looks; }  // that the last READ at once was allowed
  size_t held_requests() const { return held_requests_.size(); }
  size_t held_reads() const { return peers_.empty() ? 0 : peers_.back().reads.size(); }
  // Breaks the connection: what is held is flushed or lost.
  void Break();
  // As if the client's device had been taken away and were back: readable buffers have other keys.
  void ChangeKeys() { memory_.ChangeKeys(); }
  // No buffer of the client's can be longer.
  void set_most_buffer_bytes(size_t bytes) { memory_.most_bytes = bytes; }
  // The client gets these bytes as a message.
  void Inject(absl::string_view message) {
    if (connected()) peers_.back().Send(message);
  }

  // What happened.
  uint64_t connects = 0;
  uint64_t reads = 0;  // posted
  uint64_t rings = 0;
  uint64_t read_pieces = 0;
  uint64_t atomics = 0;
  std::vector<std::string> sent;  // every message posted but Hellos

 private:
  using Read = rdma::FakePeer::Read;

  std::unique_ptr<rdma::Connection> Connect(rdma::FakeEndpoint* endpoint, absl::string_view hello);
  bool connected() const { return !peers_.empty() && peers_.back().connection != nullptr; }
  char* Memory(uint64_t address, uint64_t bytes, uint32_t rkey) const;
  bool Permits(const Read& read, const rdma::Capabilities& granted);
  void Post(const std::string& message);
  void Rung();
  void Run(const Read& read);
  void Serve(const std::string& message);

  rdma::FakeMemory memory_;
  std::deque<rdma::FakePeer> peers_;  // of each connection that was made; the last is the one there is
  uint64_t session_ = 0;
  std::vector<std::string> held_requests_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_FAKE_NETWORK_H_
