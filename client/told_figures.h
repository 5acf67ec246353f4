// Tells a server that asks for it how many gets there were and how long they took, since it sees none of them: one
// message (kv/client_figures.h) in the time that the Welcome says, while there are any, and one at the end.
//
// The time is looked at where calls are timed (latencies.h), so a client that does little tells late. What finds no
// room just then is told the next time.
//
// Thread safety: one thread. The stats outlive it.
#ifndef FARLOOK_CLIENT_TOLD_FIGURES_H_
#define FARLOOK_CLIENT_TOLD_FIGURES_H_

#include <cstdint>
#include <memory>

#include "farlook/stats.h"
#include "rdma/transport.h"

namespace farlook::client {

class ToldFigures {
 public:
  explicit ToldFigures(const ClientStats* stats) : stats_(stats) {}

  // `interval_ms`: between two messages; 0: the server does not ask. What was before is not told.
  void Connect(rdma::Connection* connection, uint32_t interval_ms, int64_t now_ns);
  void Lost() { connection_ = nullptr; }

  // It is `now_ns`: tells, if it is time.
  void Look(int64_t now_ns) {
    if (connection_ != nullptr && now_ns >= due_ns_) [[unlikely]]
      Tell(now_ns);
  }
  // Tells, unless there is nothing to tell.
  void Tell(int64_t now_ns);

  uint64_t memory_bytes() const { return before_ == nullptr ? 0 : sizeof *before_; }

 private:
  struct Before {  // what was told
    uint64_t hits = 0, misses = 0;
    LatencyHistogram times;
  };

  const ClientStats* const stats_;
  rdma::Connection* connection_ = nullptr;  // null where nothing is to be told
  int64_t interval_ns_ = 0;
  int64_t since_ns_ = 0;
  int64_t due_ns_ = 0;
  std::unique_ptr<Before> before_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TOLD_FIGURES_H_
