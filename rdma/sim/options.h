// What a simulated network can do, and how it misbehaves: at each place on its own, so that any may be combined.
#ifndef FARLOOK_RDMA_SIM_OPTIONS_H_
#define FARLOOK_RDMA_SIM_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "rdma/transport.h"

namespace farlook::rdma::sim {

// The sides of a connection. A fault has a chance at each side, and strikes what that side does.
inline constexpr int kClient = 0, kServer = 1;

enum class NetworkFault : uint8_t {
  kSlowMessage,          // takes up to slow_ns more; what follows it waits
  kSlowConnect,          // a request to connect, or the answer to one, likewise
  kSlowRead,             // a READ takes up to slow_ns more, its words spread over all of it; who READs at once is
                         // stopped for as long before, within or after
  kBroken,               // at a doorbell: the connection breaks about now
  kLateNotice,           // for up to max_notice_ns the side does not know that its peer is gone
  kLostConnect,          // a request to connect, or the answer to one
  kNoMemory,             // Allocate() fails
  kSlowAcknowledgement,  // a SEND's place in the queue becomes free up to max_ack_ns later
  kSlowAtomic,           // like a READ; servers do none
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
  // The process that is READ fetches the words itself, with a thread of its own, as over sockets: while it is stopped
  // nothing of its memory can be READ.
  bool served_reads = false;
  // Messages that a side can hold before it polls; more wait at the sender.
  std::array<uint32_t, 2> receives = {64, 64};

  // One way, of a message, and the time over which the words of a READ are fetched.
  int64_t min_delay_ns = 500;
  int64_t max_delay_ns = 3'000;

  // Whether what was sent just before a side disconnects may be lost, as it may where a queue pair is destroyed.
  bool ends_lose_messages = true;

  std::array<uint32_t, kNetworkSites> chances{};  // of each fault at each side, per million; 0 switches it off
  int64_t slow_ns = 0;
  int64_t max_notice_ns = 0;
  int64_t max_ack_ns = 0;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_OPTIONS_H_
