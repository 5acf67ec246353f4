// The same over two hosts (tests/vm, --hosts=2): a server and processes on the first, processes on the second. All are
// killed and stopped, the link is cut; and all answers to either host's processes must be linearizable.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/faults/peer.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"
#include "tests/history/history.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/host_time.h"
#include "tests/linearizable/replace_server.h"
#include "tests/linearizable/user.h"
#include "tests/linearizable/users.h"
#include "tests/linearizable/verdict.h"

namespace farlook {
namespace {

// Few cells. Clients are slower here than their stops are long.
const std::vector<std::string> kFlags = {"--memory=64MiB", "--counter_memory=4096", "--counter_patience=2s",
                                         "--log_level=error"};
constexpr int kProcesses = 1;  // on each host, which has one processor, and three operations at once

std::string self;  // this program

std::string OwnAddress() { return std::getenv("FARLOOK_RDMA_ADDRESS"); }

// The other host's part.
int UseFromThere(const std::string& address, int time_port, const std::string& path) {
  TimeAsker time(std::getenv("FARLOOK_RDMA_PEER_ADDRESS"), time_port);
  if (!time.AwaitAnswer()) return 2;
  Board board(/*host=*/1);
  Users users(&board, address, std::random_device()(), RunUser);
  users.Start(kProcesses);
  for (int i = 0; i < 3; ++i) {
    usleep(300'000);
    users.Disturb();
  }
  users.Join();
  if (!time.AwaitAnswer()) return 3;
  return board.Write(path) && WriteSamples(time.Stop(), path + ".time") && !testing::Test::HasFailure() ? 0 : 1;
}

// Counts the answers with a value that the other host had written.
int ToldOfTheOther(const Board& board) {
  int count = 0;
  for (const history::KeyHistory& history : board.Histories()) {
    for (const history::Operation& operation : history) {
      if (operation.found != 0 && Board::HostOf(operation.found) != Board::HostOfClient(operation.client)) ++count;
    }
  }
  return count;
}

// One server after the other, which processes on both hosts use.
void UseFromBoth() {
  const std::string path = "/run/vm/history";  // both hosts see it
  std::remove(path.c_str());
  ServerProcess server(kFlags);
  TimeServer time(OwnAddress());
  Board board;
  Users users(&board, server.address(), std::random_device()(), RunUser);
  PeerProcess there({self, "--there", server.address(), absl::StrCat(time.port()), path});
  ASSERT_TRUE(time.AwaitQuestion());
  users.Start(kProcesses);
  usleep(300'000);
  users.Disturb();
  EXPECT_EQ(std::system("link cut"), 0);
  usleep(150'000);
  EXPECT_EQ(std::system("link up"), 0);
  usleep(100'000);
  server.Signal(SIGSTOP);
  usleep(50'000);
  server.Signal(SIGCONT);
  usleep(100'000);
  const history::Operation wipe = ReplaceServer(&server);
  EXPECT_EQ(there.Wait(), 0);
  users.Join();
  const std::vector<TimeSample> samples = ReadSamples(path + ".time");
  ASSERT_GT(samples.size(), 2u);
  ASSERT_TRUE(board.Merge(
      path, /*host=*/1, [&](int64_t ns) { return EarliestThere(samples, ns); },
      [&](int64_t ns) { return LatestThere(samples, ns); }));
  ExpectLinearizable(board, &wipe);
  const int others = ToldOfTheOther(board);
  std::printf("%d values of the other host were found; %zu times told\n", others, samples.size());
  EXPECT_GT(others, 0) << "the hosts had nothing to do with each other";
}

TEST(HostsTest, WhatProcessesOfTwoHostsAreToldIsLinearizable) {
  for (int64_t round = 0; round < Repeat(1, 100) && !testing::Test::HasFailure(); ++round) UseFromBoth();
}

}  // namespace
}  // namespace farlook

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  farlook::self = argv[0];
  if (argc == 5 && std::string(argv[1]) == "--there") {
    return farlook::UseFromThere(argv[2], std::atoi(argv[3]), argv[4]);
  }
  return RUN_ALL_TESTS();
}
