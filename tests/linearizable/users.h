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

  // The work of each process until the board says stop: RunUser(), or the same through another interface.
  using Run = int (*)(Board* board, int lane, const std::string& address, uint32_t seed);

  // Prints the seed.
  Users(Board* board, std::string address, uint32_t seed, Run run);
  ~Users();  // kills the running processes

  // REQUIRES: no more processes than the board has lanes, including replacements that Disturb() starts.
  void Start(int processes);
  // Kills one, and starts another; or stops one for a while, longer than a server's patience.
  void Disturb();
  // Lets them finish when there have been enough operations, and expects that they do.
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
