// Separate processors for a server and for its clients, and measurement of the time that a processor is taken away.
//
// If the scheduler may put a server's thread and its client's on one processor, it sometimes does so. A put then takes
// 17 us instead of 1.5, for an arbitrary time; a third thread that runs for some milliseconds is enough to cause it.
// Such a figure does not describe the server.
#ifndef FARLOOK_BENCH_COMMON_PROCESSORS_H_
#define FARLOOK_BENCH_COMMON_PROCESSORS_H_

#include <sched.h>
#include <sys/types.h>

#include <cstdint>

namespace farlook::bench {

// Assigns `count` of the processors that this process may use to all threads of process `server`, and to those that
// they start. Assigns the others, at least one, to the calling thread and to those that it starts. Returns the server's
// processors. Returns an empty set, and changes nothing, if this process may use only one, or the kernel refuses.
cpu_set_t PartProcessors(pid_t server, int count);

// The time that passes between two looks of a thread at its own processor time, which it reads continuously for `ms`
// milliseconds of it. More than a microsecond is time that was charged although the thread did not run: interrupts, and
// on a virtual machine the host's other work.
struct Gaps {
  int64_t longest_ns = 0;
  int64_t long_ones = 0;  // of at least kLongNs
};
inline constexpr int64_t kLongNs = 917'504;  // a bound of the server's histogram of time under locks
// Measured on a separate thread, on one of `processors` unless that is empty.
Gaps MeasureGaps(int64_t ms, const cpu_set_t& processors);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_PROCESSORS_H_
