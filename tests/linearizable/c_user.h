// What User does, through the C library: calls that wait, batches, and operations that do not wait.
#ifndef FARLOOK_TESTS_LINEARIZABLE_C_USER_H_
#define FARLOOK_TESTS_LINEARIZABLE_C_USER_H_

#include <cstdint>
#include <string>

#include "tests/linearizable/board.h"

namespace farlook {

// As RunUser().
int RunCUser(Board* board, int lane, const std::string& address, uint32_t seed);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_C_USER_H_
