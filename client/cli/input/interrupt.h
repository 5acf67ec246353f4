// Ctrl-C. A command that catches it ends, but not its session; import and export report where they stopped. A second
// Ctrl-C ends the process. Commands with nothing to report do not catch it.
#ifndef FARLOOK_CLIENT_CLI_INPUT_INTERRUPT_H_
#define FARLOOK_CLIENT_CLI_INPUT_INTERRUPT_H_

#include <cstdint>

namespace farlook::cli {

// Catches Ctrl-C from now on.
void CatchInterrupts();
// Returns whether a SIGINT arrived since ForgetInterrupt(). A wait must check this at least every kMostWaitMs: a signal
// between a check and the wait does not end the wait.
bool Interrupted();
inline constexpr int kMostWaitMs = 100;
void ForgetInterrupt();

// CLOCK_MONOTONIC.
int64_t NowNs();
// Returns false at once after Ctrl-C.
bool SleepUntilNs(int64_t deadline_ns);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_INTERRUPT_H_
