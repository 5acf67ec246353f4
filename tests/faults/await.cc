#include "tests/faults/await.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace farlook {

using std::chrono::steady_clock;

bool Await(absl::FunctionRef<bool()> condition, unsigned every_us) {
  for (const auto end = steady_clock::now() + kBound; steady_clock::now() < end;) {
    if (condition()) return true;
    usleep(every_us);
  }
  return false;
}

bool AwaitAndLog(absl::string_view who, absl::FunctionRef<bool()> condition) {
  const auto begun = steady_clock::now();
  const bool known = Await(condition);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begun).count();
  std::fprintf(stderr, "%s %s after %lld ms\n", std::string(who).c_str(), known ? "knew" : "did not know",
               static_cast<long long>(ms));
  return known;
}

}  // namespace farlook
