#include "tests/counters/storm_run.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

StormBoard* MapBoard() {
  void* const memory =
      mmap(nullptr, sizeof(StormBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return static_cast<StormBoard*>(memory);
}

}  // namespace

StormRun::StormRun(uint32_t host, uint32_t hosts) : board_(MapBoard()), seed_(std::random_device()()) {
  // Number 0 is no creation.
  board_->creations = (1 + host) * kStormKeys;
  board_->stride = hosts * kStormKeys;
}

StormRun::~StormRun() {
  for (const pid_t child : children_) kill(child, SIGKILL);
  munmap(board_, sizeof(StormBoard));
}

void StormRun::Start(const std::string& address, int processes) {
  address_ = address;
  for (int i = 0; i < processes; ++i) children_.push_back(Fork());
}

pid_t StormRun::Fork() {
  const uint32_t seed = seed_ + 1000 * ++forks_;
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { RunStormClient(board_, address_, seed + i); });
  }
  for (std::thread& thread : threads) thread.join();
  _exit(0);
}

void StormRun::Await(const Work& work) {
  const auto end = steady_clock::now() + std::chrono::seconds(Repeat(60, 3600));
  while ((board_->adds < work.adds || board_->deletes < work.deletes) && !board_->stop && steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(board_->adds, work.adds);
  EXPECT_GE(board_->deletes, work.deletes);
}

void StormRun::AwaitWithKills() {
  const auto kills = static_cast<uint64_t>(Repeat(1, 20)), adds = static_cast<uint64_t>(Repeat(200, 6000));
  for (uint64_t done = 1; done <= kills; ++done) {
    Await({done * adds, done * 10});
    Kill();
  }
  Await({(kills + 1) * adds, (kills + 1) * 10});
}

void StormRun::Kill() {
  pid_t& child = children_[(seed_ + disturbed_) % children_.size()];
  disturbed_ += kThreads;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  child = Fork();
}

void StormRun::StopFor(int64_t stop_ms) {
  const pid_t child = children_[(seed_ + disturbed_) % children_.size()];
  disturbed_ += kThreads;
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(stop_ms));
  kill(child, SIGCONT);
}

bool StormRun::Join() {
  board_->stop = true;
  bool well = true;
  for (const pid_t pid : children_) {
    int status = 0;
    well = waitpid(pid, &status, 0) == pid && status == 0 && well;
  }
  children_.clear();
  return well;
}

bool StormRun::Write(const std::string& path) const {
  std::ofstream file(path);
  file << board_->adds << ' ' << board_->deletes << ' ' << board_->unknown << ' ' << board_->atomics << ' '
       << board_->dead_cells << ' ' << disturbed_ << ' ' << board_->violations << '\n';
  // Numbers of other hosts are among them: each client adds to any counter, and deletes it.
  for (uint32_t i = kStormKeys; i < kStormCreations; ++i) {
    if (board_->done[i] != 0 || board_->final[i] != 0) {
      file << i << ' ' << board_->done[i] << ' ' << board_->final[i] << '\n';
    }
  }
  file << "0 0 0 " << board_->first_violation << std::endl;
  return file.good();
}

bool StormRun::Merge(const std::string& path) {
  std::ifstream file(path);
  uint32_t number = 0, done, final;
  uint64_t adds, deletes, unknown, atomics, dead_cells, disturbed, violations;
  file >> adds >> deletes >> unknown >> atomics >> dead_cells >> disturbed >> violations;
  if (!file) return false;
  board_->adds += adds;
  board_->deletes += deletes;
  board_->unknown += unknown;
  board_->atomics += atomics;
  board_->dead_cells += dead_cells;
  board_->violations += violations;
  disturbed_ += disturbed;
  while (file >> number >> done >> final && number != 0) {
    board_->done[number] += done;
    if (final == 0) continue;
    EXPECT_EQ(board_->final[number].exchange(final), 0u) << "creation " << number << " was deleted on both hosts";
  }
  std::string violation;
  std::getline(file, violation);
  if (violations != 0) ADD_FAILURE() << "on the other host:" << violation;
  return file.good();
}

void StormRun::ExpectExactSums(const std::string& address) {
  // A thread that was disturbed had at most one operation under way.
  const uint64_t slack = disturbed_ + board_->unknown;
  ClientOptions options;
  options.timeout_ms = 60'000;
  auto client = Client::Connect(address, options);
  ASSERT_TRUE(client.ok()) << client.status();
  for (int key = 0; key < kStormKeys; ++key) {
    const absl::StatusOr<int64_t> last = (*client)->DeleteCounter(absl::StrCat("storm", key));
    if (!last.ok()) continue;
    const uint32_t creation = CheckStormValue(board_, key, *last, "the end found");
    board_->final[creation] =
        1 + static_cast<uint32_t>(*last >> (key * kStormFieldBits) & ((1 << kStormFieldBits) - 1));
  }
  uint64_t missing = 0, unseen = 0;
  for (uint32_t i = kStormKeys; i < kStormCreations; ++i) {
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
  // Expect: every cell becomes free again.
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  const int64_t cells = ServerStat(client->get(), "counter_cells");
  while (ServerStat(client->get(), "counter_cells_free") < cells && steady_clock::now() < end) {
    (*client)->Ping().IgnoreError();
    usleep(10'000);
  }
  EXPECT_EQ(ServerStat(client->get(), "counter_cells_free"), cells);
  std::printf("%lu adds, %lu deletes, %lu atomics, %lu dead cells met, %lu unknown, %ld impatient drops\n",
              board_->adds.load(), board_->deletes.load(), board_->atomics.load(), board_->dead_cells.load(),
              board_->unknown.load(), ServerStat(client->get(), "impatient_drops"));
}

}  // namespace farlook
