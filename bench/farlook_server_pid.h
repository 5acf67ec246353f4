// Which process serves an address.
#ifndef FARLOOK_BENCH_FARLOOK_SERVER_PID_H_
#define FARLOOK_BENCH_FARLOOK_SERVER_PID_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"

namespace farlook::bench {

// The process that listens at `address`, or 0 when that cannot be known: it is on another host, or there is none. Asks
// the kernel whose Unix socket it is (SO_PEERCRED of a connection that says nothing; the server just drops it).
pid_t FarlookServerPid(absl::string_view address);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_FARLOOK_SERVER_PID_H_
