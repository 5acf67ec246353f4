// One RDMA device as used by one listener, or one client's endpoint: an open context, a protection domain, the device's
// capabilities, and its asynchronous events.
//
// A listener and its endpoints share one, so that the memory that the listener offers is registered once. A client's
// endpoint opens the device for itself, so that a failure there ends no other endpoint's connections. A lost Device
// stays lost: its users release it, and open another one when the device is back.
//
// fork(): with kernels from 5.12 on a child gets copies of pinned pages, and nothing is needed. For older ones
// ibv_fork_init() keeps registered memory out of children. A child must never use connections of its parent, nor
// destroy their objects (Endpoint::LeaveToParent).
//
// Thread safety: any thread may use a Device. One thread (the listener's, or the client's) reads its asynchronous
// events and notifies the sinks.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_DEVICE_H_
#define FARLOOK_RDMA_VERBS_DEVICE_DEVICE_H_

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

// Is notified of asynchronous events, on the thread that reads them. It must not call the device back.
class AsyncSink {
 public:
  virtual ~AsyncSink() = default;
  // The device is lost, or a queue that all connections share failed.
  virtual void OnQueuesLost(ibv_event_type event) = 0;
  // There is work for the sink's owner on its own thread: for example, a queue pair's `failed` was set.
  virtual void OnSomethingToDo() = 0;
};

// Target of a queue pair's qp_context.
struct QueuePairEvents {
  AsyncSink* sink = nullptr;
  std::atomic<int> failed{-1};  // the ibv_event_type that ended it, or -1
};

class Device {
 public:
  // The threads that post to its queue pairs. With kOneThread they are created in a thread domain, if the provider has
  // any: then each has its own doorbell and takes no locks. See "Thread domains" in docs/design-notes.md.
  enum class Posters { kOneThread, kSeveralThreads };

  // Opens the device and queries its port. Errors as in diagnosis.h.
  static absl::StatusOr<std::shared_ptr<Device>> Open(DevicePort at, Posters posters);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return at_.name; }
  uint8_t port() const { return at_.port; }
  // Compares not only the name: a device that was removed and returned is another.
  bool Is(ibv_device* device) const {
    return name() == ibv_get_device_name(device) &&
           ibv_get_device_index(device) == ibv_get_device_index(context_->device);
  }
  ibv_context* context() const { return context_.get(); }
  // Memory and shared receive queues are registered here.
  ibv_pd* domain() const { return domain_.get(); }
  // Queue pairs are created here: domain(), or its parent domain with the thread domain in it. For the device both are
  // one, so that the keys of memory in domain() are valid there.
  ibv_pd* queue_pair_domain() const { return parent_domain_ != nullptr ? parent_domain_.get() : domain_.get(); }
  const DeviceTraits& traits() const { return traits_; }

  // Set by events. Any thread.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  // Returns the sentence of PortDown(), or nothing: queries the device, for messages about failures.
  std::string PortTrouble() const;
  // Returns whether the connection manager must not send anything now. On Soft-RoCE, sending while the interface is
  // down ends its own queue pair permanently (Linux 6.1, "A port that is down" in docs/design-notes.md). Queries the
  // device.
  bool MustBeSilent() const;

  // Readable when HandleEvents() has work. One thread. The second is -1 at an address of all interfaces, where the
  // connection manager does not report the removal.
  std::array<int, 2> event_fds() const { return {context_->async_fd, at_.channel != nullptr ? at_.channel->fd : -1}; }
  void HandleEvents();
  // Any thread. SetRemoved: the kernel reported the removal. SetGone: it may still exist for others.
  void SetGone();
  void SetRemoved();
  // For a child of fork(): closes its copies of the descriptors. After that it must not even be destroyed.
  void LeaveToParent() const;

  // Between these calls the sink is notified. REQUIRES that its queues are destroyed before it is removed.
  void AddSink(AsyncSink* sink);
  void RemoveSink(AsyncSink* sink);

 private:
  struct Closer {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
    void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
    void operator()(ibv_td* domain) const { ibv_dealloc_td(domain); }
  };

  Device(DevicePort at, ibv_context* context) : at_(std::move(at)), context_(context) {}
  absl::Status Begin();
  // Returns nothing if the port is active, or cannot be queried.
  std::optional<ibv_port_state> InactiveState() const;
  void MakeThreadDomain();
  void Handle(const ibv_async_event& event);
  void NotifyAll(ibv_event_type event);

  const DevicePort at_;
  const std::unique_ptr<ibv_context, Closer> context_;
  // Destroyed from the last to the first.
  std::unique_ptr<ibv_pd, Closer> domain_;
  std::unique_ptr<ibv_td, Closer> thread_domain_;  // null: none
  std::unique_ptr<ibv_pd, Closer> parent_domain_;  // of both; null: none
  DeviceTraits traits_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> removed_{false};
  absl::Mutex mutex_;
  std::vector<AsyncSink*> sinks_ ABSL_GUARDED_BY(mutex_);
};

// During its lifetime a sink is notified of a device's events. It must outlive the sink's queues.
class SinkRegistration {
 public:
  SinkRegistration(Device* device, AsyncSink* sink) : device_(device), sink_(sink) { device_->AddSink(sink_); }
  ~SinkRegistration() { device_->RemoveSink(sink_); }
  SinkRegistration(const SinkRegistration&) = delete;
  SinkRegistration& operator=(const SinkRegistration&) = delete;
  AsyncSink* sink() const { return sink_; }

 private:
  Device* const device_;
  AsyncSink* const sink_;
};

// A memory region with one owner.
struct RegionCloser {
  void operator()(ibv_mr* region) const { ibv_dereg_mr(region); }
};
using MemoryRegion = std::unique_ptr<ibv_mr, RegionCloser>;

// `access`: ibv_access_flags besides LOCAL_WRITE. Errors as for CannotRegister(); `what` is used in them.
absl::StatusOr<MemoryRegion> Register(const Device& device, void* data, uint64_t bytes, int access,
                                      absl::string_view what);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_DEVICE_H_
