// A client that runs random operations on a few keys, and records its requests and answers. Half of the keys name
// values, the others counters.
#ifndef FARLOOK_TESTS_LINEARIZABLE_USER_H_
#define FARLOOK_TESTS_LINEARIZABLE_USER_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "farlook/async.h"
#include "farlook/client.h"
#include "tests/history/history.h"
#include "tests/linearizable/board.h"

namespace farlook {

// Returns the operation for a key, where `dice` is below 100.
history::Type DrawType(bool counter, uint64_t dice);

// Thread safety: one thread.
class User {
 public:
  // Writes to `lane` of the board, which no other user does. All outlive it.
  User(Board* board, int lane, Client* client, uint32_t seed)
      : board_(board), lane_(lane), client_(client), random_(seed) {}

  // Some operations at once, until they have ended. False: there is no room for more.
  bool Step();
  // Reads each key once, so that a value that was not overwritten afterwards must be there. False: as above.
  bool ReadAll();

 private:
  static constexpr int kMostAtOnce = 3;
  struct Asked {
    std::unique_ptr<AsyncOperation> operation;
    Board::Entry* entry = nullptr;
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  bool Ask(int key, history::Type type, Asked* asked);
  void Ended(const Asked& asked);

  Board* const board_;
  const int lane_;
  Client* const client_;
  std::mt19937_64 random_;
  std::array<uint64_t, Board::kKeys> versions_{};
  std::array<int64_t, Board::kKeys> numbers_{};
  uint64_t places_ = 0;  // in the order of its operations
};

// Runs a client in a loop, until the board says stop. Returns the exit code of its process.
int RunUser(Board* board, int lane, const std::string& address, uint32_t seed);
// The same through the C library.
int RunCUser(Board* board, int lane, const std::string& address, uint32_t seed);
// Like RunUser(), with these options. It waits for its server, rests for at most this long after each step, and reads
// each key at the end.
int RunUserUntilAllIsRead(Board* board, int lane, const std::string& address, uint32_t seed, ClientOptions options,
                          useconds_t most_rest_us);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_USER_H_
