// A completion queue of the verbs backend, of a client or of one worker of a server.
//
// One epoll descriptor covers the completion channel, the connection manager's events, asynchronous events of the
// device, and a timer for probes and deadlines. Poll() checks the completion queue, in memory, and the descriptor (a
// system call) rarely or after sleeping.
//
// If its device is lost, the connections end. Once they are destroyed, the endpoint releases the device, and uses the
// one that exists for the next connection; the buffers stay.
//
// Thread safety: one thread, except the calls of AsyncSink.
#ifndef FARLOOK_RDMA_VERBS_ENDPOINT_H_
#define FARLOOK_RDMA_VERBS_ENDPOINT_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/resolver.h"
#include "rdma/host/unique_fd.h"
#include "rdma/transport.h"
#include "rdma/verbs/connection/connection.h"
#include "rdma/verbs/connection/connection_table.h"
#include "rdma/verbs/connection/endpoint_device.h"
#include "rdma/verbs/device/buffers.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/offers.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::verbs {

class VerbsEndpoint final : public Endpoint, private AsyncSink {
 public:
  // Creates a client's endpoint on the device through which `address` is reached. Errors as in diagnosis.h. If the name
  // is not resolved within TransportOptions::resolve_ms: UNAVAILABLE, or, if that is 0, an endpoint without a device
  // yet.
  static absl::StatusOr<std::unique_ptr<VerbsEndpoint>> ForClient(const Address& address,
                                                                  const TransportOptions& options);
  // Creates a worker's endpoint on the listener's device. The listener reads the device's asynchronous events.
  static absl::StatusOr<std::unique_ptr<VerbsEndpoint>> ForServer(std::shared_ptr<Offers> offers,
                                                                  const TransportOptions& options);
  ~VerbsEndpoint() override;

  // Endpoint:
  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override {
    return buffers_.Allocate(bytes, readable_by_peers);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> memory) override {
    return buffers_.Register(memory);
  }
  size_t Poll(absl::Span<Completion> out) override;
  // Returns false also while buffers of the last Poll()'s messages must be posted again. See "Credits of the
  // transport", Sleeping, in docs/design-notes.md.
  bool Arm() override;
  int fd() const override { return epoll_.get(); }
  void Wake() override { wake_.Wake(); }
  bool LeaveToParent() override;
  uint64_t message_bytes() const override { return device_.has_value() ? device_->message_bytes() : 0; }

  // Accepts the client of `id`, whose events arrived at another channel until now. See VerbsConnection::Accept.
  // UNAVAILABLE if `offers` belong to another device than that of connections which have not ended yet.
  absl::StatusOr<std::unique_ptr<Connection>> Accept(const std::shared_ptr<Offers>& offers, CmId id,
                                                     const Envelope& client, const ReadDepths& depths,
                                                     absl::string_view welcome, const Terms& terms);

 private:
  // The source of an epoll event.
  enum Source : uint32_t { kCompletions, kManager, kTimer, kWake, kAsync, kSources };

  // Number of completions for the user, and whether no others were left.
  struct Taken {
    size_t count;
    bool drained;
  };

  explicit VerbsEndpoint(const TransportOptions& options) : options_(options), tick_ns_(TickNs(options.liveness_ms)) {}
  absl::Status Begin();
  absl::Status UseDeviceTowards(const SocketAddresses& remotes, const Address& address);
  absl::Status Use(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers);
  absl::Status BeginOnDevice();
  void LeaveDevice();
  bool idle() const;
  bool Watch(int descriptor, uint32_t what);
  std::unique_ptr<VerbsConnection> MakeConnection(Role role);
  void LeaveIfUnfit(const VerbsConnection* connection);

  // AsyncSink, possibly on another thread:
  void OnQueuesLost(ibv_event_type event) override;
  void OnSomethingToDo() override { Wake(); }

  void Recycle();
  size_t AttendBefore(absl::Span<Completion> out);
  size_t AttendAfter(absl::Span<Completion> out, size_t count, bool drained);
  void AdvanceAll();
  size_t AnnounceAll(absl::Span<Completion> out);
  size_t EndAll(absl::Span<Completion> out);
  size_t DeliverKept(absl::Span<Completion> out);
  Taken TakeSome(absl::Span<Completion> out, size_t count);
  Taken TakeMore(absl::Span<Completion> out, size_t count);
  bool Handle(const ibv_wc& wc, Completion* done);
  bool HandleReceive(const ibv_wc& wc, Completion* done);
  void CheckEvents();
  void LookAtEvents();
  void BreakSuspects();
  void OnTimer();
  void OnWake();
  void SetTimer();

  const TransportOptions options_;
  const int64_t tick_ns_;
  UniqueFd epoll_;
  UniqueFd timer_;
  WakeFd wake_;
  Resolver resolver_{[this] { wake_.Wake(); }};
  EventChannel channel_;
  Buffers buffers_;
  ConnectionTable connections_;
  std::optional<EndpointDevice> device_;  // empty: none at present

  uint32_t polls_until_check_ = kPollsPerEventCheck;
  int64_t next_tick_ns_ = 0;  // 0: none is due

  std::atomic<int> queues_lost_{-1};  // the ibv_event_type that reports it, or -1
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_H_
