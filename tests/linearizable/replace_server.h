// A server's death, as an operation of histories.
#ifndef FARLOOK_TESTS_LINEARIZABLE_REPLACE_SERVER_H_
#define FARLOOK_TESTS_LINEARIZABLE_REPLACE_SERVER_H_

#include "tests/faults/server_process.h"
#include "tests/history/history.h"

namespace farlook {

// Kills the server and starts another one, whose table is empty. Returns the operation that emptied it, for
// ExpectLinearizable().
history::Operation ReplaceServer(ServerProcess* server);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_REPLACE_SERVER_H_
