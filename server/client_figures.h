// What clients tell of their gets (kv/client_figures.h): a worker's share of it.
//
// Of each client the last message is kept, and leaves the sums when it is old, or when the client goes: so rate and
// latencies are those of clients that are there. What a client says is not believed beyond what any could do: it counts
// as kMostGetsPerS since it came, however much it says, and its latencies weigh as many as its gets that count.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_CLIENT_FIGURES_H_
#define FARLOOK_SERVER_CLIENT_FIGURES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kv/client_figures.h"
#include "server/worker_stats.h"

namespace farlook::server {

// Of one client.
struct ToldFigures {
  explicit ToldFigures(int64_t since) : since_ns(since) {}

  const int64_t since_ns;       // when the client came
  uint64_t gets = 0, hits = 0;  // that counted
  uint64_t gets_per_s = 0;      // in the last message
  kv::DurationBuckets times;    // likewise, as many as its gets that counted
  int64_t told_ns = 0;          // when that came
  bool fresh = false;           // it is in the sums
};

class ClientFigures {
 public:
  static constexpr uint32_t kIntervalMs = 10'000;
  static constexpr uint64_t kMostGetsPerS = 100'000'000;
  // After so long a message is old.
  static constexpr int64_t kFreshNs = 35'000'000'000;

  // `interval_ms`: between two messages of a client; 0: none is wanted. The stats outlive this.
  ClientFigures(uint32_t interval_ms, WorkerStats* stats) : interval_ms_(interval_ms), stats_(stats) {}

  uint32_t interval_ms() const { return interval_ms_; }

  // A client told this. `told` is its own.
  void Take(const kv::ClientFigures& figures, int64_t now_ns, ToldFigures* told);
  // The client is gone, or its message is old.
  void Forget(ToldFigures* told);

  // Whether there is anything that grows old; then Poll() at due_ns().
  bool wanted() const { return !fresh_.empty(); }
  int64_t due_ns() const { return fresh_.front()->told_ns + kFreshNs; }
  void Poll(int64_t now_ns) {
    while (wanted() && now_ns >= due_ns()) Forget(fresh_.front());
  }

 private:
  void Count(const ToldFigures& told, bool add);

  const uint32_t interval_ms_;
  WorkerStats* const stats_;
  std::vector<ToldFigures*> fresh_;  // the oldest first
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_CLIENT_FIGURES_H_
