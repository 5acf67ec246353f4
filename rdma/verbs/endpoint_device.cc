// How a VerbsEndpoint comes by its device, and lets go of it. See endpoint.h.
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/diagnosis.h"
#include "rdma/verbs/endpoint.h"

namespace farlook::rdma::verbs {
namespace {

absl::Status NoDescriptors(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make ", what, ": ", strerror(errno), " (see ulimit -n for the limit of open files)"));
}

}  // namespace

// ---- Making ----

absl::StatusOr<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::ForClient(const Address& address,
                                                                        const TransportOptions& options) {
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(options));
  if (absl::Status status = endpoint->Begin(); !status.ok()) return status;
  if (absl::Status status = endpoint->UseDeviceTowards(address); !status.ok()) return status;
  return endpoint;
}

absl::StatusOr<std::unique_ptr<VerbsEndpoint>> VerbsEndpoint::ForServer(std::shared_ptr<Offers> offers,
                                                                        const TransportOptions& options) {
  std::shared_ptr<Device> device = offers->device;
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(options));
  if (absl::Status status = endpoint->Begin(); !status.ok()) return status;
  if (absl::Status status = endpoint->Use(std::move(device), std::move(offers)); !status.ok()) return status;
  return endpoint;
}

VerbsEndpoint::~VerbsEndpoint() {
  // What is parked is waited for: queue pairs go before their queues.
  parked_.clear();
  LeaveDevice();
}

// What there is without a device too.
absl::Status VerbsEndpoint::Begin() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.ok()) return NoDescriptors("an epoll descriptor");
  timer_ = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.ok()) return NoDescriptors("a timer");
  if (!wake_.ok()) return NoDescriptors("an event descriptor");
  absl::StatusOr<EventChannel> channel = MakeEventChannel();
  if (!channel.ok()) return channel.status();
  channel_ = *std::move(channel);
  const bool watched = Watch(channel_->fd, kManager) && Watch(timer_.get(), kTimer) && Watch(wake_.fd(), kWake);
  return watched ? absl::OkStatus() : NoDescriptors("an epoll entry");
}

// ---- Devices come and go ----

absl::Status VerbsEndpoint::UseDeviceTowards(const Address& address) {
  absl::StatusOr<SocketAddress> remote = Resolve(address);
  if (!remote.ok()) return remote.status();
  absl::StatusOr<DevicePort> port = DeviceTowards(*remote, FormatAddress(address));
  if (!port.ok()) return port.status();
  absl::StatusOr<std::shared_ptr<Device>> device = Device::Open(*std::move(port), Device::Posters::kOneThread);
  if (!device.ok()) return device.status();
  return Use(*std::move(device), nullptr);
}

absl::Status VerbsEndpoint::Use(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers) {
  device_ = std::move(device);
  offers_ = std::move(offers);
  device_->AddSink(this);
  absl::Status status = BeginOnDevice();
  // Told to those who were there then; who came later sees it here.
  if (status.ok() && device_->gone()) status = DeviceGone(device_->name());
  if (!status.ok()) LeaveDevice();
  return status;
}

absl::Status VerbsEndpoint::BeginOnDevice() {
  const Device* const device = device_.get();
  messages_.Begin(device);
  if (absl::Status status = memory_.Begin(device, offers_.get()); !status.ok()) return status;
  if (absl::Status status = receives_.Begin(device, /*shared=*/offers_ != nullptr, this); !status.ok()) return status;
  if (absl::Status status = completions_.Begin(device, receives_.shared_receives()); !status.ok()) return status;
  bool watched = Watch(completions_.fd(), kCompletions);
  if (offers_ != nullptr) return watched ? absl::OkStatus() : NoDescriptors("an epoll entry");
  for (const int descriptor : device->event_fds()) watched = watched && (descriptor < 0 || Watch(descriptor, kAsync));
  return watched ? absl::OkStatus() : NoDescriptors("an epoll entry");
}

// Nothing of the device is in use any more.
bool VerbsEndpoint::idle() const {
  const auto is_null = [](const VerbsConnection* connection) { return connection == nullptr; };
  return parked_.empty() && delivered_.empty() && std::all_of(by_tag_.begin(), by_tag_.end(), is_null);
}

// REQUIRES: idle(), but for messages that nobody asks for any more.
void VerbsEndpoint::LeaveDevice() {
  if (device_ == nullptr) return;
  silent_.clear();
  silent_until_ns_ = 0;
  backlog_.clear();
  backlog_begin_ = 0;
  delivered_.clear();
  receives_.End();
  completions_.End();
  messages_.End();
  memory_.End();
  device_->RemoveSink(this);
  offers_.reset();
  device_.reset();
}

// As if it were gone, unless others use it.
void VerbsEndpoint::OnDeviceUnfit(const VerbsConnection* connection) {
  const bool alone = std::all_of(by_tag_.begin(), by_tag_.end(), [connection](const VerbsConnection* other) {
    return other == nullptr || other == connection || !other->alive();
  });
  if (alone) device_->SetGone();
}

bool VerbsEndpoint::Watch(int descriptor, uint32_t what) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = what;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace farlook::rdma::verbs
