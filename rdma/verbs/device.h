// One RDMA device as one listener, or one client's endpoint, uses it: an open context, a protection domain, what the
// device can do, and its asynchronous events.
//
// A listener and its endpoints share one, so that the memory that the listener offers is registered once. A client's
// endpoint opens the device for itself, so that a failure there ends no other endpoint's connections. A Device that is
// gone stays so: its users let go of it, and open another one when the device is back.
//
// fork(): with kernels from 5.12 on a child gets copies of pinned pages, and nothing is needed. For older ones
// ibv_fork_init() keeps registered memory out of children; a child must not use connections of its parent in any case.
//
// Thread safety: any thread may use a Device; its asynchronous events are read by one (the listener's, or the
// client's), and told to sinks from there.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_H_
#define FARLOOK_RDMA_VERBS_DEVICE_H_

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
#include "rdma/verbs/cm.h"
#include "rdma/verbs/negotiation.h"

namespace farlook::rdma::verbs {

// Is told of asynchronous events, on the thread that reads them. It must not call the device back.
class AsyncSink {
 public:
  virtual ~AsyncSink() = default;
  // The device is gone, or a queue that all connections share failed.
  virtual void OnQueuesLost(ibv_event_type event) = 0;
  // There is something to do for the sink's owner on its own thread: a queue pair's `failed` was set, for one.
  virtual void OnSomethingToDo() = 0;
};

// What a queue pair's qp_context points to.
struct QueuePairEvents {
  AsyncSink* sink = nullptr;
  std::atomic<int> failed{-1};  // the ibv_event_type that ended it, or -1
};

class Device {
 public:
  // Which threads post to its queue pairs. One: they are made in a thread domain, where the provider has any, so that
  // each has a doorbell of its own and takes no locks. See "Thread domains" in docs/design-notes.md.
  enum class Posters { kOneThread, kSeveralThreads };

  // Opens the device and looks at its port. Errors as of diagnosis.h.
  static absl::StatusOr<std::shared_ptr<Device>> Open(DevicePort at, Posters posters);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return at_.name; }
  uint8_t port() const { return at_.port; }
  // Not of the same name only: one that was taken away and came back is another.
  bool Is(ibv_device* device) const {
    return name() == ibv_get_device_name(device) &&
           ibv_get_device_index(device) == ibv_get_device_index(context_->device);
  }
  ibv_context* context() const { return context_.get(); }
  // Where memory and shared receive queues are registered.
  ibv_pd* domain() const { return domain_.get(); }
  // Where queue pairs are made: domain(), or its parent domain with the thread domain in it. For the device both are
  // one, so that the keys of memory in domain() hold there.
  ibv_pd* queue_pair_domain() const { return parent_domain_ != nullptr ? parent_domain_.get() : domain_.get(); }
  const DeviceTraits& traits() const { return traits_; }

  // Set by events. Any thread.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  // The sentence of PortDown(), or nothing: asks the device, for messages about what broke.
  std::string PortTrouble() const;
  // Whether the connection manager must not send anything now. On Soft-RoCE what it sends while the interface is down
  // ends its own queue pair for good (Linux 6.1, "A port that is down" in docs/design-notes.md). Asks the device.
  bool MustBeSilent() const;

  // Readable when HandleEvents() has something to do. One thread. The second is -1 at an address of all
  // interfaces, where the connection manager does not tell of the removal.
  std::array<int, 2> event_fds() const { return {context_->async_fd, at_.channel != nullptr ? at_.channel->fd : -1}; }
  void HandleEvents();
  // Any thread. Removed: the kernel said so. Else it may be there still, for others.
  void SetGone();
  void SetRemoved();

  // Between these calls the sink is told. REQUIRES that its queues are destroyed before it is removed.
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
  // Nothing where it is active, or does not say.
  std::optional<ibv_port_state> InactiveState() const;
  void MakeThreadDomain();
  void Handle(const ibv_async_event& event);
  void TellAll(ibv_event_type event);

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

// As long as it lives a sink is told of a device's events. It outlives the sink's queues.
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

// `access`: ibv_access_flags beside LOCAL_WRITE. Errors as of CannotRegister(); `what` is for them.
absl::StatusOr<MemoryRegion> Register(const Device& device, void* data, uint64_t bytes, int access,
                                      absl::string_view what);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_H_
