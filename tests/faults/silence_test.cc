// The time in which a side detects that the other fell silent (tests/vm, --links=2 --icount).
//
// On virtual time, which no other work on this machine can stretch: so here, and only here, bounds hold to the
// millisecond.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"
#include "tests/faults/await.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void Link(const char* how) { ASSERT_EQ(system(absl::StrCat("link ", how).c_str()), 0); }

// An idle client that no Client polls.
class IdleClient {
 public:
  IdleClient(const std::string& address, int64_t liveness_ms) {
    rdma::TransportOptions options;
    options.liveness_ms = liveness_ms;
    endpoint_ = *rdma::CreateEndpoint(address, options);
    connection_ = *endpoint_->Connect(address, kv::ConnectData().Encode(), /*timeout_ms=*/60'000);
  }
  bool alive() const { return connection_->alive(); }

  void Sleep() {
    rdma::Completion done[1];
    if (endpoint_->Poll(absl::MakeSpan(done)) == 1 && done[0].opcode == rdma::Opcode::kConnected) {
      if (connection_->PostSend(kv::Hello().Encode(), {})) connection_->Ring();
    }
    pollfd fd = {endpoint_->fd(), POLLIN, 0};
    if (endpoint_->Arm()) poll(&fd, 1, /*timeout_ms=*/20);
  }

 private:
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
};

struct Knew {
  int64_t client_ms = 0, server_ms = 0;
};

// The link is cut `phase_ms` after a connection existed for as long as both sides need to detect silence. Returns how
// long after the cut each side detected it.
Knew CutTheLink(const std::string& address, Client* observer, int64_t liveness_ms, int64_t phase_ms) {
  const auto others_gone = [&] { return ServerStat(observer, "connections") == 1; };
  EXPECT_TRUE(Await(others_gone));
  IdleClient client(address, liveness_ms);
  const auto sleep_until = [&](absl::FunctionRef<bool()> condition) {
    const auto end = steady_clock::now() + kBound;
    while (!condition() && steady_clock::now() < end) client.Sleep();
    EXPECT_TRUE(condition());
  };
  sleep_until([&] { return client.alive(); });
  // Expect: with the link up both probe, and neither takes the other for gone.
  const auto cut_at = steady_clock::now() + milliseconds(liveness_ms + phase_ms);
  sleep_until([&] { return steady_clock::now() >= cut_at; });
  EXPECT_TRUE(client.alive());
  EXPECT_EQ(ServerStat(observer, "connections"), 2);
  const auto begun = steady_clock::now();
  const auto passed_ms = [&] { return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begun).count(); };
  Knew knew;
  int64_t cut_ms = 0;
  std::thread cutter([&] {
    Link("cut");
    cut_ms = passed_ms();
  });
  std::thread server([&] {
    EXPECT_TRUE(Await(others_gone, /*every_us=*/2'000));
    knew.server_ms = passed_ms();
  });
  sleep_until([&] { return !client.alive(); });
  knew.client_ms = passed_ms();
  cutter.join();
  server.join();
  Link("up");
  knew.client_ms -= cut_ms;
  knew.server_ms -= cut_ms;
  return knew;
}

void ExpectBothKnowInTime(int64_t liveness_ms, std::initializer_list<int64_t> phases_ms) {
  const std::string local = absl::StrCat("shm:///tmp/farlook_silence_", getpid());
  const ServerProcess server({"--memory=64MiB", "--counter_memory=0", "--log_level=error", "--listen=" + local,
                              absl::StrCat("--liveness=", liveness_ms, "ms")});
  const std::unique_ptr<Client> observer = *Client::Connect(local);
  // While the guest waits for its disk virtual time jumps. So code that is about to run is read from there first.
  CutTheLink(server.address(), observer.get(), liveness_ms, 0);
  for (const int64_t phase_ms : phases_ms) {
    const Knew knew = CutTheLink(server.address(), observer.get(), liveness_ms, phase_ms);
    std::fprintf(stderr, "of %lld ms, cut %lld ms later: the client knew after %lld ms, the server after %lld ms\n",
                 static_cast<long long>(liveness_ms), static_cast<long long>(phase_ms),
                 static_cast<long long>(knew.client_ms), static_cast<long long>(knew.server_ms));
    EXPECT_LE(knew.client_ms, liveness_ms);
    EXPECT_LE(knew.server_ms, liveness_ms);
  }
}

// The kernel sends a request to connect again after 4.3 s, which is more than the operations have.
TEST(SilenceTest, AfterACutOfASecondTheClientIsBackWithinSeconds) {
  const ServerProcess server({"--memory=64MiB", "--counter_memory=0", "--log_level=error"});
  const std::unique_ptr<Client> client = MustConnect(server.address(), /*timeout_ms=*/4'000);
  ASSERT_TRUE(client->Put("key", "value").ok());
  const auto get_while_cut = [&] {
    Link("cut");
    std::thread mender([] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      Link("up");
    });
    const absl::Status status = client->Get("key").status();
    mender.join();
    return status;
  };
  get_while_cut().IgnoreError();  // code that is about to run is read from the disk
  ASSERT_TRUE(Await([&] { return client->Get("key").ok(); }));
  const uint64_t reconnects = client->stats().reconnects;
  EXPECT_TRUE(get_while_cut().ok());
  EXPECT_GT(client->stats().reconnects, reconnects);
}

// A tick is a third of the bound: the phases are spread over one tick.
TEST(SilenceTest, BothSidesOfAnIdleConnectionKnowWithinTheDefault) { ExpectBothKnowInTime(3000, {350, 950}); }

TEST(SilenceTest, BothSidesOfAnIdleConnectionKnowWithinWhatWasAskedFor) { ExpectBothKnowInTime(1200, {100}); }

}  // namespace
}  // namespace farlook
