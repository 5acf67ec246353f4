// What users meet when processes stop, die and come back: a real kv_server and real clients.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "rdma/test_address.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

constexpr int kKeys = 2000;

std::unique_ptr<Client> MustConnect(const ServerProcess& server, const ClientOptions& options = {}) {
  auto client = Client::Connect(server.address(), options);
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    std::abort();
  }
  return *std::move(client);
}

// How often to do what shared memory does so many times.
int Times(int count) { return rdma::TestsUseRdma() ? count / 15 : count; }

std::string Key(int i) { return absl::StrCat("key", i); }

// A value that tells whose it is, which one, and whether it is whole.
std::string SelfVerifying(absl::string_view key, uint64_t sequence) {
  std::minstd_rand random(static_cast<uint32_t>(std::hash<std::string>{}(std::string(key)) + sequence));
  std::string value = absl::StrCat(key, "/", sequence, "/");
  const size_t bytes = value.size() + random() % 600;
  while (value.size() < bytes) value.push_back(static_cast<char>(random()));
  return value;
}

// The sequence number of a value, or -1 if it is not one that was made for this key.
int64_t Verify(absl::string_view key, absl::string_view value) {
  const std::vector<absl::string_view> parts = absl::StrSplit(value, absl::MaxSplits('/', 2));
  uint64_t sequence = 0;
  if (parts.size() != 3 || parts[0] != key || !absl::SimpleAtoi(parts[1], &sequence)) return -1;
  return SelfVerifying(key, sequence) == value ? static_cast<int64_t>(sequence) : -1;
}

int64_t Stat(Client* client, absl::string_view name) {
  auto text = client->ServerStats();
  if (!text.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t value = 0;
    if (field.first == name && absl::SimpleAtoi(field.second, &value)) return value;
  }
  return -1;
}

void Fill(Client* client) {
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(client->Put(Key(i), SelfVerifying(Key(i), 0)).ok());
}

TEST(FaultsTest, AStoppedServerStillAnswersEveryReadAndWritesEndInTime) {
  ServerProcess server({"--memory=64MiB"});
  auto client = MustConnect(server);
  Fill(client.get());
  server.Signal(SIGSTOP);
  const uint64_t ticks = server.CpuTicks();
  for (int i = 0; i < kKeys; ++i) {
    auto got = client->Get(Key(i));
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(Verify(Key(i), got->data), 0);
  }
  EXPECT_EQ(client->Get("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server.CpuTicks(), ticks) << "a read ran instructions of the server";
  const auto begun = steady_clock::now();
  EXPECT_EQ(client->Put("late", "value", /*timeout_ms=*/200).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(client->stats().server_gets, 0u);
  server.Signal(SIGCONT);
  // Expect: the late write is done once, and the client goes on.
  auto put = client->Put("after", "value", /*timeout_ms=*/30000);
  ASSERT_TRUE(put.ok()) << put.status();
  auto late = client->Get("late");
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->data, "value");
  EXPECT_EQ(Stat(client.get(), "puts"), kKeys + 2);
}

TEST(FaultsTest, ReadsTakeNoTimeOfTheServer) {
  ServerProcess server({"--memory=64MiB"});
  auto client = MustConnect(server);
  Fill(client.get());
  // The server first has to fall asleep after the last write: its time stands still when it does.
  uint64_t ticks = server.CpuTicks();
  for (int still = 0; still < 3;) {
    usleep(20'000);
    const uint64_t now = server.CpuTicks();
    still = now == ticks ? still + 1 : 0;
    ticks = now;
  }
  const auto begun = steady_clock::now();
  std::string value;
  for (int i = 0; i < Times(300'000); ++i) ASSERT_TRUE(client->Get(Key(i % kKeys), &value).ok());
  // On RDMA the server looks now and then whether its client is still there, whatever that does.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begun).count();
  EXPECT_LE(server.CpuTicks(), ticks + (rdma::TestsUseRdma() ? 1 + static_cast<uint64_t>(seconds) : 0));
}

TEST(FaultsTest, AKilledServerIsUnavailableAtOnceAndItsSuccessorIsANewIncarnation) {
  ServerProcess server({"--memory=64MiB"});
  ClientOptions options;
  options.timeout_ms = 60'000;  // so that "at once" is told from a timeout
  auto client = MustConnect(server, options);
  Fill(client.get());
  const uint64_t incarnation = client->incarnation();
  server.Signal(SIGKILL);
  ASSERT_EQ(server.Wait(), 128 + SIGKILL);
  const auto begun = steady_clock::now();
  EXPECT_EQ(client->Get(Key(1)).status().code(), absl::StatusCode::kUnavailable) << "its memory can still be read";
  EXPECT_EQ(client->Put(Key(1), "v").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(20));

  server.Restart();
  // Expect: the client finds the new server by itself, and says that it is another.
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

// Clients that are killed in the middle of writes, many times: the server goes on, and what was theirs comes back.
TEST(FaultsTest, KilledClientsLeaveNothingBehind) {
  ServerProcess server({"--memory=128MiB"});
  auto client = MustConnect(server);
  std::mt19937_64 random(17);
  for (int round = 0; round < 15; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto own = Client::Connect(server.address());
      if (!own.ok()) _exit(1);
      const std::string large(300'000, 'l');  // these are pulled
      for (uint64_t i = 0;; ++i) {
        const bool pulled = i % 7 == 3;
        if (!(*own)->Put(absl::StrCat("child", i % 50), pulled ? large : SelfVerifying("child", i)).ok()) _exit(2);
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
  while (Stat(client.get(), "connections") != 1 && steady_clock::now() < end) usleep(1000);
  EXPECT_EQ(Stat(client.get(), "connections"), 1);
  for (int i = 0; i < 50; ++i) {
    const absl::Status status = client->Delete(absl::StrCat("child", i));
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  EXPECT_EQ(Stat(client.get(), "keys"), 0);
  EXPECT_EQ(Stat(client.get(), "value_bytes"), 0);
}

// Readers in other processes, while a writer grows the table, deletes, and reuses memory.
TEST(FaultsTest, ReadersInOtherProcessesSeeOnlyWhatWasWritten) {
  ServerProcess server({"--memory=64MiB"});
  constexpr int kReaders = 2;
  pid_t readers[kReaders];
  int stop[2];
  ASSERT_EQ(pipe(stop), 0);
  auto client = MustConnect(server);
  Fill(client.get());
  for (pid_t& reader : readers) {
    reader = fork();
    if (reader != 0) continue;
    close(stop[1]);
    auto own = Client::Connect(server.address());
    if (!own.ok()) _exit(1);
    std::mt19937_64 random(static_cast<uint64_t>(getpid()));
    std::map<int, int64_t> seen;  // no reader goes back in time
    std::string value;
    uint64_t found = 0;
    for (;;) {
      const int i = static_cast<int>(random() % (2 * kKeys));
      const absl::Status status = (*own)->Get(Key(i), &value, nullptr, 20'000);
      if (absl::IsNotFound(status)) {
        if (i < kKeys / 2) _exit(2);  // these are never deleted
      } else if (!status.ok()) {
        _exit(3);
      } else {
        const int64_t sequence = Verify(Key(i), value);
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
  const auto writes = static_cast<uint64_t>(Times(60'000));
  for (uint64_t sequence = 1; sequence < writes; ++sequence) {
    const int i = static_cast<int>(random() % (2 * kKeys));
    if (i >= kKeys / 2 && random() % 3 == 0) {
      const absl::Status status = client->Delete(Key(i), 20'000);
      ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    } else {
      const absl::StatusOr<uint64_t> put = client->Put(Key(i), SelfVerifying(Key(i), sequence), 20'000);
      ASSERT_TRUE(put.ok()) << put.status();
    }
    // New keys, so that the index splits while it is read.
    if (sequence % 2 == 0 || rdma::TestsUseRdma()) {
      ASSERT_TRUE(client->Put(absl::StrCat("more", sequence), "", 20'000).ok());
    }
  }
  close(stop[1]);
  for (const pid_t reader : readers) {
    int status = 0;
    ASSERT_EQ(waitpid(reader, &status, 0), reader);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "reader's code " << WEXITSTATUS(status);
  }
  EXPECT_GT(Stat(client.get(), "splits"), 2);
  close(stop[0]);
}

TEST(FaultsTest, AFullServerSaysSoAndLosesNothing) {
  ServerProcess server({"--memory=32MiB"});
  auto client = MustConnect(server);
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
  ServerProcess server({"--memory=64MiB"});
  auto client = MustConnect(server);
  Fill(client.get());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_EQ(client->Get(Key(1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Client::Connect(server.address()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farlook
