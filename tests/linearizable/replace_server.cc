#include "tests/linearizable/replace_server.h"

#include <signal.h>

#include "tests/linearizable/board.h"

namespace farlook {

history::Operation ReplaceServer(ServerProcess* server) {
  history::Operation wipe;
  wipe.type = history::Type::kWipe;
  wipe.outcome = history::Outcome::kOk;
  wipe.begin_ns = HostNowNs();
  server->Signal(SIGKILL);
  server->Wait();
  server->Restart();
  wipe.end_ns = HostNowNs();
  return wipe;
}

}  // namespace farlook
