// The link between a client and its server is cut, or goes down, for a while or for ever (tests/vm, --links=2).
//
// The server also listens on shared memory, for an observer that does not depend on the link.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/await.h"
#include "tests/faults/device.h"
#include "tests/faults/load.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

// See `link --help`.
void Link(const char* how) { ASSERT_EQ(system(absl::StrCat("link ", how).c_str()), 0); }

// siw connects within rdma_connect(), and blocks its caller for as long as TCP tries: two minutes, usually. Now 3 s.
void LetTcpGiveUpSoon() { std::ofstream("/proc/sys/net/ipv4/tcp_syn_retries") << 1; }

class LinkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string local = absl::StrCat("shm:///tmp/farlook_link_", getpid());
    server_ = new ServerProcess({"--memory=64MiB", "--counter_memory=0", "--listen=" + local});
    observer_ = MustConnect(local, /*timeout_ms=*/60'000).release();
  }
  static void TearDownTestSuite() {
    delete observer_;
    delete server_;
  }
  LinkTest() {
    EXPECT_TRUE(Await([] { return ServerStat(observer_, "connections") == 1; }));
    EXPECT_TRUE(Await([] { return DeviceObjectsOf(server_->pid()).queue_pairs == 0; }));
  }
  ~LinkTest() override { Link("up"); }

  static std::unique_ptr<Client> Connect(int64_t timeout_ms) { return MustConnect(server_->address(), timeout_ms); }

  static uint64_t FailuresWhen(const char* how, int64_t ms);
  static void ExpectNobodyNoticesACutOf(int64_t ms);

  static inline ServerProcess* server_ = nullptr;
  static inline Client* observer_ = nullptr;
};

// Works while the link is disturbed for `ms`, and until the client works again. Expect: all answers are correct.
// Returns how many operations failed.
uint64_t LinkTest::FailuresWhen(const char* how, int64_t ms) {
  static int number = 0;
  auto client = Connect(/*timeout_ms=*/180'000);
  Load load(client.get(), absl::StrCat(how, ++number), 180'000);
  std::atomic<bool> working{false}, mended{false}, noticed{true};
  std::thread disturber([&] {
    Await([&] { return working.load(); });
    // First only the answers are lost: writes that were done for the client and will be requested again.
    Link("mute");
    usleep(200'000);
    Link(how);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    // The server detects it within its --liveness, 3 s.
    if (ms >= 10'000) noticed = Await([] { return ServerStat(observer_, "connections") == 1; });
    Link("up");
    mended = true;
  });
  uint64_t before = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(200);
  load.Run([&] {
    working = load.ended() > 100;
    const uint64_t done = load.ended(absl::StatusCode::kOk);
    if (!mended || client->stats().reconnects == 0) before = done;
    return done < before + 100 && steady_clock::now() < end;
  });
  disturber.join();
  EXPECT_TRUE(noticed) << "the server did not notice that its client was gone";
  EXPECT_GE(client->stats().reconnects, 1u);
  const uint64_t done = load.ended(absl::StatusCode::kOk);
  EXPECT_GE(done, before + 100);
  load.Check(observer_);
  EXPECT_TRUE(Await([] { return ServerStat(observer_, "connections") == 2; }));
  return load.ended() - done;
}

// Operations whose deadline has not passed when the link is back end as if it had never failed. But if the server gives
// up a handshake without an answer just when the link is back, the client is notified of that, and its operations end
// with that error.
void LinkTest::ExpectNobodyNoticesACutOf(int64_t ms) {
  uint64_t failures = 0;
  for (int tries = 0; tries < 3; ++tries) {
    failures = FailuresWhen("cut", ms);
    if (failures == 0) return;
  }
  EXPECT_EQ(failures, 0u) << "for the third time";
}

TEST_F(LinkTest, CutForASecondItIsAsIfNothingHadBeen) { ExpectNobodyNoticesACutOf(1'000); }

TEST_F(LinkTest, CutForTenSecondsItIsAsIfNothingHadBeen) { ExpectNobodyNoticesACutOf(10'000); }

// The devices see their ports go down. Soft-RoCE recovers from that in hosts_test only: here the kernel repeats an
// answer that was lost (docs/rdma.md).
TEST_F(LinkTest, DownAndUpTheClientConnectsAgainAndNothingIsLost) {
  LetTcpGiveUpSoon();
  FailuresWhen("down", 300);  // some, where the client is notified that the server is unreachable
}

TEST_F(LinkTest, CutForEverBothSidesKnowAndNothingIsLeft) {
  LetTcpGiveUpSoon();
  auto client = Connect(/*timeout_ms=*/60'000);
  EXPECT_EQ(DeviceObjectsOf(server_->pid()).queue_pairs, 1);
  Load load(client.get(), "ever", 1'000);
  std::atomic<bool> working{false}, server_knows{false};
  std::thread disturber([&] {
    Await([&] { return working.load(); });
    Link("cut");
    server_knows = AwaitAndLog("the server", [&] { return ServerStat(observer_, "connections") == 1; });
  });
  uint64_t failed = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(200);
  load.Run([&] {
    working = load.ended() > 100;
    failed = load.ended() - load.ended(absl::StatusCode::kOk);
    return (!server_knows || failed < 100) && steady_clock::now() < end;
  });
  disturber.join();
  EXPECT_TRUE(server_knows);
  EXPECT_GE(failed, 100u);
  EXPECT_LT(load.longest_s(), 30) << "with time limits of 1 s";
  load.Check(observer_);
  EXPECT_TRUE(Await([] { return DeviceObjectsOf(server_->pid()).queue_pairs == 0; }));
  const auto begun = steady_clock::now();
  client.reset();
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(30));
  EXPECT_EQ(DeviceObjectsOf(getpid()).queue_pairs, 0);
  EXPECT_EQ(DeviceObjectsOf(getpid()).memory_regions, 0);
}

// Adds of one client over the link, 16 in flight: each is known to be done, or its outcome is unknown.
class AddsTest : public testing::Test {
 protected:
  static constexpr size_t kInFlight = 16;
  struct Tally {
    const char* key;
    int64_t done = 0;
    int64_t unknown = 0;
  };

  AddsTest() {
    EXPECT_TRUE(client_->CreateCounter(plain_.key).ok());
    EXPECT_TRUE(client_->CreateCounter(once_.key).ok());
    for (size_t i = 0; i < kInFlight; ++i) {
      Tally* const tally = i % 4 == 0 ? &once_ : &plain_;
      operations_[i].set_key(tally->key);
      operations_[i].set_delta(1);
      // The client continues to try those that are done once.
      operations_[i].set_options({.exactly_once = tally == &once_, .timeout_ms = tally == &once_ ? 2'000 : 60'000});
      operations_[i].set_tag(tally);
    }
  }
  ~AddsTest() override { Link("up"); }

  // Each add that ended is followed by another until `enough`; then waits until all have ended.
  void AddUntil(absl::FunctionRef<bool()> enough) {
    for (FetchAddOperation& operation : operations_) client_->Start(&operation);
    const auto end = steady_clock::now() + 2 * kBound;
    while (client_->in_flight() != 0) {
      AsyncOperation* ended[kInFlight];
      const size_t count = client_->Poll(ended);
      for (size_t i = 0; i < count; ++i) Count(*ended[i]);
      const bool again = !enough() && steady_clock::now() < end;
      for (size_t i = 0; i < count && again; ++i) client_->Start(ended[i]);
      if (count == 0) usleep(100);
    }
    EXPECT_LT(steady_clock::now(), end);
  }

  // Expect: an add's outcome is unknown now; then calls `mend`, and adds continue until `more` are done.
  void AddUntilUnknown(absl::FunctionRef<void()> mend, int64_t more) {
    const int64_t unknown = plain_.unknown;
    bool mended = false;
    int64_t enough = 0;
    AddUntil([&] {
      if (plain_.unknown == unknown) return false;
      if (!mended) {
        mend();
        enough = plain_.done + more;
        mended = true;
      }
      return plain_.done >= enough;
    });
    EXPECT_TRUE(mended) << "all outcomes are known";
    EXPECT_GE(plain_.done, enough);
  }

  void ExpectEachAddWasDoneOnceAtMost() {
    for (const Tally& tally : {plain_, once_}) {
      absl::StatusOr<int64_t> value;
      EXPECT_TRUE(Await([&] { return (value = observer_->ReadCounter(tally.key)).ok(); })) << value.status();
      EXPECT_GE(value.value_or(-1), tally.done) << tally.key << ": an add was lost";
      EXPECT_LE(value.value_or(-1), tally.done + tally.unknown) << tally.key << ": an add was done twice";
      // The first adds after the disturbance were done, and only their answers lost.
      if (tally.key == plain_.key) {
        EXPECT_GT(value.value_or(-1), tally.done) << "no answer was lost";
      }
      std::fprintf(stderr, "%s: %ld done, %ld unknown, of which %ld were done\n", tally.key, tally.done, tally.unknown,
                   value.value_or(-1) - tally.done);
    }
  }

  const std::string local_ = absl::StrCat("shm:///tmp/farlook_adds_", getpid());
  ServerProcess server_{{"--memory=16MiB", "--counter_memory=64KiB", "--listen=" + local_}};
  const std::unique_ptr<Client> observer_ = MustConnect(local_, /*timeout_ms=*/60'000);
  const std::unique_ptr<Client> client_ = MustConnect(server_.address(), /*timeout_ms=*/60'000);
  Tally plain_{"plain"}, once_{"once"};
  std::vector<FetchAddOperation> operations_ = std::vector<FetchAddOperation>(kInFlight);

 private:
  static void Count(const AsyncOperation& operation) {
    auto* const tally = static_cast<Tally*>(operation.tag());
    switch (operation.status().code()) {
      case absl::StatusCode::kOk:
        ++tally->done;
        return;
      case absl::StatusCode::kUnknown:
      case absl::StatusCode::kDeadlineExceeded:
        ++tally->unknown;
        return;
      default:
        // Not done, since the server is unreachable.
        EXPECT_TRUE(absl::IsUnavailable(operation.status())) << tally->key << ": " << operation.status();
        usleep(1'000);
    }
  }
};

// The last test: Soft-RoCE may connect nowhere after its port was down.
TEST_F(AddsTest, WhoseAnswersAreLostAreDoneOrUnknownAndNeverTwice) {
  AddUntil([&] { return plain_.done >= 100; });
  Link("mute");  // from here on adds are done, and the client gets no answers
  // Expect: on the next connection they are not done again.
  AddUntilUnknown(/*mend=*/[] { Link("up"); }, /*more=*/100);
  EXPECT_GE(client_->stats().unknown_atomics, 1u);
  EXPECT_GE(client_->stats().reconnects, 1u);
  ExpectEachAddWasDoneOnceAtMost();

  // Expect: the same when the port goes down.
  const int64_t before = plain_.unknown;
  Link("mute");
  std::thread cutter([] {
    usleep(100'000);
    Link("down");
  });
  AddUntilUnknown(/*mend=*/[] {}, /*more=*/0);
  EXPECT_GT(plain_.unknown, before);
  cutter.join();
  Link("up");
  ExpectEachAddWasDoneOnceAtMost();
}

}  // namespace
}  // namespace farlook
