// The clients of a storm on another host, for hosts_test: some processes, one of which is killed in the middle.
//
//     storm_host ADDRESS FILE       FILE: see StormRun::Write
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/counters/storm_run.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "storm_host ADDRESS FILE\n");
    return 2;
  }
  farlook::StormRun storm(/*host=*/1, /*hosts=*/2);
  storm.Start(argv[1], /*processes=*/1);
  storm.AwaitWithKills();
  const bool well = storm.Join() && storm.Write(argv[2]);
  return well && !testing::Test::HasFailure() ? 0 : 1;
}
