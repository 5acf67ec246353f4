#include "rdma/verbs/device/device.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device/diagnosis.h"

namespace farlook::rdma::verbs {
namespace {

// Runs once, before anything is registered. Its failure only leaves forking unsafe, which few programs do.
void PrepareForFork() {
  static const int done = [] {
    // If the kernel copies pinned pages at fork (Linux 5.12), nothing is needed. With ibv_fork_init(), every
    // registration would read /proc/self/smaps.
    if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED) return 0;
    // Registered memory may be in huge pages, whose size ibv_fork_init() must then query.
    setenv("RDMAV_HUGEPAGES_SAFE", "1", /*overwrite=*/0);
    return ibv_fork_init();
  }();
  (void)done;
}

ibv_context* OpenByName(const std::string& name, int* error) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  *error = errno;
  if (devices == nullptr) return nullptr;
  *error = ENODEV;
  ibv_context* context = nullptr;
  for (int i = 0; i < count; ++i) {
    if (name != ibv_get_device_name(devices[i])) continue;
    context = ibv_open_device(devices[i]);
    *error = errno;
  }
  ibv_free_device_list(devices);
  return context;
}

// librdmacm has opened the device too, and keeps it open until the process ends, or until it notices at some time that
// the device is gone; Soft-RoCE and siw are not removed before. So this closes the files behind librdmacm's context,
// which is only closed from then on. REQUIRES: an id is bound to the device; otherwise the context itself may be gone.
void CloseFiles(const ibv_context* context) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  dup3(nothing, context->async_fd, O_CLOEXEC);
  dup3(nothing, context->cmd_fd, O_CLOEXEC);
  close(nothing);
}

uint32_t NotNegative(int value) { return value > 0 ? static_cast<uint32_t>(value) : 0; }

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> Device::Open(DevicePort at, Posters posters) {
  PrepareForFork();
  int error = 0;
  ibv_context* const context = OpenByName(at.name, &error);
  if (context == nullptr) return CannotOpen(at.name, error);
  std::shared_ptr<Device> device(new Device(std::move(at), context));
  if (absl::Status status = device->Begin(); !status.ok()) return status;
  if (posters == Posters::kOneThread) device->MakeThreadDomain();
  return device;
}

Device::~Device() {
  if (removed_.load(std::memory_order_relaxed) && at_.id != nullptr) CloseFiles(at_.id->verbs);
}

void Device::LeaveToParent() const {
  close(context_->async_fd);
  close(context_->cmd_fd);
  if (at_.channel != nullptr) close(at_.channel->fd);
}

absl::Status Device::Begin() {
  ibv_device_attr attributes = {};
  if (const int error = ibv_query_device(context_.get(), &attributes); error != 0) return CannotOpen(at_.name, error);
  ibv_port_attr port = {};
  if (const int error = ibv_query_port(context_.get(), at_.port, &port); error != 0) return CannotOpen(at_.name, error);
  traits_.iwarp = context_->device->transport_type == IBV_TRANSPORT_IWARP;
  traits_.atomics = HasAtomics(attributes.atomic_cap);
  traits_.max_serve_reads = NotNegative(attributes.max_qp_rd_atom);
  traits_.max_ask_reads = NotNegative(attributes.max_qp_init_rd_atom);
  traits_.max_send_wrs = NotNegative(attributes.max_qp_wr);
  traits_.max_sges = NotNegative(attributes.max_sge);
  traits_.max_read_sges = NotNegative(attributes.max_sge_rd);
  traits_.max_completions = NotNegative(attributes.max_cqe);
  traits_.max_shared_receives = attributes.max_srq > 0 ? NotNegative(attributes.max_srq_wr) : 0;
  traits_.max_message_bytes = port.max_msg_sz;
  traits_.max_region_bytes = attributes.max_mr_size;
  fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
  domain_.reset(ibv_alloc_pd(context_.get()));
  if (domain_ == nullptr) return CannotCreate("a protection domain", at_.name, errno);
  return absl::OkStatus();
}

// Whatever the reason of a failure, queue pairs work without: the provider has no thread domains (EOPNOTSUPP), or the
// adapter has no doorbell left. A real fault shows when the queue pair is created.
void Device::MakeThreadDomain() {
  ibv_td_init_attr of_thread = {};
  thread_domain_.reset(ibv_alloc_td(context_.get(), &of_thread));
  if (thread_domain_ == nullptr) return;
  ibv_parent_domain_init_attr of_both = {};
  of_both.pd = domain_.get();
  of_both.td = thread_domain_.get();
  parent_domain_.reset(ibv_alloc_parent_domain(context_.get(), &of_both));
  if (parent_domain_ == nullptr) thread_domain_.reset();
}

std::string Device::PortTrouble() const {
  if (gone()) return std::string(DeviceGone(at_.name).message());
  const std::optional<ibv_port_state> state = InactiveState();
  return state.has_value() ? PortDown(at_.name, *state) : "";
}

bool Device::MustBeSilent() const { return !traits_.iwarp && !gone() && InactiveState().has_value(); }

std::optional<ibv_port_state> Device::InactiveState() const {
  ibv_port_attr port = {};
  if (ibv_query_port(context_.get(), at_.port, &port) != 0 || port.state == IBV_PORT_ACTIVE) return std::nullopt;
  return port.state;
}

// ---- Asynchronous events ----

void Device::HandleEvents() {
  ibv_async_event event;
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    Handle(event);
    // Destroying a queue waits for this, so the object that the event names existed until now.
    ibv_ack_async_event(&event);
  }
  if (at_.channel == nullptr) return;
  ForEachEvent(at_.channel.get(), [this](const rdma_cm_event& told) {
    if (told.event == RDMA_CM_EVENT_DEVICE_REMOVAL) SetRemoved();
  });
}

void Device::Handle(const ibv_async_event& event) {
  switch (event.event_type) {
    // The queue pair is in the error state, or about to be: its connection ends.
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      auto* const events = static_cast<QueuePairEvents*>(event.element.qp->qp_context);
      events->failed.store(event.event_type, std::memory_order_relaxed);
      events->sink->OnSomethingToDo();
      return;
    }
    // Shared queues: all their connections end.
    case IBV_EVENT_CQ_ERR:
      static_cast<AsyncSink*>(event.element.cq->cq_context)->OnQueuesLost(event.event_type);
      return;
    case IBV_EVENT_SRQ_ERR:
      static_cast<AsyncSink*>(event.element.srq->srq_context)->OnQueuesLost(event.event_type);
      return;
    case IBV_EVENT_DEVICE_FATAL:
      SetGone();
      return;
    // A link that returns within the time of the retries causes no error; after that requests fail, and PortTrouble()
    // has the reason.
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      return;
    // The path, the address of the port, or its keys changed: requests go on, or fail, by themselves.
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    // A message arrived before the handshake ended: its completion shows that too.
    case IBV_EVENT_COMM_EST:
    // The limit is never armed: flow_control.h keeps shared receive queues filled.
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    // Queue pairs are never drained through that state, and work queues of the other kind are never created.
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_WQ_FATAL:
      return;
  }
}

void Device::SetGone() {
  // Each id that is bound to the device receives its removal; one notification is enough for all.
  if (!gone_.exchange(true, std::memory_order_relaxed)) NotifyAll(IBV_EVENT_DEVICE_FATAL);
}

void Device::SetRemoved() {
  removed_.store(true, std::memory_order_relaxed);
  SetGone();
}

void Device::NotifyAll(ibv_event_type event) {
  absl::MutexLock lock(&mutex_);
  for (AsyncSink* sink : sinks_) sink->OnQueuesLost(event);
}

void Device::AddSink(AsyncSink* sink) {
  absl::MutexLock lock(&mutex_);
  sinks_.push_back(sink);
}

void Device::RemoveSink(AsyncSink* sink) {
  absl::MutexLock lock(&mutex_);
  sinks_.erase(std::remove(sinks_.begin(), sinks_.end(), sink), sinks_.end());
}

absl::StatusOr<MemoryRegion> Register(const Device& device, void* data, uint64_t bytes, int access,
                                      absl::string_view what) {
  if (bytes > device.traits().max_region_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", bytes, " bytes are more than one memory region of the RDMA device ", device.name(),
                     " takes, ", device.traits().max_region_bytes, " (max_mr_size in ibv_devinfo -v)"));
  }
  MemoryRegion region(ibv_reg_mr(device.domain(), data, bytes, IBV_ACCESS_LOCAL_WRITE | access));
  if (region == nullptr) return CannotRegister(what, bytes, errno);
  return region;
}

}  // namespace farlook::rdma::verbs
