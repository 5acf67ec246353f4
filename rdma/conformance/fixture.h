// Tests of everything that a backend of rdma/transport.h must do.
//
// A backend's test binary links :suite and instantiates ConformanceTest with a Backend. It also links those of
// :real_time_suite, :atomic_suite, :loopback_suite and :local_suite whose subject the backend supports, and
// instantiates their classes (below). Single tests that a backend cannot pass are excluded by name (--gtest_filter) in
// its BUILD file, with the reason.
//
// The tests use only the public interface. They pump all endpoints from one thread, unless they are about threads; they
// never sleep before a check, but poll to a bound.
#ifndef FARLOOK_RDMA_CONFORMANCE_FIXTURE_H_
#define FARLOOK_RDMA_CONFORMANCE_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace farlook::rdma::conformance {

struct Backend {
  const char* name;
  std::function<std::string()> unused_address;  // an address where no server listens
  std::vector<std::string> foreign_addresses;   // addresses that it must refuse with INVALID_ARGUMENT
  bool names_refusals = true;  // a READ that the peer refuses ends with kRemoteAccess; false: with kFlushed

  bool reads_need_polls = false;  // a client's buffers can be READ only while it polls

  // Properties that the address does not determine.
  std::function<absl::StatusOr<std::unique_ptr<Listener>>(absl::string_view, const TransportOptions&)> listen =
      [](absl::string_view address, const TransportOptions& options) { return Listen(address, options); };
  std::function<absl::StatusOr<std::unique_ptr<Endpoint>>(absl::string_view, const TransportOptions&)> create_endpoint =
      [](absl::string_view address, const TransportOptions& options) { return CreateEndpoint(address, options); };
  const Clock* clock = &Clock::Real();
  std::function<void()> idle = {};  // called when there was nothing to poll; empty if other threads run
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// Everything here ends within this time, or the test fails.
inline constexpr int64_t kBoundMs = 20'000;

// A Completion whose message was copied.
struct Event {
  uint64_t wr_id;
  Connection* connection;
  Opcode opcode;
  WcStatus status;
  std::string message;
};

// An endpoint and the events that it reported.
class Queue {
 public:
  explicit Queue(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}

  Endpoint* operator->() const { return endpoint_.get(); }
  Endpoint* get() const { return endpoint_.get(); }
  std::deque<Event>& events() { return events_; }

  // One Poll of up to `most` completions.
  size_t Pump(size_t most = 64);

 private:
  std::unique_ptr<Endpoint> endpoint_;
  std::deque<Event> events_;
};

// The seed of this run: --gtest_random_seed, or a fixed one; printed with every failure.
uint64_t Seed();

// The 8-byte word at `offset` of the memory that the fixture's server offers.
uint64_t PatternWord(uint64_t offset);
std::string Pattern(uint64_t offset, size_t bytes);

class ConformanceTest : public testing::TestWithParam<Backend> {
 protected:
  static constexpr uint64_t kTableBytes = 256 * 1024;
  static constexpr uint64_t kCounterBytes = 4096;
  static constexpr int64_t kConnectTimeoutMs = 10'000;

  void SetUp() override;
  void TearDown() override;

  // Starts a server with a table full of PatternWord, a second range that clients are not granted, and counters.
  void StartServer();
  void StopServer();

  std::unique_ptr<Queue> NewClient();

  // Returns null, and records a failure, if there is none.
  std::unique_ptr<Buffer> NewBuffer(Queue* queue, size_t bytes, bool readable = false);

  // Client and server end of one connection.
  struct Pair {
    std::unique_ptr<Connection> client;
    std::unique_ptr<Connection> server;
  };
  Pair Connect(Queue* client, absl::string_view hello = "hello", absl::string_view welcome = "welcome");

  // A client and a connection that has already done a READ: a backend need not do the first READ at once.
  struct Reader {
    std::unique_ptr<Queue> client;
    Pair pair;
    std::unique_ptr<Buffer> buffer;
    char* to = nullptr;  // in the buffer, with at least 4096 bytes
  };
  Reader NewReader();

  // Returns the next client at the listener; `client` is pumped, as connecting may need its Poll().
  std::unique_ptr<ConnectionRequest> NextRequest(Queue* client);

  // Pumps the server's and the given queue until `done`, for at most kBoundMs. On a timeout it returns false and
  // records a failure.
  bool PumpUntil(Queue* client, const std::function<bool()>& done);

  // Returns the next event of `from` with that opcode; others stay. Records a failure if none arrives.
  Event Await(Queue* from, Opcode opcode, Queue* also_pumped = nullptr);

  // READs with one piece, rings, waits.
  WcStatus Read(Queue* queue, Connection* connection, char* to, uint32_t bytes, uint64_t address, uint32_t rkey);

  // The status of a READ that the peer refuses.
  WcStatus refused() const { return GetParam().names_refusals ? WcStatus::kRemoteAccess : WcStatus::kFlushed; }

  // Expect: `connection` reports only `unfinished_requests` failed requests, then kDisconnected, and after that
  // nothing.
  void ExpectEnd(Queue* queue, Connection* connection, size_t unfinished_requests);

  TransportOptions options_;    // of the server and of clients made from then on
  Queue* answering_ = nullptr;  // the last connected client, if its buffers can be READ only while it polls
  std::string address_;
  std::unique_ptr<SharedMemory> table_memory_;
  std::unique_ptr<SharedMemory> hidden_memory_;
  std::unique_ptr<SharedMemory> counter_memory_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Queue> server_;
  RemoteRange table_;
  RemoteRange hidden_;    // offered, but granted to no client
  RemoteRange counters_;  // kRemoteReadAtomic
  std::mt19937_64 random_{Seed()};
};

class RealTimeConformanceTest : public ConformanceTest {};  // descriptors to sleep on, and threads
class AtomicConformanceTest : public ConformanceTest {};    // Capabilities::atomics
class LoopbackConformanceTest : public ConformanceTest {};  // AtomicDomain::kDevice
class LocalConformanceTest : public ConformanceTest {};     // Capabilities::local

}  // namespace farlook::rdma::conformance

#endif  // FARLOOK_RDMA_CONFORMANCE_FIXTURE_H_
