// A completion queue of the verbs backend, of a client or of one worker of a server.
//
// One epoll descriptor covers the completion channel, the connection manager's events, asynchronous events of the
// device, and a timer for probes and deadlines. Poll() looks at the completion queue, in memory, and at the descriptor
// (a system call) rarely or after sleeping.
//
// When its device is gone the connections end. Once they are destroyed the endpoint lets go of the device, and goes on
// with the one that is there for the next connection; the buffers stay.
//
// Thread safety: one thread, but for the calls of AsyncSink.
#ifndef FARLOOK_RDMA_VERBS_ENDPOINT_H_
#define FARLOOK_RDMA_VERBS_ENDPOINT_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/unique_fd.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/completion_queues.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/endpoint_memory.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/message_pool.h"
#include "rdma/verbs/offers.h"
#include "rdma/verbs/read_credits.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::verbs {

class VerbsEndpoint final : public Endpoint, private ConnectionHost, private AsyncSink {
 public:
  // A client's, on the device through which `address` is reached. Errors as of diagnosis.h.
  static absl::StatusOr<std::unique_ptr<VerbsEndpoint>> ForClient(const Address& address,
                                                                  const TransportOptions& options);
  // A worker's, on the listener's device. The listener reads the device's asynchronous events.
  static absl::StatusOr<std::unique_ptr<VerbsEndpoint>> ForServer(std::shared_ptr<Offers> offers,
                                                                  const TransportOptions& options);
  ~VerbsEndpoint() override;

  // Endpoint:
  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override {
    return memory_.Allocate(bytes, readable_by_peers);
  }
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  int fd() const override { return epoll_.get(); }
  void Wake() override { wake_.Wake(); }

  // Accepts a client that `id` stands for, whose events came to another channel until now. See VerbsConnection::Accept.
  // UNAVAILABLE where `offers` are of another device than that of connections which have not ended yet.
  absl::StatusOr<std::unique_ptr<Connection>> Accept(const std::shared_ptr<Offers>& offers, CmId id,
                                                     const Envelope& client, const ReadDepths& depths,
                                                     absl::string_view welcome, bool grant_atomics);

 private:
  // What a completion of a receive queue brought, and the user has until the next Poll().
  struct Delivered {
    uint32_t slot;
    VerbsConnection* connection;  // null: gone
  };

  // What an epoll event is about.
  enum Source : uint32_t { kCompletions, kManager, kTimer, kWake, kAsync, kSources };

  explicit VerbsEndpoint(const TransportOptions& options)
      : tick_ns_(TickNs(options.liveness_ms)),
        completions_(this),
        receives_(&messages_),
        credits_(options.max_outstanding) {}
  absl::Status Begin();
  absl::Status UseDeviceTowards(const Address& address);
  absl::Status Use(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers);
  absl::Status BeginOnDevice();
  void LeaveDevice();
  bool idle() const;
  bool Watch(int descriptor, uint32_t what);
  std::unique_ptr<VerbsConnection> MakeConnection(Role role);

  // ConnectionHost:
  const Device& device() const override { return *device_; }
  CompletionQueues& completions() override { return completions_; }
  ReceiveQueue& receives() override { return receives_; }
  AsyncSink* sink() override { return this; }
  RemoteRange probe_word() const override { return memory_.probe_word(); }
  void List(VerbsConnection* connection) override;
  void Attend(VerbsConnection* connection) override;
  void RoomReturned() override { room_returned_ = true; }
  void LookAtEvents() override;
  void OnDeviceRemoved() override { device_->SetRemoved(); }
  void OnDeviceUnfit(const VerbsConnection* connection) override;
  void Enter(uint32_t pair_number, VerbsConnection* connection) override;
  void Leave(uint32_t pair_number, VerbsConnection* connection) override;
  void Forget(VerbsConnection* connection) override;
  void Dismiss(CmId id, bool failed) override;
  void Park(PairParts parts) override { parked_.push_back(std::move(parts)); }

  // AsyncSink, on another thread perhaps:
  void OnQueuesLost(ibv_event_type event) override;
  void OnQueuePairFailed() override { Wake(); }

  void Recycle();
  void AdvanceAll();
  size_t AnnounceAll(absl::Span<Completion> out);
  size_t EndAll(absl::Span<Completion> out);
  size_t TakeCompletions(absl::Span<Completion> out, bool* drained);
  bool Handle(const ibv_wc& wc, Completion* done);
  bool HandleReceive(const ibv_wc& wc, Completion* done);
  bool FillBacklog();
  void CheckEvents();
  void ReleaseParked();
  void OnTimer();
  void OnWake();
  void SetTimer();

  const int64_t tick_ns_;
  std::shared_ptr<Device> device_;  // null: none at present
  std::shared_ptr<Offers> offers_;  // of a listener, on the device; null for a client
  UniqueFd epoll_;
  UniqueFd timer_;
  WakeFd wake_;
  EventChannel channel_;
  EndpointMemory memory_;
  MessagePool messages_;
  CompletionQueues completions_;
  ReceiveQueue receives_;
  ReadCredits credits_;
  std::vector<PairParts> parked_;
  std::vector<CmId> silent_;     // dismissed, not destroyed yet
  int64_t silent_until_ns_ = 0;  // then they may be, if the port is up. 0: there are none

  bool armed_ = false;
  bool room_returned_ = false;
  uint32_t polls_until_check_ = kPollsPerEventCheck;
  uint64_t polls_ = 0;
  int64_t next_tick_ns_ = 0;                                 // 0: none is due
  std::vector<VerbsConnection*> by_tag_;                     // null: free
  std::vector<VerbsConnection*> listed_;                     // Advance() is due
  std::vector<VerbsConnection*> attended_;                   // Announce() or End() is due
  absl::flat_hash_map<uint32_t, VerbsConnection*> by_pair_;  // queue pair number
  std::vector<Delivered> delivered_;
  std::vector<ibv_wc> backlog_;  // taken from the completion queues, not handled: from backlog_begin_ on, or empty
  size_t backlog_begin_ = 0;

  std::atomic<int> queues_lost_{-1};  // the ibv_event_type that says so, or -1
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_H_
