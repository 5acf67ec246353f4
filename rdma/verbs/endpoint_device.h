// All that one endpoint has on one device: registered memory, messages, queues, and the queue pairs of its connections
// from their making to their end. When the device goes, this goes as a whole; for the next device there is another.
//
// A connection never destroys its queue pair itself: it gives it back with Retire(), and what must wait (a handshake
// that iWARP's kernel has under way, an id whose destruction would make the connection manager send through a port that
// is down) waits here.
#ifndef FARLOOK_RDMA_VERBS_ENDPOINT_DEVICE_H_
#define FARLOOK_RDMA_VERBS_ENDPOINT_DEVICE_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "rdma/verbs/completion_queues.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/message_pool.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/offers.h"
#include "rdma/verbs/pair.h"
#include "rdma/verbs/read_credits.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/verbs/registered_memory.h"
#include "rdma/verbs/send_queue.h"

namespace farlook::rdma::verbs {

// Thread safety: none.
class EndpointDevice {
 public:
  // `offers`: of a listener on the device; null for a client. The sink is told of events from now on, and outlives it.
  EndpointDevice(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers, AsyncSink* sink,
                 uint32_t max_outstanding);
  // REQUIRES: no connection has a queue pair of it. Waits for handshakes that iWARP's kernel has under way.
  ~EndpointDevice();
  EndpointDevice(const EndpointDevice&) = delete;
  EndpointDevice& operator=(const EndpointDevice&) = delete;

  // Once, before anything else. Errors as of diagnosis.h.
  absl::Status Begin();

  Device& device() const { return *device_; }
  const std::shared_ptr<Offers>& offers() const { return offers_; }
  RegisteredMemory& memory() { return memory_; }
  // What a connection sends with.
  SendResources send_resources();

  // ---- Queue pairs.

  // Makes the queue pair of `pair`, whose id is there, with its queues. After an error too Retire() is due. Errors as
  // of CannotCreate(); RESOURCE_EXHAUSTED.
  absl::Status MakePair(const QueuePlan& plan, const PeerRights& rights, Pair* pair);
  // Takes back what a connection needs no more. Afterwards nothing of the peer arrives, no completion of it is polled,
  // and the peer is told of the end, if it does not know, when that may be. Does not wait.
  void Retire(Pair pair);
  // An event of the connection manager about an id that no connection has any more; and what is due when all that wait
  // were told.
  void OnEvent(const rdma_cm_event& event);
  void ReleaseParked();
  // Whether nothing waits here that keeps the device in use.
  bool idle() const { return parked_.empty(); }

  // ---- Messages.

  const char* message(uint32_t slot) const { return messages_.data(slot); }
  bool shares_receives() const { return receives_.shared() != nullptr; }
  // A receive completed. False: it is none that was posted.
  bool Completed(uint32_t slot) { return receives_.Completed(slot); }
  // What arrived in a slot was read: it is posted again, to the shared queue or to `own`; else it is free.
  void Repost(uint32_t slot, ibv_qp* own) { receives_.Repost(slot, own); }

  // Of memory that is registered for messages.
  uint64_t message_bytes() const { return messages_.bytes(); }

  // ---- Completions.

  // Up to `most`; fewer: there are no others now. Negative: a queue failed.
  int Poll(ibv_wc* to, int most) {
    return ABSL_PREDICT_TRUE(backlog_.empty()) ? completions_.Poll(to, most) : PollBacklog(to, most);
  }
  // Whether completions wait that were set aside.
  bool has_backlog() const { return !backlog_.empty(); }
  // One that was polled, for a later Poll(). REQUIRES !has_backlog(): it is the oldest.
  void SetAside(const ibv_wc& completion) { backlog_.push_back(completion); }
  // False: there are completions already. Else the next one makes fd() readable, until TakeEvent().
  bool Arm();
  bool TakeEvent() { return completions_.TakeEvent(); }
  int fd() const { return completions_.fd(); }

  // ---- Time.

  // When OnTimer() is due. 0: never. It is called besides while there are connections, and once when the last is gone;
  // memory that is not used any more is given back then. REQUIRES: what was received and given to the user was read.
  int64_t due_ns() const { return silent_until_ns_; }
  void OnTimer(int64_t now_ns);

 private:
  // An iWARP client's queue pair whose handshake the kernel has under way.
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
  const SinkRegistration told_;
  RegisteredMemory memory_;
  MessagePool messages_;
  CompletionQueues completions_;
  ReceiveQueue receives_;
  ReadCredits credits_;
  std::vector<Parked> parked_;
  std::vector<CmId> silent_;     // dismissed, not destroyed yet
  int64_t silent_until_ns_ = 0;  // then they may be, if the port is up. 0: there are none
  std::vector<ibv_wc> backlog_;  // taken from the completion queues, not polled: from backlog_begin_ on, or empty
  size_t backlog_begin_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_DEVICE_H_
