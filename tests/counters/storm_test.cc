// Counters over real processes: sums are exact, and no counter ever shows another's add, while cells go from counter to
// counter, and processes are stopped and killed.
#include "tests/counters/storm.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

constexpr int kThreads = 2;  // of each process

class StormTest : public testing::Test {
 protected:
  StormTest() {
    void* memory =
        mmap(nullptr, sizeof(StormBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    board_ = static_cast<StormBoard*>(memory);
    board_->creations = kStormKeys;
    seed_ = std::random_device()();
  }
  ~StormTest() override { munmap(board_, sizeof(StormBoard)); }

  pid_t StartProcess(const std::string& address) {
    const uint32_t seed = seed_ += 1000;
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { RunStormClient(board_, address, seed + i); });
    }
    for (std::thread& thread : threads) thread.join();
    _exit(0);
  }

  void JoinAll(const std::vector<pid_t>& children) {
    board_->stop = true;
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_EQ(status, 0);
    }
  }

  // Deletes what is left, and compares what was added with what the counters held.
  void ExpectExactSums(const std::string& address, uint64_t slack) {
    ClientOptions options;
    options.timeout_ms = 60'000;
    auto client = Client::Connect(address, options);
    ASSERT_TRUE(client.ok()) << client.status();
    for (int key = 0; key < kStormKeys; ++key) {
      Operation operation;
      const std::string name = absl::StrCat("storm", key);
      operation.type = Operation::Type::kDeleteCounter;
      operation.key = name;
      (*client)->RunAll(absl::MakeSpan(&operation, 1));
      if (!operation.status.ok()) continue;
      const uint32_t creation = CheckStormValue(board_, key, operation.counter, "the end found");
      board_->final[creation] =
          1 + static_cast<uint32_t>(operation.counter >> (key * kStormFieldBits) & ((1 << kStormFieldBits) - 1));
    }
    uint64_t missing = 0, unseen = 0;
    const uint32_t creations = std::min<uint32_t>(board_->creations, kStormCreations);
    for (uint32_t i = kStormKeys; i < creations + kStormKeys && i < kStormCreations; ++i) {
      const uint32_t done = board_->done[i], held = board_->final[i];
      if (held == 0) {
        unseen += done != 0 ? 1 : 0;
        continue;
      }
      ASSERT_GE(held - 1 + 0u, done) << "creation " << i << ": an add succeeded after the delete, or was lost";
      missing += held - 1 - done;
    }
    EXPECT_LE(missing, slack) << "adds that nobody made";
    EXPECT_LE(unseen, slack) << "counters that vanished";
    EXPECT_EQ(board_->violations, 0u) << board_->first_violation << " (seed " << seed_ << ")";
    // Expect: every cell comes back.
    const auto end = steady_clock::now() + std::chrono::seconds(30);
    const int64_t cells = ServerStat(client->get(), "counter_cells");
    while (ServerStat(client->get(), "counter_cells_free") < cells && steady_clock::now() < end) {
      (*client)->Ping().IgnoreError();
      usleep(10'000);
    }
    EXPECT_EQ(ServerStat(client->get(), "counter_cells_free"), cells);
    std::printf("%lu adds, %lu deletes, %lu dead cells met, %lu unknown, %ld impatient drops\n", board_->adds.load(),
                board_->deletes.load(), board_->dead_cells.load(), board_->unknown.load(),
                ServerStat(client->get(), "impatient_drops"));
    EXPECT_GT(board_->adds, 1000u);
    EXPECT_GT(board_->deletes, 10u);
  }

  StormBoard* board_;
  uint32_t seed_;
};

TEST_F(StormTest, SumsAreExactWhileCellsGoFromCounterToCounter) {
  ServerProcess server({"--memory=16MiB", "--counter_memory=4096", "--workers=2"});
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(StartProcess(server.address()));
  std::this_thread::sleep_for(std::chrono::seconds(4));
  JoinAll(children);
  EXPECT_EQ(board_->unknown, 0u);
  ExpectExactSums(server.address(), /*slack=*/0);
  EXPECT_GT(board_->dead_cells, 0u) << "no add ever met a deleted counter";
}

TEST_F(StormTest, ProcessesAreKilledAndStoppedInTheMiddle) {
  ServerProcess server(
      {"--memory=16MiB", "--counter_memory=4096", "--workers=2", "--counter_patience=50ms", "--log_level=error"});
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) children.push_back(StartProcess(server.address()));
  std::minstd_rand random(seed_);
  uint64_t disturbed = 0;
  for (int i = 0; i < 12; ++i) {
    usleep(100'000 + static_cast<useconds_t>(random() % 100'000));
    pid_t& child = children[random() % children.size()];
    disturbed += kThreads;
    if (random() % 2 == 0) {
      kill(child, SIGKILL);
      ASSERT_EQ(waitpid(child, nullptr, 0), child);
      child = StartProcess(server.address());
    } else {
      kill(child, SIGSTOP);
      usleep(150'000);  // longer than the server's patience
      kill(child, SIGCONT);
    }
  }
  JoinAll(children);
  // A thread that was killed had at most one operation under way.
  ExpectExactSums(server.address(), /*slack=*/disturbed + board_->unknown);
}

TEST(CountersTest, MillionsOfAddsInFlightAreAllCounted) {
  constexpr int kProcesses = 3, kKeys = 3, kInFlight = 16;
  constexpr int64_t kAdds = 400'000;  // of each process
  ServerProcess server({"--memory=16MiB"});
  auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  for (int key = 0; key < kKeys; ++key) ASSERT_TRUE((*client)->CreateCounter(absl::StrCat("sum", key)).ok());
  const int64_t cpu_ns = server.CpuNs();
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = fork();
    children.push_back(pid);
    if (pid != 0) continue;
    auto adder = Client::Connect(server.address());
    if (!adder.ok()) _exit(1);
    std::string keys[kInFlight];
    Operation operations[kInFlight];
    int64_t started = 0, ended = 0;
    for (; started < kInFlight; ++started) {
      keys[started] = absl::StrCat("sum", started % kKeys);
      operations[started].type = Operation::Type::kFetchAdd;
      operations[started].key = keys[started];
      operations[started].operand = 1;
      operations[started].timeout_ms = 60'000;
      (*adder)->Start(&operations[started]);
    }
    while (ended < kAdds) {
      Operation* done[kInFlight];
      const size_t count = (*adder)->Poll(absl::MakeSpan(done));
      for (size_t j = 0; j < count; ++j) {
        if (!done[j]->status.ok()) _exit(2);
        ++ended;
        if (started < kAdds) {
          (*adder)->Start(done[j]);
          ++started;
        }
      }
    }
    _exit(0);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  int64_t sum = 0;
  for (int key = 0; key < kKeys; ++key) sum += (*client)->ReadCounter(absl::StrCat("sum", key)).value_or(-1);
  EXPECT_EQ(sum, kProcesses * kAdds);
  // The clients' first adds and handshakes are all that the server did.
  EXPECT_EQ(ServerStat(client->get(), "requests_counter_add"), kProcesses * kInFlight);
  EXPECT_LT(server.CpuNs() - cpu_ns, 500'000'000);
}

TEST(CountersTest, AStoppedServerStillCounts) {
  ServerProcess server({"--memory=16MiB"});
  auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->CreateCounter("c", 5).ok());
  server.Signal(SIGSTOP);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ((*client)->FetchAdd("c", 1).value_or(-1), 5 + i);
  EXPECT_EQ((*client)->CompareSwap("c", 1005, 7).value_or(-1), 1005);
  EXPECT_EQ((*client)->ReadCounter("c").value_or(-1), 7);
  server.Signal(SIGCONT);
}

TEST(CountersTest, AnIdleClientKeepsNoCellAndIsNotHarmed) {
  ServerProcess server({"--memory=16MiB", "--counter_memory=4096", "--counter_patience=20ms"});
  auto idle = Client::Connect(server.address()), busy = Client::Connect(server.address());
  ASSERT_TRUE(idle.ok() && busy.ok());
  ASSERT_TRUE((*idle)->CreateCounter("mine", 1).ok());
  ASSERT_EQ((*idle)->FetchAdd("mine", 1).value_or(-1), 1);
  // Far more counters than cells, one after the other: each needs the cell of one before.
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("c", i);
    absl::Status created;
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    do {
      created = (*busy)->CreateCounter(key, i);
    } while (absl::IsResourceExhausted(created) && steady_clock::now() < end);
    ASSERT_TRUE(created.ok()) << created;
    ASSERT_EQ((*busy)->FetchAdd(key, 1).value_or(-1), i);
    ASSERT_TRUE((*busy)->DeleteCounter(key).ok());
    ASSERT_TRUE(absl::IsNotFound((*busy)->FetchAdd(key, 1).status()));
  }
  EXPECT_GE(ServerStat(busy->get(), "impatient_drops"), 1);
  // Expect: the idle one finds out and goes on, without doubt about anything.
  EXPECT_EQ((*idle)->FetchAdd("mine", 1).value_or(-1), 2);
  EXPECT_EQ((*idle)->FetchAdd("mine", 1).value_or(-1), 3);
}

TEST(CountersTest, AllAtOnceAndBothKinds) {
  ServerProcess server({"--memory=16MiB"});
  auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok());
  std::vector<std::string> names;
  std::vector<absl::string_view> keys;
  std::vector<int64_t> deltas;
  for (int i = 0; i < 500; ++i) names.push_back(absl::StrCat("many", i));
  for (int i = 0; i < 500; ++i) {
    keys.push_back(names[static_cast<size_t>(i)]);
    deltas.push_back(i);
  }
  std::vector<Operation> creates(500);
  for (size_t i = 0; i < 500; ++i) {
    creates[i].type = Operation::Type::kCreateCounter;
    creates[i].key = keys[i];
    creates[i].operand = 1000;
  }
  (*client)->RunAll(absl::MakeSpan(creates));
  for (const Operation& create : creates) ASSERT_TRUE(create.status.ok()) << create.status;
  std::vector<Client::CounterResult> results;
  for (const bool exactly_once : {false, true}) {
    ASSERT_TRUE((*client)->MultiFetchAdd(keys, deltas, &results, {.exactly_once = exactly_once}).ok());
    for (int i = 0; i < 500; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].value, 1000 + (exactly_once ? i : 0));
  }
  ASSERT_TRUE((*client)->MultiReadCounter(keys, &results).ok());
  for (int i = 0; i < 500; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].value, 1000 + 2 * i);
  ASSERT_TRUE((*client)->Put("value", "text").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*client)->Get("many1").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition((*client)->FetchAdd("value", 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition((*client)->Put("many1", "text").status()));
  ClientOptions reader_options;
  reader_options.read_only = true;
  auto reader = Client::Connect(server.address(), reader_options);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->ReadCounter("many1").value_or(-1), 1002);
  EXPECT_TRUE(absl::IsPermissionDenied((*reader)->FetchAdd("many1", 1).status()));
}

}  // namespace
}  // namespace farlook
