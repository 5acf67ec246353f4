// The resources of a process, to check that it has the same afterwards.
#ifndef FARLOOK_TESTS_FAILNTH_BELONGINGS_H_
#define FARLOOK_TESTS_FAILNTH_BELONGINGS_H_

#include <cstdint>
#include <map>
#include <string>

namespace farlook::failnth {

struct Belongings {
  std::map<std::string, int> descriptors;  // by their kind: how many
  int64_t mapped_bytes = 0;
  int threads = 0;

  static Belongings Now();
  // "" when `after` has no more than this.
  std::string Leaked(const Belongings& after) const;
};

// Waits, within a generous bound, until this process has no more threads than `threads`: a thread that was joined may
// be seen for a moment.
void AwaitThreads(int threads);

}  // namespace farlook::failnth

#endif  // FARLOOK_TESTS_FAILNTH_BELONGINGS_H_
