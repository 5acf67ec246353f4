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
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/unique_fd.h"
#include "rdma/transport.h"
#include "rdma/verbs/buffers.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/connection.h"
#include "rdma/verbs/connection_table.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/endpoint_device.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/offers.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::verbs {

class VerbsEndpoint final : public Endpoint, private AsyncSink {
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
    return buffers_.Allocate(bytes, readable_by_peers);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> memory) override {
    return buffers_.Register(memory);
  }
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  int fd() const override { return epoll_.get(); }
  void Wake() override { wake_.Wake(); }
  uint64_t message_bytes() const override { return device_.has_value() ? device_->message_bytes() : 0; }

  // Accepts a client that `id` stands for, whose events came to another channel until now. See VerbsConnection::Accept.
  // UNAVAILABLE where `offers` are of another device than that of connections which have not ended yet.
  absl::StatusOr<std::unique_ptr<Connection>> Accept(const std::shared_ptr<Offers>& offers, CmId id,
                                                     const Envelope& client, const ReadDepths& depths,
                                                     absl::string_view welcome, const Terms& terms);

 private:
  // What an epoll event is about.
  enum Source : uint32_t { kCompletions, kManager, kTimer, kWake, kAsync, kSources };

  // So many completions there are for the user; and whether there were no others.
  struct Taken {
    size_t count;
    bool drained;
  };

  explicit VerbsEndpoint(const TransportOptions& options) : options_(options), tick_ns_(TickNs(options.liveness_ms)) {}
  absl::Status Begin();
  absl::Status UseDeviceTowards(const Address& address);
  absl::Status Use(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers);
  absl::Status BeginOnDevice();
  void LeaveDevice();
  bool idle() const;
  bool Watch(int descriptor, uint32_t what);
  std::unique_ptr<VerbsConnection> MakeConnection(Role role);
  void LeaveIfUnfit(const VerbsConnection* connection);

  // AsyncSink, on another thread perhaps:
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
  EventChannel channel_;
  Buffers buffers_;
  ConnectionTable connections_;
  std::optional<EndpointDevice> device_;  // empty: none at present

  uint32_t polls_until_check_ = kPollsPerEventCheck;
  int64_t next_tick_ns_ = 0;  // 0: none is due

  std::atomic<int> queues_lost_{-1};  // the ibv_event_type that says so, or -1
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_H_
