// Reports the number and duration of gets to a server that asks for it, since the server sees no gets. It sends one
// message (kv/wire/client_figures.h) per interval of the Welcome, if there were gets, and one at the end.
//
// The time is checked only when calls are timed (latencies.h), so a client with few calls reports late. A report that
// finds no room in the send queue is sent the next time.
//
// Thread safety: one thread. The stats outlive it.
#ifndef FARLOOK_CLIENT_OP_CLIENT_STATS_REPORT_H_
#define FARLOOK_CLIENT_OP_CLIENT_STATS_REPORT_H_

#include <cstdint>
#include <memory>

#include "farlook/stats.h"
#include "rdma/transport.h"

namespace farlook::client {

class ClientStatsReport {
 public:
  explicit ClientStatsReport(const ClientStats* stats) : stats_(stats) {}

  // `interval_ms`: time between two messages; 0: the server does not ask. Earlier gets are not reported.
  void Connect(rdma::Connection* connection, uint32_t interval_ms, int64_t now_ns);
  void Lost() { connection_ = nullptr; }

  // Reports, if it is due at `now_ns`.
  void Look(int64_t now_ns) {
    if (connection_ != nullptr && now_ns >= due_ns_) [[unlikely]]
      Send(now_ns);
  }
  // Reports, unless there were no gets.
  void Send(int64_t now_ns);

  uint64_t memory_bytes() const { return before_ == nullptr ? 0 : sizeof *before_; }

 private:
  struct Before {  // what was reported
    uint64_t hits = 0, misses = 0;
    LatencyHistogram times;
  };

  const ClientStats* const stats_;
  rdma::Connection* connection_ = nullptr;  // null: nothing is to be reported
  int64_t interval_ns_ = 0;
  int64_t since_ns_ = 0;
  int64_t due_ns_ = 0;
  std::unique_ptr<Before> before_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_CLIENT_STATS_REPORT_H_
