// Two hosts (tests/vm, --hosts=2): one reads what the other changes, and either is lost, without notice.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/await.h"
#include "tests/faults/device.h"
#include "tests/faults/load.h"
#include "tests/faults/peer.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

// Each test has a separate port, so that leftovers on the other host do not affect the next test.
std::string Here(int port) { return absl::StrCat("rdma://", std::getenv("FARLOOK_RDMA_ADDRESS"), ":", port); }
std::string There(int port) { return absl::StrCat("rdma://", std::getenv("FARLOOK_RDMA_PEER_ADDRESS"), ":", port); }
constexpr int kChangesPort = 7471, kLostClientPort = 7472, kLostServerPort = 7473, kDownPort = 7474;
// The address of the server on the calling host.
std::string Shm(int port) { return absl::StrCat("shm:///tmp/farlook_hosts_", port); }

std::string self;  // this program

// Connects as soon as there is a server.
std::unique_ptr<Client> ConnectTo(const std::string& address, int64_t timeout_ms) {
  ClientOptions options;
  options.timeout_ms = timeout_ms;
  absl::StatusOr<std::unique_ptr<Client>> client = absl::UnavailableError("");
  Await([&] { return (client = Client::Connect(address, options)).ok(); });
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    std::abort();
  }
  return *std::move(client);
}

std::vector<std::string> ServerThere(int port) {
  return {"server/daemon/kv_server", "--listen=" + There(port), "--listen=" + Shm(port),
          "--memory=128MiB",         "--huge_pages=none",       "--counter_memory=0"};
}

// ---- One reads what the other changes ----

constexpr int kKept = 500;   // keys 0 .. kKept - 1 are never deleted
constexpr int kKeys = 2000;  // keys up to here are put and deleted
constexpr char kGo[] = "go", kStop[] = "stop";
constexpr char kSplit[] = "split";  // there is one since it began

std::string Key(int i) { return absl::StrCat("key", i); }

using Views = std::vector<std::string_view>;

constexpr int kMost = 200'000;  // keys beside those fit in the server's memory

// Puts `count` keys without a value after `first` others, so that the index grows. Beyond kMost the oldest are deleted.
bool Grow(Client* client, int first, int count) {
  std::vector<std::string> puts, deletes;
  for (int i = first; i < first + count; ++i) {
    puts.push_back(absl::StrCat("more", i));
    if (i >= kMost) deletes.push_back(absl::StrCat("more", i - kMost));
  }
  const Views put_keys(puts.begin(), puts.end()), delete_keys(deletes.begin(), deletes.end());
  std::vector<Result<uint64_t>> results;
  const auto was_done = [](const Result<uint64_t>& result) { return result.status.ok(); };
  if (!client->MultiDelete(delete_keys, &results).ok() || !std::all_of(results.begin(), results.end(), was_done)) {
    return false;
  }
  return client->MultiPut(put_keys, Views(puts.size()), &results).ok();
}

// The other host's part: puts, deletes, grows the table and reuses its memory until it is told to stop.
int Change() {
  auto client = ConnectTo(Shm(kChangesPort), 60'000);
  int grown = 0;
  // After the first segment splits, at some 20,000 keys, the next split follows soon.
  for (; ServerStat(client.get(), "splits") == 0; grown += 1000) {
    if (!Grow(client.get(), grown, 1000)) return 2;
  }
  const int64_t splits = ServerStat(client.get(), "splits");
  client = ConnectTo(Here(kChangesPort), 60'000);
  if (!client->Put(kGo, "").ok()) return 3;
  std::mt19937_64 random(7);
  int64_t more_splits = 0;
  uint64_t sequence = 1;
  constexpr size_t kWrites = 64;
  std::vector<std::string> puts, values, deletes;
  std::vector<Result<uint64_t>> results;
  while (absl::IsNotFound(client->Get(kStop).status())) {
    puts.clear();
    values.clear();
    deletes.clear();
    for (size_t i = 0; i < kWrites; ++i) {
      const int key = static_cast<int>((random() % (kKeys / kWrites)) * kWrites + i);
      if (random() % 8 <= 2 && key >= kKept) {
        deletes.push_back(Key(key));
      } else {
        puts.push_back(Key(key));
        values.push_back(SelfVerifying(puts.back(), sequence++));
      }
    }
    absl::Status status =
        client->MultiPut(Views(puts.begin(), puts.end()), Views(values.begin(), values.end()), &results);
    status.Update(client->MultiDelete(Views(deletes.begin(), deletes.end()), &results));
    if (!Grow(client.get(), grown, 32)) return 4;
    grown += 32;
    if (!status.ok()) {
      std::fprintf(stderr, "a write failed: %s\n", status.ToString().c_str());
      return 1;
    }
    if (more_splits == 0) {
      more_splits = ServerStat(client.get(), "splits") - splits;
      if (more_splits > 0 && !client->Put(kSplit, "").ok()) return 5;
    }
  }
  more_splits = ServerStat(client.get(), "splits") - splits;
  std::fprintf(stderr, "%llu values were put, %d keys added, %lld segments split meanwhile\n",
               static_cast<unsigned long long>(sequence), grown, static_cast<long long>(more_splits));
  return more_splits > 0 ? 0 : 6;
}

TEST(HostsTest, EveryValueReadWhileTheOtherHostChangesThemIsRight) {
  PeerProcess server(ServerThere(kChangesPort));
  auto client = ConnectTo(There(kChangesPort), 60'000);
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(Key(i));
  for (int i = 0; i < kKept; ++i) ASSERT_TRUE(client->Put(keys[static_cast<size_t>(i)], SelfVerifying(Key(i), 0)).ok());
  PeerProcess writer({self, "--change"});
  ASSERT_TRUE(Await([&] { return client->Get(kGo).ok(); }));

  constexpr size_t kBatch = 64;
  const int64_t reads = Repeat(4'000, 1'000'000);
  std::vector<int64_t> seen(kKeys, 0);  // no reader goes back in time
  std::mt19937_64 random(8);
  std::vector<Result<Value>> results;
  int64_t found = 0, changed = 0;
  // Expect: at least one split while it reads. The writer may be the slower one.
  const auto end = steady_clock::now() + 2 * kBound;
  const int64_t step = reads / 20;  // at full length the output shows progress
  for (int64_t told = 0; found < reads || (client->Get(kSplit).status().code() == absl::StatusCode::kNotFound &&
                                           steady_clock::now() < end);) {
    if (found >= told + step) std::fprintf(stderr, "%lld values\n", static_cast<long long>(told = found));
    size_t which[kBatch];
    std::string_view batch[kBatch];
    for (size_t i = 0; i < kBatch; ++i) {
      which[i] = (random() % (kKeys / kBatch)) * kBatch + i;
      batch[i] = keys[which[i]];
    }
    const absl::Status status = client->MultiGet(batch, &results);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < kBatch; ++i) {
      if (absl::IsNotFound(results[i].status)) {
        ASSERT_GE(which[i], static_cast<size_t>(kKept)) << "it was never deleted";
        continue;
      }
      ASSERT_TRUE(results[i].status.ok()) << results[i].status;
      const int64_t sequence = Verify(keys[which[i]], results[i].value.data);
      ASSERT_GE(sequence, seen[which[i]]) << batch[i] << " (-1: not what was written)";
      if (sequence > seen[which[i]]) ++changed;
      seen[which[i]] = sequence;
      ++found;
    }
  }
  EXPECT_GT(changed, reads / 100);
  // A key that changes all the time is got from the server after some rounds.
  std::fprintf(stderr, "%lld values, %lld others than the time before; %llu rounds began anew, %llu gets by message\n",
               static_cast<long long>(found), static_cast<long long>(changed),
               static_cast<unsigned long long>(client->stats().read_retries),
               static_cast<unsigned long long>(client->stats().server_gets));
  ASSERT_TRUE(client->Put(kStop, "").ok());
  EXPECT_EQ(writer.Wait(), 0);
}

// ---- A host is lost ----

// The other host's part: numbers, each acknowledged before the next.
int Log() {
  auto client = ConnectTo(There(kLostClientPort), 60'000);
  for (int i = 0;; ++i) {
    if (!client
             ->Put(absl::StrCat("log", i), SelfVerifying(absl::StrCat("log", i), 0),
                   {.condition = Condition::IfAbsent()})
             .ok())
      return 1;
  }
}

TEST(HostsTest, AClientWhoseHostIsLostLeavesItsWritesAndNothingElse) {
  ServerProcess server({"--memory=64MiB", "--counter_memory=0", "--listen=" + Shm(kLostClientPort),
                        "--listen=" + Here(kLostClientPort)});
  auto observer = ConnectTo(Shm(kLostClientPort), 60'000);
  PeerProcess client({self, "--log"});
  ASSERT_TRUE(Await([&] { return ServerStat(observer.get(), "keys") > 100; }));
  EXPECT_EQ(DeviceObjectsOf(server.pid()).queue_pairs, 1);
  Peer("kill");
  // It is detected within --liveness, 3 s.
  EXPECT_TRUE(AwaitAndLog("the server", [&] { return ServerStat(observer.get(), "connections") == 1; }));
  EXPECT_TRUE(Await([&] { return DeviceObjectsOf(server.pid()).queue_pairs == 0; }));
  EXPECT_EQ(client.Wait(), 128 + SIGKILL);
  // Each write except the last one had been acknowledged.
  const auto count = static_cast<int>(ServerStat(observer.get(), "keys"));
  EXPECT_EQ(ServerStat(observer.get(), "puts"), count) << "a write was done twice";
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("log", i);
    auto value = observer->Get(name);
    ASSERT_TRUE(value.ok()) << i << " of " << count << ": " << value.status();
    ASSERT_EQ(Verify(name, value->data), 0);
    ASSERT_TRUE(observer->Delete(name).ok());
  }
  EXPECT_EQ(ServerStat(observer.get(), "value_bytes"), 0);
  Peer("boot");
}

TEST(HostsTest, AServerWhoseHostIsLostIsKnownToBeGoneAndItsSuccessorIsFound) {
  auto server = std::make_unique<PeerProcess>(ServerThere(kLostServerPort));
  auto client = ConnectTo(There(kLostServerPort), /*timeout_ms=*/2'000);
  Load load(client.get(), "lost", 2'000);
  std::atomic<bool> working{false}, lost{false}, unavailable{false};
  std::thread disturber([&] {
    Await([&] { return working.load(); });
    Peer("kill");
    lost = true;
    EXPECT_TRUE(AwaitAndLog("the client under load", [&] { return unavailable.load(); }));
  });
  uint64_t before = 0, refused_before = 0;
  auto end = steady_clock::now() + 2 * kBound;
  load.Run([&] {
    working = load.ended() > 100;
    const uint64_t refused = load.ended(absl::StatusCode::kUnavailable);
    const uint64_t failed = refused + load.ended(absl::StatusCode::kDeadlineExceeded);
    if (!lost) {
      before = failed;
      refused_before = refused;
    }
    unavailable = refused > refused_before;
    return (failed < before + 50 || !unavailable) && steady_clock::now() < end;
  });
  disturber.join();
  EXPECT_LT(load.longest_s(), 30) << "with a time limit of 2 s";
  EXPECT_TRUE(Await([] { return DeviceObjectsOf(getpid()).queue_pairs == 0; }));
  const uint64_t incarnation = client->incarnation();

  Peer("boot");
  server = std::make_unique<PeerProcess>(ServerThere(kLostServerPort));
  before = load.ended(absl::StatusCode::kOk);
  end = steady_clock::now() + 2 * kBound;
  load.Run([&] { return load.ended(absl::StatusCode::kOk) < before + 100 && steady_clock::now() < end; });
  EXPECT_GE(load.ended(absl::StatusCode::kOk), before + 100);
  EXPECT_NE(client->incarnation(), incarnation);
  EXPECT_EQ(client->stats().incarnation_changes, 1u);
  load.Check(client.get());
}

// ---- A port goes down and up again ----

// On this host's device, or on the other one's. See `link --help`.
void Link(bool here, const char* how) {
  if (here) {
    ASSERT_EQ(system(absl::StrCat("link ", how).c_str()), 0);
  } else {
    EXPECT_EQ(PeerProcess({"link", how}).Wait(), 0);
  }
}

TEST(HostsTest, AfterAPortWasDownTheClientConnectsAgainAndNothingIsLost) {
  PeerProcess server(ServerThere(kDownPort));
  auto client = ConnectTo(There(kDownPort), /*timeout_ms=*/180'000);
  Load load(client.get(), "down", 180'000);
  for (const bool here : {true, false}) {
    const uint64_t begun = load.ended(), reconnects = client->stats().reconnects;
    std::atomic<bool> working{false}, mended{false};
    std::thread disturber([&] {
      Await([&] { return working.load(); });
      Link(here, "down");
      std::this_thread::sleep_for(std::chrono::seconds(1));
      Link(here, "up");
      mended = true;
    });
    uint64_t before = 0;
    const auto end = steady_clock::now() + std::chrono::seconds(200);
    load.Run([&] {
      working = load.ended() > begun + 100;
      const uint64_t done = load.ended(absl::StatusCode::kOk);
      if (!mended || client->stats().reconnects == reconnects) before = done;
      return done < before + 100 && steady_clock::now() < end;
    });
    disturber.join();
    EXPECT_GT(client->stats().reconnects, reconnects) << (here ? "the client's port" : "the server's port");
    EXPECT_GE(load.ended(absl::StatusCode::kOk), before + 100) << (here ? "the client's port" : "the server's port");
  }
  load.Check(client.get());
}

}  // namespace
}  // namespace farlook

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  farlook::self = argv[0];
  const std::string part = argc > 1 ? argv[1] : "";
  if (part == "--change") return farlook::Change();
  if (part == "--log") return farlook::Log();
  return RUN_ALL_TESTS();
}
