// What a simulated network can do, and how it misbehaves. Chances are per million; 0 switches a fault off.
#ifndef FARLOOK_RDMA_SIM_OPTIONS_H_
#define FARLOOK_RDMA_SIM_OPTIONS_H_

#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::sim {

struct NetworkOptions {
  Capabilities capabilities{.atomics = true,
                            .any_local_memory = true,
                            .local = false,
                            .max_outstanding_reads = 16,
                            .send_queue_depth = 128,
                            .max_read_sges = kMaxReadSges,
                            .max_read_bytes = uint64_t{1} << 30};
  uint32_t receives = 64;  // messages that a side can hold before it polls; more wait at the sender

  // One way, of a message, and the time over which the words of a READ are fetched.
  int64_t min_delay_ns = 500;
  int64_t max_delay_ns = 3'000;

  uint32_t slow_message = 0;  // takes up to slow_ns more; what follows it waits
  uint32_t slow_read = 0;     // takes up to slow_ns more, its words spread over all of it
  int64_t slow_ns = 0;

  uint32_t broken = 0;        // for each doorbell: the connection breaks about now
  int64_t max_notice_ns = 0;  // how long a side may not know that its peer is gone
  uint32_t lost_connect = 0;  // of a request to connect, or the answer to one
  uint32_t no_memory = 0;     // Allocate() fails
  int64_t max_ack_ns = 0;     // how much later a SEND's place in the queue becomes free
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_OPTIONS_H_
