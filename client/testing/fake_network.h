// A MiniServer behind the fake transport, for tests of the client. It executes what the client posts; the test decides
// what is slow, lost or refused.
#ifndef FARLOOK_CLIENT_TESTING_FAKE_NETWORK_H_
#define FARLOOK_CLIENT_TESTING_FAKE_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/testing/mini_server.h"
#include "rdma/fake/fake_transport.h"
#include "rdma/transport.h"

namespace farlook::client {

// The test's controls and observations. Outlives the endpoints.
class FakeNetwork {
 public:
  FakeNetwork();

  std::unique_ptr<rdma::Endpoint> CreateEndpoint();

  // The server at the address; null: none, connecting is refused.
  MiniServer* server = nullptr;
  bool accepting = true;  // false: attempts get no reply
  absl::Status reject;    // not OK: the server's reason to refuse
  // Addresses at which attempts get no reply before AnswerAt(), and those at which another server refuses.
  std::set<std::string> silent;
  std::map<std::string, absl::Status> rejects;
  rdma::Capabilities capabilities;  // of future connections
  uint32_t rkey = 7;                // of the table on future connections
  // The cells of counters, if the server offers them.
  static constexpr uint64_t kCellsAddress = uint64_t{1} << 32;
  static constexpr uint32_t kCellsRkey = 9;
  bool hold_reads = false;     // READs run only by ReleaseReads()
  bool hold_requests = false;  // messages to the server wait for ReleaseRequests()
  bool lose_replies = false;   // the server executes requests, but its replies are lost
  bool server_alive = true;
  size_t send_room = SIZE_MAX;         // PostSend fails when it is 0
  size_t read_room = SIZE_MAX;         // PostRead fails when it is 0
  bool maps = true;                    // maps the region, if the server is on this host
  std::function<void()> when_asked;    // called when the client checks whether the server is alive
  std::function<void()> when_dialled;  // called before the server answers

  void ReleaseReads(bool newest_first = false);
  // Lets the server answer the held messages at these indexes (0 is the oldest), in this order; all, if empty.
  void ReleaseRequests(std::vector<size_t> which = {});
  uint32_t looks() const { return present_->looks; }  // polls that the last READ at once was allowed
  size_t held_requests() const { return held_requests_.size(); }
  size_t held_reads() const { return present_ == nullptr ? 0 : present_->reads.size(); }
  // The server answers the attempt at this silent address.
  void AnswerAt(absl::string_view address);
  // Breaks the connection: held READs are flushed, held messages are lost.
  void Break();
  // Simulates removal and return of the client's device: readable buffers have other keys.
  void ChangeKeys() { memory_.ChangeKeys(); }
  // Limits the length of the client's buffers.
  void set_most_buffer_bytes(size_t bytes) { memory_.most_bytes = bytes; }
  // Delivers these bytes to the client as a message.
  void Inject(absl::string_view message) {
    if (connected()) present_->Send(message);
  }

  // Observations.
  uint64_t connects = 0;
  std::vector<std::string> dialled;  // the addresses
  size_t connections() const;        // that exist, connected or not
  uint64_t reads = 0;                // posted
  uint64_t rings = 0;
  uint64_t read_pieces = 0;
  uint64_t atomics = 0;
  std::vector<std::string> sent;  // every message posted except Hellos

 private:
  using Read = rdma::FakePeer::Read;

  std::unique_ptr<rdma::Connection> Connect(rdma::FakeEndpoint* endpoint, absl::string_view hello);
  void Answer(absl::string_view hello, rdma::FakePeer* peer);
  rdma::FakePeer& present() { return *present_; }
  bool connected() const { return present_ != nullptr && present_->connection != nullptr; }
  char* Memory(uint64_t address, uint64_t bytes, uint32_t rkey) const;
  bool Permits(const Read& read, const rdma::Capabilities& granted);
  void Post(const std::string& message);
  void Rung();
  void Run(const Read& read);
  void Serve(const std::string& message);

  rdma::FakeMemory memory_;
  // An attempt that has no reply yet.
  struct Waiting {
    std::string address, hello;
    rdma::FakePeer* peer;
  };

  std::deque<rdma::FakePeer> peers_;  // one for each connection
  rdma::FakePeer* present_ = nullptr;
  std::vector<Waiting> waiting_;
  uint64_t session_ = 0;
  std::vector<std::string> held_requests_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TESTING_FAKE_NETWORK_H_
