// Processors for a server and for its clients, each their own, and what a processor takes away from whoever runs on it.
//
// Where the scheduler may put a server's thread and its client's on one processor, it sometimes does, and a put takes
// 17 us in place of 1.5 for as long as it likes; a third thread that runs for some milliseconds is enough to make it.
// Such a figure says nothing about the server.
#ifndef FARLOOK_BENCH_COMMON_PROCESSORS_H_
#define FARLOOK_BENCH_COMMON_PROCESSORS_H_

#include <sched.h>
#include <sys/types.h>

#include <cstdint>

namespace farlook::bench {

// Gives all threads of process `server`, and those that they start, `count` of the processors that this process may
// use, and the calling thread, and what it starts, the others: at least one. Returns those of the server; none, and
// nothing is changed, where this process may use but one, or the kernel refuses.
cpu_set_t PartProcessors(pid_t server, int count);

// What a thread that only looks at its processor time, over and over for `ms` milliseconds of it, sees pass between two
// looks. More than a microsecond is what was counted as its time though it did not run: interrupts, and on a virtual
// machine what the host took away.
struct Gaps {
  int64_t longest_ns = 0;
  int64_t long_ones = 0;  // of at least kLongNs
};
inline constexpr int64_t kLongNs = 917'504;  // a bound of the server's histogram of time under locks
// On a thread of its own, on one of `processors` unless that is empty.
Gaps MeasureGaps(int64_t ms, const cpu_set_t& processors);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_PROCESSORS_H_
