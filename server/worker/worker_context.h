// The state that the parts of one worker share: what the server gave it, its figures, its clock, and what its requests
// are executed with.
#ifndef FARLOOK_SERVER_WORKER_WORKER_CONTEXT_H_
#define FARLOOK_SERVER_WORKER_WORKER_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/string_view.h"
#include "server/base/worker_stats.h"
#include "server/executor/client_figures.h"
#include "server/executor/executor.h"
#include "server/executor/hit_reports.h"
#include "server/executor/shared.h"
#include "server/executor/sweep.h"
#include "server/executor/tidy.h"
#include "server/session/drain.h"
#include "server/worker/link.h"

namespace farlook::server {

// Ends connections for the parts of a worker. Implemented by the worker, which knows what each part keeps for one.
class LinkCloser {
 public:
  // Closes the connection of a client that breaks the protocol, and logs why. Does nothing if it is closing.
  virtual void Drop(Link& link, absl::string_view reason) = 0;
  // Closes the connection and discards what it had queued. Request numbers that were claimed and not executed are
  // released; those of pulls as their READs complete. Does nothing if it is closing.
  virtual void Close(Link& link) = 0;

 protected:
  ~LinkCloser() = default;
};

// Thread safety: none; belongs to its worker.
struct WorkerContext {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  WorkerContext(const Shared& of_server, int of_worker, LinkCloser* closes)
      : shared(of_server), number(of_worker), closer(closes) {}

  // Reads the clock; once for each batch of messages.
  void ReadClock() {
    now_ns = shared.clock->NowNs();
    now_us = shared.time.At(now_ns);
  }
  // Has the worker called again at `ns` at the latest.
  void WakeBy(int64_t ns) { due_ns = std::min(due_ns, ns); }

  const Shared shared;
  const int number;
  LinkCloser* const closer;
  WorkerStats stats;  // before those that count in it
  Executor executor{shared, &stats.lock_times};
  Drain drain;
  Sweep sweep{shared, &stats.lock_times};
  Tidy tidy{shared, &stats.lock_times};
  HitReports hits{shared.table, shared.clock, &stats};
  ClientFigures figures{shared.figures_ms, &stats};

  int64_t now_ns = 0;   // when the clock was read last
  uint64_t now_us = 0;  // the same, of the server's clock
  int64_t due_ns = kNever;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_WORKER_CONTEXT_H_
