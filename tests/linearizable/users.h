// Processes of a test, a User each, that are killed and stopped.
#ifndef FARLOOK_TESTS_LINEARIZABLE_USERS_H_
#define FARLOOK_TESTS_LINEARIZABLE_USERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/linearizable/board.h"

namespace farlook {

class Users {
 public:
  static constexpr size_t kEnough = 300;

  // What each process does until the board says stop: RunUser(), or the same through another interface.
  using Run = int (*)(Board* board, int lane, const std::string& address, uint32_t seed);

  // Prints the seed.
  Users(Board* board, std::string address, uint32_t seed, Run run);
  ~Users();  // kills those that still run

  // REQUIRES: with those that Disturb() starts in the place of others, no more than the board has lanes.
  void Start(int processes);
  // Kills one, and starts another in its place; or stops one for a while, longer than a server's patience.
  void Disturb();
  // Lets them come to an end when that is enough of operations, and expects that they do.
  void Join();

 private:
  void StartOne();

  Board* const board_;
  const std::string address_;
  const Run run_;
  std::minstd_rand random_;
  std::vector<pid_t> pids_;
  int lanes_ = 0;  // taken
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_USERS_H_
