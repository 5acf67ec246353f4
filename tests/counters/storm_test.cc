// Counters over real processes: sums are exact, and no counter ever shows another's add, while cells go from counter to
// counter, and processes are stopped and killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/test_address.h"
#include "tests/counters/storm_run.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

// Returns whether clients change cells directly here: not where the device has no atomics.
bool CellsAreGranted() {
  const char* const device = std::getenv("FARLOOK_RDMA_DEVICE");
  return !rdma::TestsUseRdma() || device == nullptr || !absl::StartsWith(device, "siw");
}

// The cell that was freed last is reused first, so each of these deletes passes one to another counter.
StormRun::Work Enough() {
  return {static_cast<uint64_t>(Repeat(600, 200'000)), static_cast<uint64_t>(Repeat(40, 10'000))};
}

std::unique_ptr<Client> MustConnect(const ServerProcess& server, bool read_only = false) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  options.read_only = read_only;
  return farlook::MustConnect(server.address(), options);
}

TEST(StormTest, SumsAreExactWhileCellsGoFromCounterToCounter) {
  // With this patience no client is dropped: no outcome is unknown.
  ServerProcess server({"--memory=16MiB", "--counter_memory=4096", "--workers=2", "--counter_patience=30s"});
  StormRun storm;
  storm.Start(server.address(), /*processes=*/3);
  storm.Await(rdma::TestsUseRdma() ? Enough() : StormRun::Work{200'000, 600});
  EXPECT_TRUE(storm.Join());
  EXPECT_EQ(storm.board()->unknown, 0u);
  storm.ExpectExactSums(server.address());
  EXPECT_EQ(storm.board()->dead_cells > 0, CellsAreGranted()) << "adds that met a deleted counter";
  EXPECT_EQ(storm.board()->atomics > 0, CellsAreGranted());
}

TEST(StormTest, ProcessesAreKilledAndStoppedInTheMiddle) {
  ServerProcess server(
      {"--memory=16MiB", "--counter_memory=4096", "--workers=2", "--counter_patience=50ms", "--log_level=error"});
  StormRun storm;
  storm.Start(server.address(), /*processes=*/4);
  std::minstd_rand random(std::random_device{}());
  for (int i = 0; i < (rdma::TestsUseRdma() ? 6 : 12); ++i) {
    usleep(100'000 + static_cast<useconds_t>(random() % 100'000));
    if (random() % 2 == 0) {
      storm.Kill();
    } else {
      storm.StopFor(/*stop_ms=*/150);  // longer than the server's patience
    }
  }
  storm.Await(Enough());
  EXPECT_TRUE(storm.Join());
  storm.ExpectExactSums(server.address());
}

// Clients in separate processes, which add to the same counters with many adds in flight.
class Adders {
 public:
  static constexpr int kProcesses = 3, kKeys = 3, kInFlight = 16;

  // Each process adds `adds` times; `exactly_once` of its adds in flight are messages that bear a number.
  static void Run(const ServerProcess& server, Client* client, int64_t adds, int exactly_once) {
    for (int key = 0; key < kKeys; ++key) ASSERT_TRUE(client->CreateCounter(absl::StrCat("sum", key)).ok());
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      const pid_t pid = fork();
      if (pid == 0) _exit(Add(server, adds, exactly_once) ? 0 : 2);
      children.push_back(pid);
    }
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_EQ(status, 0);
    }
    int64_t sum = 0;
    for (int key = 0; key < kKeys; ++key) sum += client->ReadCounter(absl::StrCat("sum", key)).value_or(-1);
    EXPECT_EQ(sum, kProcesses * adds);
    std::printf("%ld adds, of which the server did %ld\n", sum, ServerStat(client, "requests_counter_add"));
  }

 private:
  static bool Add(const ServerProcess& server, int64_t adds, int exactly_once) {
    const auto adder = MustConnect(server);
    FetchAddOperation operations[kInFlight];
    int64_t started = 0, ended = 0;
    for (; started < kInFlight; ++started) {
      operations[started].set_key(absl::StrCat("sum", started % kKeys));
      operations[started].set_delta(1);
      operations[started].set_options({.exactly_once = started < exactly_once});
      adder->Start(&operations[started]);
    }
    while (ended < adds) {
      AsyncOperation* done[kInFlight];
      const size_t count = adder->Poll(done);
      for (size_t i = 0; i < count; ++i) {
        if (!done[i]->status().ok()) return false;
        ++ended;
        if (started < adds) {
          adder->Start(done[i]);
          ++started;
        }
      }
    }
    return true;
  }
};

TEST(CountersTest, MillionsOfAddsInFlightAreAllCounted) {
  const int64_t adds = Repeat(!rdma::TestsUseRdma() ? 400'000 : CellsAreGranted() ? 5000 : 500, 400'000);
  ServerProcess server({"--memory=16MiB", "--counter_memory=64KiB"});
  const auto client = MustConnect(server);
  Adders::Run(server, client.get(), adds, /*exactly_once=*/0);
  if (!CellsAreGranted()) {
    EXPECT_EQ(ServerStat(client.get(), "requests_counter_add"), Adders::kProcesses * adds);
    return;
  }
  // The server executed only the clients' first adds. That the others took none of its time is checked where time is
  // virtual (//tests/verbs:speed_test_rxe).
  EXPECT_LE(ServerStat(client.get(), "requests_counter_add"), Adders::kProcesses * Adders::kInFlight);
}

TEST(CountersTest, AddsOfClientsAndOfTheServerMeetInTheSameCells) {
  const int64_t adds = Repeat(rdma::TestsUseRdma() ? 300 : 20'000, 40'000);
  ServerProcess server({"--memory=16MiB", "--counter_memory=64KiB"});
  const auto client = MustConnect(server);
  Adders::Run(server, client.get(), adds, /*exactly_once=*/Adders::kInFlight / 2);
  // A message takes longer than an atomic, so that less than half are messages.
  EXPECT_GE(ServerStat(client.get(), "requests_counter_add"), Adders::kProcesses * Adders::kInFlight / 2);
}

TEST(CountersTest, AStoppedServerStillCounts) {
  ServerProcess server({"--memory=16MiB", "--counter_memory=64KiB"});
  const auto client = MustConnect(server);
  ASSERT_TRUE(client->CreateCounter("c", 5).ok());
  server.Signal(SIGSTOP);
  if (!CellsAreGranted()) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(client->FetchAdd("c", 1, {.timeout_ms = 100}).status()));
    server.Signal(SIGCONT);
    return;
  }
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client->FetchAdd("c", 1).value_or(-1), 5 + i);
  EXPECT_EQ(client->CompareSwap("c", 1005, 7).value_or(-1), 1005);
  EXPECT_EQ(client->ReadCounter("c").value_or(-1), 7);
  server.Signal(SIGCONT);
}

TEST(CountersTest, AnIdleClientKeepsNoCellAndIsNotHarmed) {
  // The patience that a busy client needs where the machine is emulated.
  const bool slow = rdma::TestsUseRdma();
  ServerProcess server(
      {"--memory=16MiB", "--counter_memory=4096", absl::StrCat("--counter_patience=", slow ? "1s" : "20ms")});
  const auto idle = MustConnect(server), busy = MustConnect(server);
  ASSERT_TRUE(idle->CreateCounter("mine", 1).ok());
  ASSERT_EQ(idle->FetchAdd("mine", 1).value_or(-1), 1);
  // Far more counters than cells, one after the other: each needs the cell of a former one.
  for (int i = 0; i < (slow ? 100 : 300); ++i) {
    const std::string key = absl::StrCat("c", i);
    absl::Status created;
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    do {
      created = busy->CreateCounter(key, i);
    } while (absl::IsResourceExhausted(created) && steady_clock::now() < end);
    ASSERT_TRUE(created.ok()) << created;
    ASSERT_EQ(busy->FetchAdd(key, 1).value_or(-1), i);
    ASSERT_TRUE(busy->DeleteCounter(key).ok());
    ASSERT_TRUE(absl::IsNotFound(busy->FetchAdd(key, 1).status()));
  }
  EXPECT_GE(ServerStat(busy.get(), "impatient_drops"), 1);
  // Expect: the idle client detects the loss and continues, without unknown outcomes.
  const auto after = idle->FetchAdd("mine", 1);
  EXPECT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after.value_or(-1), 2);
  EXPECT_EQ(idle->FetchAdd("mine", 1).value_or(-1), 3);
}

// All cells are taken, so that a cell reused too early would go to another counter, which would show the holder's add.
TEST(CountersTest, ACellIsNobodysUntilEachHolderHasAcknowledged) {
  ServerProcess server({"--memory=16MiB", "--counter_memory=4096", "--counter_patience=10m"});
  const auto holder = MustConnect(server), other = MustConnect(server);
  ASSERT_TRUE(holder->CreateCounter("mine", 1).ok());
  ASSERT_EQ(holder->FetchAdd("mine", 1).value_or(-1), 1);
  const auto free = static_cast<size_t>(ServerStat(other.get(), "counter_cells_free"));
  std::vector<std::string> names;
  for (size_t i = 0; i <= free; ++i) names.push_back(absl::StrCat("c", i));
  for (size_t i = 0; i < free; ++i) {
    const absl::Status created = other->CreateCounter(names[i], 1000);
    ASSERT_TRUE(created.ok()) << created;
  }

  // Expect: while the holder does not poll, no other counter gets its cell.
  ASSERT_TRUE(other->DeleteCounter("mine").ok());
  for (int i = 0; i < 20; ++i) {
    const absl::Status early = other->CreateCounter(names[free], 1000);
    ASSERT_TRUE(absl::IsResourceExhausted(early)) << early;
  }
  // Expect: when it continues, it finds no counter, and changes none.
  EXPECT_TRUE(absl::IsNotFound(holder->FetchAdd("mine", 1).status()));
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  absl::Status late;
  do {
    holder->Ping().IgnoreError();  // it polls, and acknowledges
    late = other->CreateCounter(names[free], 1000);
  } while (absl::IsResourceExhausted(late) && steady_clock::now() < end);
  EXPECT_TRUE(late.ok()) << late;
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Result<int64_t>> results;
  ASSERT_TRUE(other->MultiReadCounter(keys, &results).ok());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].value, 1000) << names[i];
}

TEST(CountersTest, AllAtOnceAndBothKinds) {
  ServerProcess server({"--memory=16MiB", "--counter_memory=64KiB"});
  const auto client = MustConnect(server);
  const int count = rdma::TestsUseRdma() ? 100 : 500;
  std::vector<std::string> names;
  std::vector<std::string_view> keys;
  std::vector<int64_t> deltas;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("many", i));
  for (int i = 0; i < count; ++i) {
    keys.push_back(names[static_cast<size_t>(i)]);
    deltas.push_back(i);
  }
  std::deque<CreateCounterOperation> creates;
  for (const std::string& name : names) {
    client->Start(&creates.emplace_back(name, 1000), [](AsyncOperation* create) {
      EXPECT_TRUE(create->status().ok()) << create->key() << ": " << create->status();
    });
  }
  while (client->in_flight() > 0) client->Wait({});
  std::vector<Result<int64_t>> results;
  for (const bool exactly_once : {false, true}) {
    ASSERT_TRUE(client->MultiFetchAdd(keys, deltas, &results, {.exactly_once = exactly_once}).ok());
    for (int i = 0; i < count; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].value, 1000 + (exactly_once ? i : 0));
  }
  ASSERT_TRUE(client->MultiReadCounter(keys, &results).ok());
  for (int i = 0; i < count; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].value, 1000 + 2 * i);
  ASSERT_TRUE(client->Put("value", "text").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(client->Get("many1").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client->FetchAdd("value", 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client->Put("many1", "text").status()));
  const auto reader = MustConnect(server, /*read_only=*/true);
  EXPECT_EQ(reader->ReadCounter("many1").value_or(-1), 1002);
  EXPECT_TRUE(absl::IsPermissionDenied(reader->FetchAdd("many1", 1).status()));
}

}  // namespace
}  // namespace farlook
