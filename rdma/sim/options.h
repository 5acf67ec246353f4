// Properties and faults of a simulated network. Each place of a fault has its own chance, so that any may be combined.
#ifndef FARLOOK_RDMA_SIM_OPTIONS_H_
#define FARLOOK_RDMA_SIM_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::sim {

// The sides of a connection. A fault has a chance at each side, and affects that side's actions.
inline constexpr int kClient = 0, kServer = 1;

enum class NetworkFault : uint8_t {
  kSlowMessage,          // takes up to slow_ns more; later messages wait
  kSlowConnect,          // the same for a request to connect, or its answer
  kSlowRead,             // a READ takes up to slow_ns more, its words spread over all of it; a caller that READs at
                         // once is stopped for as long before, within or after
  kBroken,               // at a doorbell: the connection breaks about now
  kLateNotice,           // for up to max_notice_ns the side does not notice the loss of its peer
  kLostConnect,          // a request to connect, or its answer
  kNoMemory,             // Allocate() fails
  kSlowAcknowledgement,  // a SEND's place in the queue becomes free up to max_ack_ns later
  kSlowAtomic,           // like a READ; servers post none
  kCount,
};
inline constexpr size_t kNetworkSites = 2 * static_cast<size_t>(NetworkFault::kCount);
constexpr size_t SiteOf(NetworkFault fault, int side) {
  return 2 * static_cast<size_t>(fault) + static_cast<size_t>(side);
}

struct NetworkOptions {
  Capabilities capabilities{.atomics = true,
                            .any_local_memory = true,
                            .local = false,
                            .max_outstanding_reads = 16,
                            .send_queue_depth = 128,
                            .max_read_sges = kMaxReadSges,
                            .max_read_bytes = uint64_t{1} << 30};
  // The process whose memory is READ fetches the words itself, with its own thread, as over sockets: while it is
  // stopped its memory cannot be READ.
  bool served_reads = false;
  // Messages that a side can hold before it polls; more wait at the sender.
  std::array<uint32_t, 2> receives = {64, 64};
  // Messages delivered by a Poll() occupy their places until the next one, as in a transport that does not copy them.
  bool held_receives = false;

  // Delay of a message one way, and the time over which the words of a READ are fetched.
  int64_t min_delay_ns = 500;
  int64_t max_delay_ns = 3'000;

  // Messages sent just before a side disconnects may be lost, as with a destroyed queue pair.
  bool ends_lose_messages = true;

  std::array<uint32_t, kNetworkSites> chances{};  // of each fault at each side, per million; 0 switches it off
  int64_t slow_ns = 0;
  int64_t max_notice_ns = 0;
  int64_t max_ack_ns = 0;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_OPTIONS_H_
