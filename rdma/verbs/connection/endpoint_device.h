// Everything that one endpoint has on one device: registered memory, messages, queues, and the queue pairs of its
// connections from their creation to their end. It is discarded with the device; the next device has another one.
//
// A connection never destroys its queue pair itself: it returns it with Retire(). Objects that must wait stay here: a
// handshake under way in iWARP's kernel, or an id whose destruction would make the connection manager send through a
// port that is down.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_ENDPOINT_DEVICE_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_ENDPOINT_DEVICE_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/offers.h"
#include "rdma/verbs/device/pair.h"
#include "rdma/verbs/device/registered_memory.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/queues/completion_queues.h"
#include "rdma/verbs/queues/message_pool.h"
#include "rdma/verbs/queues/read_credits.h"
#include "rdma/verbs/queues/receive_queue.h"
#include "rdma/verbs/queues/send_queue.h"

namespace farlook::rdma::verbs {

// Thread safety: none.
class EndpointDevice {
 public:
  // `offers`: of a listener on the device; null for a client. The sink is notified of events from now on, and must
  // outlive this.
  EndpointDevice(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers, AsyncSink* sink,
                 uint32_t max_outstanding);
  // REQUIRES: no connection has a queue pair of it. Waits for handshakes under way in iWARP's kernel.
  ~EndpointDevice();
  EndpointDevice(const EndpointDevice&) = delete;
  EndpointDevice& operator=(const EndpointDevice&) = delete;

  // To be called once, before anything else. Errors as in diagnosis.h.
  absl::Status Begin();

  Device& device() const { return *device_; }
  const std::shared_ptr<Offers>& offers() const { return offers_; }
  RegisteredMemory& memory() { return memory_; }
  // Resources for the send queues of connections.
  SendResources send_resources();

  // ---- Queue pairs.

  // Creates the queue pair of `pair`, whose id exists, and its queues. Retire() must be called after an error too.
  // Errors as for CannotCreate(); RESOURCE_EXHAUSTED.
  absl::Status MakePair(const QueuePlan& plan, const PeerRights& rights, Pair* pair);
  // Takes back the queue pair of a connection. Afterwards nothing of the peer arrives, and no completion of it is
  // polled. The peer is notified of the end, if it does not know, as soon as that is possible. Does not wait.
  void Retire(Pair pair);
  // OnEvent() handles an event of the connection manager for an id without a connection. ReleaseParked() is to be
  // called after all waiting events.
  void OnEvent(const rdma_cm_event& event);
  void ReleaseParked();
  // Returns whether nothing waits here that keeps the device in use.
  bool idle() const { return parked_.empty(); }

  // ---- Messages.

  const char* message(uint32_t slot) const { return messages_.data(slot); }
  bool shares_receives() const { return receives_.shared() != nullptr; }
  // A receive completed. Returns false if it was not posted.
  bool Completed(uint32_t slot) { return receives_.Completed(slot); }
  // The message in a slot was read: the slot is posted again, to the shared queue or to `own`, or else freed.
  void Repost(uint32_t slot, ibv_qp* own) { receives_.Repost(slot, own); }

  // Bytes of memory that are registered for messages.
  uint64_t message_bytes() const { return messages_.bytes(); }

  // ---- Completions.

  // Returns up to `most`; fewer if there are no others now. Negative: a queue failed.
  int Poll(ibv_wc* to, int most) {
    return ABSL_PREDICT_TRUE(backlog_.empty()) ? completions_.Poll(to, most) : PollBacklog(to, most);
  }
  // Returns whether completions were set aside.
  bool has_backlog() const { return !backlog_.empty(); }
  // Keeps a polled completion for a later Poll(). REQUIRES !has_backlog(): it is the oldest.
  void SetAside(const ibv_wc& completion) { backlog_.push_back(completion); }
  // Returns false if there are completions already. Otherwise the next one makes fd() readable, until TakeEvent().
  bool Arm();
  bool TakeEvent() { return completions_.TakeEvent(); }
  int fd() const { return completions_.fd(); }

  // ---- Time.

  // Time at which OnTimer() is due; 0: never. It is also called while there are connections, and once after the last
  // has ended; it then frees unused memory. REQUIRES: the user has read all messages that it was given.
  int64_t due_ns() const { return silent_until_ns_; }
  void OnTimer(int64_t now_ns);

 private:
  // An iWARP client's queue pair whose handshake is under way in the kernel.
  struct Parked {
    Pair pair;
    bool over = false;
  };

  void Release(Pair* pair, bool sent);
  void Dismiss(CmId id, bool failed);
  bool SetAllAside();
  int PollBacklog(ibv_wc* to, int most);

  // Destroyed from the last to the first.
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Offers> offers_;
  const SinkRegistration registration_;
  RegisteredMemory memory_;
  MessagePool messages_;
  CompletionQueues completions_;
  ReceiveQueue receives_;
  ReadCredits credits_;
  std::vector<Parked> parked_;
  std::vector<CmId> silent_;     // dismissed, not destroyed yet
  int64_t silent_until_ns_ = 0;  // then they may be destroyed, if the port is up. 0: there are none
  std::vector<ibv_wc> backlog_;  // taken from the completion queues, not polled: from backlog_begin_ on, or empty
  size_t backlog_begin_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_ENDPOINT_DEVICE_H_
