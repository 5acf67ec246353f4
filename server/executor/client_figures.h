// One worker's sums of the statistics that clients report about their gets (kv/wire/client_figures.h).
//
// The last report of each client is kept. It leaves the sums when it is old or the client disconnects, so rate and
// latencies are those of connected clients. Reports are capped at what a client could do: at most kMostGetsPerS gets
// since it connected. Its latencies weigh as much as its counted gets.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_EXECUTOR_CLIENT_FIGURES_H_
#define FARLOOK_SERVER_EXECUTOR_CLIENT_FIGURES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kv/wire/client_figures.h"
#include "server/base/worker_stats.h"

namespace farlook::server {

// The report of one client.
struct ClientStatsReport {
  explicit ClientStatsReport(int64_t since) : since_ns(since) {}

  const int64_t since_ns;       // when the client connected
  uint64_t gets = 0, hits = 0;  // counted in the sums, after capping
  uint64_t gets_per_s = 0;      // in the last report
  kv::DurationBuckets times;    // of the last report, scaled to its counted gets
  int64_t reported_ns = 0;      // when the last report arrived
  bool fresh = false;           // the report is in the sums
};

class ClientFigures {
 public:
  static constexpr uint32_t kIntervalMs = 10'000;
  static constexpr uint64_t kMostGetsPerS = 100'000'000;
  // Age from which a report is old.
  static constexpr int64_t kFreshNs = 35'000'000'000;

  // `interval_ms`: time between two reports of a client; 0: clients send none. The stats outlive this.
  ClientFigures(uint32_t interval_ms, WorkerStats* stats) : interval_ms_(interval_ms), stats_(stats) {}

  uint32_t interval_ms() const { return interval_ms_; }

  // Adds a report that a client sent. `report` belongs to this client.
  void Take(const kv::ClientFigures& figures, int64_t now_ns, ClientStatsReport* report);
  // Removes the report of a client from the sums: the client disconnected, or the report is old.
  void Forget(ClientStatsReport* report);

  // Returns whether a report can become old; then call Poll() at due_ns().
  bool wanted() const { return !fresh_.empty(); }
  int64_t due_ns() const { return fresh_.front()->reported_ns + kFreshNs; }
  void Poll(int64_t now_ns) {
    while (wanted() && now_ns >= due_ns()) Forget(fresh_.front());
  }

 private:
  void Count(const ClientStatsReport& report, bool add);

  const uint32_t interval_ms_;
  WorkerStats* const stats_;
  std::vector<ClientStatsReport*> fresh_;  // the oldest first
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_CLIENT_FIGURES_H_
