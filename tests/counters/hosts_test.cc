// Counters over two hosts (tests/vm/run --hosts=2). A server and clients are on the first, clients on the second. Cells
// pass from counter to counter, and processes are killed on both.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/counters/storm_run.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

TEST(HostsTest, SumsOfTwoHostsAreExactWhileCellsGoRoundAndProcessesAreKilled) {
  const std::string result = "/run/vm/storm";  // both hosts see it
  ServerProcess server({"--memory=16MiB", "--counter_memory=4096", "--counter_patience=30s"});
  StormRun storm(/*host=*/0, /*hosts=*/2);
  storm.Start(server.address(), /*processes=*/1);
  const pid_t peer = fork();
  if (peer == 0) {
    execlp("peer", "peer", "run", "tests/counters/storm_host", server.address().c_str(), result.c_str(), nullptr);
    _exit(127);
  }
  storm.AwaitWithKills();
  int status = 0;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(storm.Join());
  ASSERT_TRUE(storm.Merge(result));
  storm.ExpectExactSums(server.address());
  EXPECT_GT(storm.board()->dead_cells, 0u) << "no add ever met a deleted counter";
}

}  // namespace
}  // namespace farlook
