// Effects on users when processes stop, die and return: a real kv_server and real clients.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "kv/layout/sanitized.h"
#include "rdma/test_address.h"
#include "tests/faults/load.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

constexpr int kKeys = 2000;

// Little memory, so that a server that registers it with a device starts sooner. Each length class of values has
// separate pages.
const std::vector<std::string> kFlags = {"--memory=64MiB", "--counter_memory=0"};

// The thread sanitizer's own thread may run in a server in addition.
#ifdef ABSL_HAVE_THREAD_SANITIZER
constexpr int64_t kOthersNs = 20'000'000;  // less than 100 ns for each of the reads
#else
constexpr int64_t kOthersNs = 0;
#endif

// Returns the number of repetitions: `count` over shared memory, a hundredth over RDMA.
int Times(int count) { return rdma::TestsUseRdma() ? count / 100 : count; }

std::string Key(int i) { return absl::StrCat("key", i); }

// Puts, in flight together. `values` may be fewer than the keys: the others are empty.
void PutMany(Client* client, const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  std::vector<std::string_view> views(values.begin(), values.end());
  views.resize(keys.size());
  std::vector<Result<uint64_t>> results;
  const absl::Status status = client->MultiPut(std::vector<std::string_view>(keys.begin(), keys.end()), views, &results,
                                               {.timeout_ms = 60'000});
  ASSERT_TRUE(status.ok()) << status;
}

void Fill(Client* client) {
  std::vector<std::string> keys, values;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back(Key(i));
    values.push_back(SelfVerifying(keys.back(), 0));
  }
  PutMany(client, keys, values);
}

// Puts keys that no test reads, so that the index grows.
void Grow(Client* client, int count) {
  static int next = 0;
  std::vector<std::string> keys;
  for (const int end = next + count; next < end; ++next) keys.push_back(absl::StrCat("more", next));
  PutMany(client, keys, {});
}

// Gets of the keys of Fill(), many at once. Each value must be the one that was put.
void ReadMany(Client* client, int64_t count) {
  constexpr size_t kBatch = 64;
  std::vector<std::string> keys, values;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back(Key(i));
    values.push_back(SelfVerifying(keys.back(), 0));
  }
  std::minstd_rand random(static_cast<uint32_t>(count));
  std::vector<Result<Value>> results;
  for (; count > 0; count -= kBatch) {
    size_t which[kBatch];
    std::string_view batch[kBatch];
    for (size_t i = 0; i < kBatch; ++i) {
      which[i] = random() % kKeys;
      batch[i] = keys[which[i]];
    }
    const absl::Status status = client->MultiGet(batch, &results, {.timeout_ms = 60'000});
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < kBatch; ++i) {
      ASSERT_TRUE(results[i].status.ok()) << results[i].status;
      ASSERT_EQ(results[i].value.data, values[which[i]]);
    }
  }
}

// The server's time when it sleeps, as it should after the last write.
int64_t CpuNsAsleep(const ServerProcess& server) {
  int64_t ns = server.CpuNs();
  for (int still = 0; still < 3;) {
    usleep(20'000);
    const int64_t now = server.CpuNs();
    still = now == ns ? still + 1 : 0;
    ns = now;
  }
  return ns;
}

TEST(FaultsTest, AStoppedServerStillAnswersEveryReadAndWritesEndInTime) {
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  Fill(client.get());
  server.Signal(SIGSTOP);
  const int64_t cpu_ns = CpuNsAsleep(server);  // a signal takes a moment, and the server's time
  for (int i = 0; i < kKeys; ++i) {
    auto got = client->Get(Key(i));
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(Verify(Key(i), got->data), 0);
  }
  ReadMany(client.get(), Repeat(rdma::TestsUseRdma() ? 10'000 : 300'000, 1'000'000));
  EXPECT_EQ(client->Get("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server.CpuNs(), cpu_ns) << "a read ran instructions of the server";
  const auto begun = steady_clock::now();
  EXPECT_EQ(client->Put("late", "value", {.timeout_ms = 200}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(client->stats().server_gets, 0u);
  // The client's knowledge of the server's clock lets a deadline be late by 2 ms for each second since its last answer.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  server.Signal(SIGCONT);
  // Expect: the write whose deadline passed is not done, and the client continues.
  auto put = client->Put("after", "value", {.timeout_ms = 30000});
  ASSERT_TRUE(put.ok()) << put.status();
  auto late = client->Get("late");
  EXPECT_EQ(late.status().code(), absl::StatusCode::kNotFound) << late.status();
  EXPECT_EQ(ServerStat(client.get(), "puts"), kKeys + 1);
}

// The deadline of a long Put passes while the server pulls its value, or before; then a short Put of the same key
// follows. The short one stays, however late the server executes the long one.
TEST(FaultsTest, ALongPutThatEndedByItsDeadlineNeverReplacesALaterOne) {
  const std::string value(8 << 20, 'v');
  ServerProcess server({"--memory=128MiB", "--counter_memory=0"});
  auto client = MustConnect(server.address());
  ASSERT_TRUE(client->Put("fence", value, {.timeout_ms = 60'000}).ok());
  const int rounds = rdma::TestsUseRdma() ? 3 : 12;
  for (int i = 0; i < rounds; ++i) {
    const bool stopped = i % 3 == 0;
    if (stopped) server.Signal(SIGSTOP);
    const absl::Status late = client->Put(Key(i), value, {.timeout_ms = stopped ? 20 : 1 + i % 5}).status();
    if (stopped) {
      EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
      server.Signal(SIGCONT);
    } else {
      EXPECT_TRUE(late.ok() || late.code() == absl::StatusCode::kDeadlineExceeded) << late;
    }
    auto put = client->Put(Key(i), "later", {.timeout_ms = 60'000});
    ASSERT_TRUE(put.ok()) << put.status();
  }
  // Expect: when the server has pulled another value, it has finished with the earlier ones.
  ASSERT_TRUE(client->Put("fence", value, {.timeout_ms = 60'000}).ok());
  for (int i = 0; i < rounds; ++i) {
    auto got = client->Get(Key(i));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->data == "later") << "round " << i << ": " << got->data.size() << " bytes";
  }
}

TEST(FaultsTest, ReadsTakeNoTimeOfTheServer) {
  // On RDMA the server would probe now and then whether its client is still there.
  ServerProcess server({"--memory=64MiB", "--counter_memory=0", "--liveness=1h"});
  auto client = MustConnect(server.address());
  Fill(client.get());
  // A client that polls its answers acknowledges them to the server now and then; the first read does that.
  ASSERT_TRUE(client->Get(Key(0)).ok());
  const int64_t cpu_ns = CpuNsAsleep(server);
  ReadMany(client.get(), Repeat(rdma::TestsUseRdma() ? 10'000 : 300'000, 1'000'000));
  EXPECT_LE(server.CpuNs() - cpu_ns, kOthersNs);
}

TEST(FaultsTest, AKilledServerIsUnavailableAtOnceAndItsSuccessorIsANewIncarnation) {
  ServerProcess server(kFlags);
  ClientOptions options;
  options.timeout_ms = 60'000;  // so that "at once" is told from a timeout
  auto client = MustConnect(server.address(), options);
  Fill(client.get());
  const uint64_t incarnation = client->incarnation();
  server.Signal(SIGKILL);
  ASSERT_EQ(server.Wait(), 128 + SIGKILL);
  const auto begun = steady_clock::now();
  EXPECT_EQ(client->Get(Key(1)).status().code(), absl::StatusCode::kUnavailable) << "its memory can still be read";
  EXPECT_EQ(client->Put(Key(1), "v").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(20));

  server.Restart();
  // Expect: the client finds the new server automatically, and reports that it is another.
  absl::Status status;
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  do {
    status = client->Put("new", "value").status();
  } while (!status.ok() && steady_clock::now() < end);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(client->stats().incarnation_changes, 1u);
  EXPECT_NE(client->incarnation(), incarnation);
  EXPECT_EQ(client->Get(Key(1)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client->Get("new")->data, "value");
}

// The same with gets, puts, inserts and deletes in flight, more than once. Acknowledged writes of an incarnation are
// there as long as it lives; none of them appears in the next.
TEST(FaultsTest, AServerIsKilledInTheMiddleOfLoadAndWhatItsSuccessorAcknowledgesIsThere) {
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  Load load(client.get(), "load", /*timeout_ms=*/30'000);
  constexpr uint64_t kTimes = 2;
  for (uint64_t time = 1; time <= kTimes; ++time) {
    enum { kWorking, kKilled, kBack } phase = kWorking;
    const uint64_t ok_before = load.ended(absl::StatusCode::kOk);
    uint64_t refused_before = 0, ok_when_back = 0;
    const auto end = steady_clock::now() + std::chrono::seconds(120);
    load.Run([&] {
      const uint64_t ok = load.ended(absl::StatusCode::kOk), refused = load.ended(absl::StatusCode::kUnavailable);
      if (phase == kWorking && ok > ok_before + 200) {
        server.Signal(SIGKILL);
        server.Wait();
        refused_before = refused;
        phase = kKilled;
      } else if (phase == kKilled && refused > refused_before + 20) {
        server.Restart();
        ok_when_back = ok;
        phase = kBack;
      }
      return (phase != kBack || ok < ok_when_back + 200) && steady_clock::now() < end;
    });
    ASSERT_EQ(phase, kBack);
    EXPECT_GE(load.ended(absl::StatusCode::kOk), ok_when_back + 200);
    EXPECT_EQ(client->stats().incarnation_changes, time);
    load.Check(client.get());
  }
}

// Clients that are killed in the middle of writes, many times: the server continues, and their resources are freed.
TEST(FaultsTest, KilledClientsLeaveNothingBehind) {
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  std::mt19937_64 random(17);
  for (int round = 0; round < (rdma::TestsUseRdma() ? 6 : 15); ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto own = MustConnect(server.address());
      const std::string large(300'000, 'l');  // these are pulled
      for (uint64_t i = 0;; ++i) {
        const bool pulled = i % 7 == 3;
        if (!own->Put(absl::StrCat("child", i % 50), pulled ? large : SelfVerifying("child", i)).ok()) _exit(2);
        if (i == 20 && write(ready[1], "x", 1) != 1) _exit(3);
      }
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    usleep(static_cast<useconds_t>(random() % 3000));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
    close(ready[1]);
  }
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  while (ServerStat(client.get(), "connections") != 1 && steady_clock::now() < end) usleep(1000);
  EXPECT_EQ(ServerStat(client.get(), "connections"), 1);
  for (int i = 0; i < 50; ++i) {
    const absl::Status status = client->Delete(absl::StrCat("child", i));
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  EXPECT_EQ(ServerStat(client.get(), "keys"), 0);
  EXPECT_EQ(ServerStat(client.get(), "value_bytes"), 0);
}

// Readers in other processes, while a writer grows the table, deletes, and reuses memory.
TEST(FaultsTest, ReadersInOtherProcessesSeeOnlyWhatWasWritten) {
  ServerProcess server(kFlags);
  std::vector<pid_t> readers(rdma::TestsUseRdma() ? 1 : 2);  // a guest has two processors in all
  int stop[2];
  ASSERT_EQ(pipe(stop), 0);
  auto client = MustConnect(server.address());
  Fill(client.get());
  // The first segment splits at some 20,000 keys; after that, one more with each twelfth of them.
  while (ServerStat(client.get(), "splits") == 0) Grow(client.get(), 1000);
  for (pid_t& reader : readers) {
    reader = fork();
    if (reader != 0) continue;
    close(stop[1]);
    auto own = MustConnect(server.address());
    std::mt19937_64 random(static_cast<uint64_t>(getpid()));
    std::map<int, int64_t> seen;  // no reader goes back in time
    Value value;
    uint64_t found = 0;
    for (;;) {
      const int i = static_cast<int>(random() % (2 * kKeys));
      const absl::Status status = own->Get(Key(i), &value, {.timeout_ms = 20'000});
      if (absl::IsNotFound(status)) {
        if (i < kKeys / 2) _exit(2);  // these are never deleted
      } else if (!status.ok()) {
        _exit(3);
      } else {
        const int64_t sequence = Verify(Key(i), value.data);
        if (sequence < 0) _exit(4);
        if (sequence < seen[i]) _exit(5);
        seen[i] = sequence;
        ++found;
      }
      if (random() % 256 == 0) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(stop[0], &set);
        timeval none = {0, 0};
        if (select(stop[0] + 1, &set, nullptr, nullptr, &none) > 0) _exit(found > 0 ? 0 : 6);
      }
    }
  }
  std::mt19937_64 random(99);
  const auto writes = static_cast<uint64_t>(Times(kv::kSanitized ? 15'000 : 60'000));
  const int64_t splits = ServerStat(client.get(), "splits");
  for (uint64_t sequence = 1; sequence <= writes; ++sequence) {
    const int i = static_cast<int>(random() % (2 * kKeys));
    if (i >= kKeys / 2 && random() % 3 == 0) {
      const absl::Status status = client->Delete(Key(i), {.timeout_ms = 20'000});
      ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    } else {
      const absl::StatusOr<uint64_t> put = client->Put(Key(i), SelfVerifying(Key(i), sequence), {.timeout_ms = 20'000});
      ASSERT_TRUE(put.ok()) << put.status();
    }
    if (sequence % (writes / 20) == 0) Grow(client.get(), 400);
  }
  // The number of keys for three splits depends on the hashes, and the server's seed differs with each run.
  while (ServerStat(client.get(), "splits") - splits < 3) Grow(client.get(), 400);
  close(stop[1]);
  for (const pid_t reader : readers) {
    int status = 0;
    ASSERT_EQ(waitpid(reader, &status, 0), reader);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "reader's code " << WEXITSTATUS(status);
  }
  close(stop[0]);
}

TEST(FaultsTest, AFullServerSaysSoAndLosesNothing) {
  ServerProcess server({"--memory=32MiB", "--counter_memory=0"});
  auto client = MustConnect(server.address());
  // Most of it goes to a few long values: small ones, one after the other, would take minutes where verbs are emulated.
  const std::string filler(256 << 10, 'f');
  for (int i = 0; client->Put(absl::StrCat("filler", i), filler).ok(); ++i) {
  }
  int n = 0;
  absl::Status status;
  for (; status.ok(); ++n) status = client->Put(Key(n), SelfVerifying(Key(n), 1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  for (int i = 0; i < n - 1; ++i) {
    auto got = client->Get(Key(i));
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(Verify(Key(i), got->data), 1);
  }
}

TEST(FaultsTest, AskedToEndTheServerDoesAndItsClientsSeeIt) {
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  Fill(client.get());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_EQ(client->Get(Key(1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Client::Connect(server.address()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farlook
