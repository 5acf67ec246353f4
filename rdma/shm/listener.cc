#include "rdma/shm/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/shm/endpoint.h"
#include "rdma/shm/limits.h"
#include "rdma/shm/packet_socket.h"
#include "rdma/shm/peer_memory.h"
#include "rdma/violations.h"

namespace farlook::rdma::shm {
namespace {

constexpr int kEventsPerLook = 32;
constexpr int kAcceptsPerLook = 64;

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

absl::Status NoDescriptors() {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a descriptor for the listener: ", strerror(errno), " (see ulimit -n)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmListener>> ShmListener::Create(const std::string& path,
                                                                 const TransportOptions& options) {
  absl::StatusOr<std::unique_ptr<LifeSign>> life = LifeSign::Create();
  if (!life.ok()) return life.status();
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  UniqueFd spare = OpenSpare();
  if (!epoll.ok() || !timer.ok() || !spare.ok()) return NoDescriptors();
  absl::StatusOr<SocketAddress> address = SocketAddress::Take(path, {options.socket_mode, options.socket_gid});
  if (!address.ok()) return address.status();
  std::unique_ptr<ShmListener> listener(
      new ShmListener(*std::move(address), std::move(epoll), std::move(timer), std::move(spare), *std::move(life)));
  if (listener->address_.news() >= 0 && !listener->Watch(listener->address_.news())) return NoDescriptors();
  if (!listener->disposal_.ok() || !listener->Watch(listener->disposal_.fd())) return NoDescriptors();
  if (!listener->Watch(listener->address_.socket()) || !listener->Watch(listener->timer_.get())) return NoDescriptors();
  return listener;
}

ShmListener::ShmListener(SocketAddress address, UniqueFd epoll, UniqueFd timer, UniqueFd spare,
                         std::unique_ptr<LifeSign> life)
    : address_(std::move(address)),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)),
      spare_(std::move(spare)),
      clock_(Clock::Real()),
      offers_(std::make_shared<Offers>()) {
  offers_->life = std::move(life);
}

std::string ShmListener::address() const { return absl::StrCat("shm://", address_.path()); }

absl::StatusOr<RemoteRange> ShmListener::Offer(const SharedRange& range, Access access) {
  const bool writable = access == Access::kRemoteReadAtomic;
  if (range.bytes == 0 || range.base == nullptr) return absl::InvalidArgumentError("an empty range");
  if (offers_->offers.size() == kMaxOffers) {
    return absl::ResourceExhaustedError(absl::StrCat("a listener offers at most ", kMaxOffers, " ranges"));
  }
  absl::Status sealed = CheckSealed(range.fd, writable ? Sealing::kFixedSize : Sealing::kReadOnly, range.bytes);
  if (!sealed.ok() && (writable || !CheckLasting(range.fd, geteuid(), range.bytes).ok())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "memory offered on shm must be sealed, or a file of this user (see rdma/shared_memory.h, rdma/memory_file.h): ",
        sealed.message()));
  }
  Offers::Offer offer;
  offer.fd = range.fd;
  offer.entry.bytes = range.bytes;
  offer.entry.rkey = kRangeSlots + kMaxBuffers + static_cast<uint32_t>(offers_->offers.size());
  offer.entry.writable = writable ? 1 : 0;
  offers_->offers.push_back(offer);
  RemoteRange remote;
  remote.bytes = range.bytes;
  remote.rkey = offer.entry.rkey;
  return remote;
}

absl::StatusOr<std::unique_ptr<Endpoint>> ShmListener::CreateEndpoint() {
  absl::StatusOr<std::unique_ptr<ShmEndpoint>> endpoint = ShmEndpoint::Create(&disposal_);
  if (!endpoint.ok()) return endpoint.status();
  return *std::move(endpoint);
}

// ---- Handshakes ----

std::unique_ptr<ConnectionRequest> ShmListener::Next() {
  if (requests_.empty()) {
    const int64_t now_ns = clock_.NowNs();
    epoll_event events[kEventsPerLook];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerLook, /*timeout=*/0);
    for (int i = 0; i < count; ++i) {
      const int ready = events[i].data.fd;
      if (ready == address_.socket()) {
        AcceptAll(now_ns);
      } else if (ready == address_.news()) {
        address_.Drain();
        file_status_ = address_.status();
      } else if (ready != timer_.get() && ready != disposal_.fd()) {
        ReadHello(ready);
      }
    }
    while (!pending_.empty() && pending_.front().deadline_ns <= now_ns) Drop(pending_.begin());
  }
  std::unique_ptr<ConnectionRequest> request;
  if (!requests_.empty()) {
    request = std::move(requests_.front());
    requests_.pop_front();
  }
  SetTimer();
  return request;
}

void ShmListener::AcceptAll(int64_t now_ns) {
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    UniqueFd socket(accept4(address_.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.ok()) {
      if (errno == EMFILE || errno == ENFILE) RefuseForLackOfDescriptors();
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    const int fd = socket.get();
    if (!Watch(fd)) continue;
    if (pending_.size() == kMaxPendingHandshakes) Drop(pending_.begin());
    pending_.push_back({std::move(socket), now_ns + kHandshakeTimeoutMs * 1'000'000});
    ReadHello(fd);  // it has usually arrived already
  }
}

// Refuses one client: otherwise the socket would stay readable and the server would spin.
void ShmListener::RefuseForLackOfDescriptors() {
  spare_.reset();
  UniqueFd socket(accept4(address_.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.ok()) SendReject(socket.get(), kNoDescriptorsLeft);
  socket.reset();
  spare_ = OpenSpare();
}

void ShmListener::ReadHello(int socket) {
  const auto pending =
      std::find_if(pending_.begin(), pending_.end(), [socket](const Pending& p) { return p.socket.get() == socket; });
  if (pending == pending_.end()) return;  // dropped in this very round
  ReceivedPacket packet;
  const Io received = ReceivePacket(socket, &packet);
  if (received == Io::kTryLater || received == Io::kNoMemory) return;
  if (received == Io::kDone) {
    HelloPacket hello;
    const absl::Status status = DecodeHello(packet.view(), &hello);
    if (status.ok() && packet.fds.empty()) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
      requests_.push_back(std::make_unique<ShmRequest>(std::move(pending->socket), hello, offers_));
      pending_.erase(pending);
      return;
    }
    NoteViolation(Violator::kStranger, DescribePeer(socket),
                  status.ok() ? "descriptors with its hello" : status.message());
    // A client of another version gets a reason. All else is noise.
    if (absl::IsFailedPrecondition(status)) SendReject(socket, status.message());
  }
  Drop(pending);
}

void ShmListener::Drop(const std::deque<Pending>::iterator& pending) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pending->socket.get(), nullptr);
  pending_.erase(pending);
}

// Makes fd() readable at once while requests wait, otherwise when the next handshake times out. Setting the timer again
// also makes it unreadable.
void ShmListener::SetTimer() {
  int64_t due_ns = 0;  // stopped
  if (!requests_.empty()) {
    due_ns = 1;
  } else if (!pending_.empty()) {
    due_ns = pending_.front().deadline_ns;
  }
  itimerspec when = {};
  when.it_value.tv_sec = due_ns / 1'000'000'000;
  when.it_value.tv_nsec = due_ns % 1'000'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

bool ShmListener::Watch(int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace farlook::rdma::shm
