// Ctrl-C. Where it is caught it ends the command that runs, not the session, and lets import and export say where they
// stopped; a second one ends the process. What has nothing to say does not catch it.
#ifndef FARLOOK_CLIENT_CLI_INTERRUPT_H_
#define FARLOOK_CLIENT_CLI_INTERRUPT_H_

#include <cstdint>

namespace farlook::cli {

// From now on.
void CatchInterrupts();
// Whether a SIGINT came since ForgetInterrupt(). Whoever waits looks at this at least every kMostWaitMs: one may come
// between a look and the wait, which it does not end then.
bool Interrupted();
inline constexpr int kMostWaitMs = 100;
void ForgetInterrupt();

// CLOCK_MONOTONIC.
int64_t NowNs();
// Returns false at once after Ctrl-C.
bool SleepUntilNs(int64_t deadline_ns);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INTERRUPT_H_
