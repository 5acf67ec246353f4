// A reliable connected queue pair, from its creation to its end.
//
// The connection manager exchanges what the two sides must know of each other. The state changes are made here, and not
// by librdmacm, so that this code controls the timeouts and the rights of the peer (limits.h).
#ifndef FARLOOK_RDMA_VERBS_DEVICE_QUEUE_PAIR_H_
#define FARLOOK_RDMA_VERBS_DEVICE_QUEUE_PAIR_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

// The rights of a queue pair's peer to memory whose key it knows. Never WRITE.
struct PeerRights {
  bool reads = true;
  bool atomics = false;
};

// Thread safety: none. Device and queues must outlive it.
class QueuePair {
 public:
  struct Queues {
    ibv_cq* completions = nullptr;
    ibv_srq* shared_receives = nullptr;  // or
    uint32_t receives = 0;               // of its own
  };

  QueuePair() = default;
  // `events` receives asynchronous events, and must outlive the queue pair. Errors as for CannotCreate().
  static absl::StatusOr<QueuePair> Create(const Device& device, const QueuePlan& plan, const Queues& queues,
                                          QueuePairEvents* events);

  // Receives may be posted from here on. UNAVAILABLE.
  absl::Status Initialize(rdma_cm_id* id, const PeerRights& rights);
  // Enables receiving and sending, once the connection manager knows the peer.
  absl::Status Start(rdma_cm_id* id, const ReadDepths& depths);
  // Sets other rights after Start(). UNAVAILABLE.
  absl::Status Grant(const PeerRights& rights);

  // Replaces Initialize() and Start(): its peer is this queue pair itself, which `path` leads to, and which may use
  // atomics. One request at a time. UNAVAILABLE. Not on iWARP.
  absl::Status ConnectToItself(const ibv_ah_attr& path, ibv_mtu mtu);

  // Enters the error state: posted work is flushed, arriving requests are refused.
  void Fail();

  // The device releases every posted buffer before this returns.
  void reset() { handle_.reset(); }

  ibv_qp* get() const { return handle_.get(); }
  bool ok() const { return handle_ != nullptr; }
  uint32_t number() const { return handle_->qp_num; }
  uint32_t inline_bytes() const { return inline_bytes_; }

 private:
  unsigned AccessFlags(const PeerRights& rights) const;

  struct Closer {
    void operator()(ibv_qp* handle) const { ibv_destroy_qp(handle); }
  };

  std::unique_ptr<ibv_qp, Closer> handle_;
  uint32_t inline_bytes_ = 0;
  bool iwarp_ = false;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_QUEUE_PAIR_H_
