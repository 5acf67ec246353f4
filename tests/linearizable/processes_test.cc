// Processes use a real kv_server and are killed and stopped in the middle; all their answers must be linearizable. On
// shared memory, or on the RDMA device of FARLOOK_RDMA_ADDRESS.
#include <signal.h>
#include <unistd.h>

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/history/history.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/replace_server.h"
#include "tests/linearizable/user.h"
#include "tests/linearizable/users.h"
#include "tests/linearizable/verdict.h"

namespace farlook {
namespace {

// Few cells, and less patience than a client is stopped for.
const std::vector<std::string> kFlags = {"--memory=64MiB", "--counter_memory=4096", "--workers=2",
                                         "--counter_patience=50ms", "--log_level=error"};

// `run` is the work of each client.
template <typename Run>
void ExpectLinearizableWhileAllAreDisturbed(Run run) {
  ServerProcess server(kFlags);
  Board board;
  Users users(&board, server.address(), std::random_device()(), run);
  users.Start(4);
  for (int i = 0; i < 16; ++i) {
    usleep(100'000);
    users.Disturb();
    if (i % 5 != 4) continue;
    server.Signal(SIGSTOP);
    usleep(30'000);
    server.Signal(SIGCONT);
  }
  users.Join();
  ExpectLinearizable(board);
}

TEST(LinearizableTest, ClientsAreKilledAndStoppedAndTheServerIsStopped) {
  ExpectLinearizableWhileAllAreDisturbed(RunUser);
}

TEST(LinearizableTest, ClientsInCAreKilledAndStoppedAndTheServerIsStopped) {
  ExpectLinearizableWhileAllAreDisturbed(RunCUser);
}

TEST(LinearizableTest, TheServerIsKilledAndAnotherOneBeginsEmpty) {
  ServerProcess server(kFlags);
  Board board;
  Users users(&board, server.address(), std::random_device()(), RunUser);
  users.Start(3);
  usleep(500'000);
  const history::Operation wipe = ReplaceServer(&server);
  usleep(500'000);
  users.Join();
  ExpectLinearizable(board, &wipe);
}

}  // namespace
}  // namespace farlook
