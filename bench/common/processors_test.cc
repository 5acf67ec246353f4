#include "bench/common/processors.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

cpu_set_t Of(pid_t pid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(pid, sizeof set, &set), 0);
  return set;
}

// A process that sleeps.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ != 0) return;
    while (true) pause();
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(PartProcessors, ServerAndClientsShareNone) {
  const Sleeper server;
  const cpu_set_t all = Of(0);
  for (const int count : {1, 1000}) {
    std::thread([&] {
      const cpu_set_t servers = PartProcessors(server.pid(), count);
      const cpu_set_t own = Of(0), of_server = Of(server.pid());
      if (CPU_COUNT(&all) < 2) {  // nothing to divide
        EXPECT_EQ(CPU_COUNT(&servers), 0);
        EXPECT_TRUE(CPU_EQUAL(&own, &all));
        return;
      }
      EXPECT_TRUE(CPU_EQUAL(&servers, &of_server));
      EXPECT_EQ(CPU_COUNT(&servers), count == 1 ? 1 : CPU_COUNT(&all) - 1);
      cpu_set_t both;
      CPU_AND(&both, &servers, &own);
      EXPECT_EQ(CPU_COUNT(&both), 0);
      CPU_OR(&both, &servers, &own);
      EXPECT_TRUE(CPU_EQUAL(&both, &all));
    }).join();
  }
}

TEST(MeasureGaps, EachLongGapIsNoLongerThanTheLongest) {
  cpu_set_t anywhere;
  CPU_ZERO(&anywhere);
  const Gaps gaps = MeasureGaps(20, anywhere);
  EXPECT_GT(gaps.longest_ns, 0);
  EXPECT_EQ(gaps.long_ones > 0, gaps.longest_ns >= kLongNs);
}

}  // namespace
}  // namespace farlook::bench
