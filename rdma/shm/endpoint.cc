#include "rdma/shm/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "rdma/durations.h"
#include "rdma/host/processor.h"
#include "rdma/host/sealed_memory.h"

namespace farlook::rdma::shm {
namespace {

constexpr int kEventsPerCheck = 64;

class ShmBuffer final : public Buffer {
 public:
  ShmBuffer(ShmEndpoint* endpoint, UniqueFd fd, Mapping mapping, const RemoteRange& remote)
      : endpoint_(endpoint), fd_(std::move(fd)), mapping_(std::move(mapping)) {
    bytes_ = absl::MakeSpan(mapping_.data(), mapping_.bytes());
    remote_ = remote;
  }
  ~ShmBuffer() override {
    if (remote_.rkey != 0) endpoint_->Free(remote_.rkey);
  }

 private:
  ShmEndpoint* const endpoint_;
  const UniqueFd fd_;
  const Mapping mapping_;
};

void Remove(std::vector<ShmConnection*>& from, ShmConnection* connection) {
  from.erase(std::remove(from.begin(), from.end(), connection), from.end());
}

absl::Status NoDescriptors(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make ", what, ": ", strerror(errno), " (see ulimit -n for the limit of open files)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmEndpoint>> ShmEndpoint::Create(Disposal* disposal) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.ok()) return NoDescriptors("an epoll descriptor");
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.ok()) return NoDescriptors("a timer");
  std::unique_ptr<ShmEndpoint> endpoint(new ShmEndpoint(std::move(epoll), std::move(timer), disposal));
  if (!endpoint->wake_.ok()) return NoDescriptors("an event descriptor");
  if (!endpoint->arena_.ok()) return absl::ResourceExhaustedError("no memory for an endpoint to receive messages in");
  if (!endpoint->Watch(endpoint->timer_.get(), nullptr, /*writing=*/false) ||
      !endpoint->Watch(endpoint->wake_.fd(), nullptr, /*writing=*/false)) {
    return NoDescriptors("an epoll entry");
  }
  return endpoint;
}

ShmEndpoint::ShmEndpoint(UniqueFd epoll, UniqueFd timer, Disposal* disposal)
    : epoll_(std::move(epoll)), timer_(std::move(timer)), disposal_(disposal), clock_(Clock::Real()) {}

absl::StatusOr<std::unique_ptr<Connection>> ShmEndpoint::Connect(absl::string_view address, absl::string_view hello,
                                                                 int64_t timeout_ms) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->scheme != Scheme::kShm) {
    return absl::InvalidArgumentError(absl::StrCat("an endpoint for shm:// cannot connect to ", address));
  }
  if (hello.size() > kMaxHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello of ", hello.size(), " bytes; the limit is ", kMaxHelloBytes));
  }
  const int64_t timeout_ns = NsOfMs(timeout_ms);
  auto dialer = std::make_unique<Dialer>(parsed->path, hello, clock_.NowNs() + timeout_ns);
  auto connection = std::make_unique<ShmConnection>(static_cast<ConnectionHost*>(this), std::move(dialer));
  all_.push_back(connection.get());
  dialing_.push_back(connection.get());
  connection->Step(clock_.NowNs());
  return connection;
}

std::unique_ptr<Connection> ShmEndpoint::Adopt(Link link) {
  auto connection = std::make_unique<ShmConnection>(static_cast<ConnectionHost*>(this), std::move(link));
  all_.push_back(connection.get());
  return connection;
}

absl::StatusOr<std::unique_ptr<Buffer>> ShmEndpoint::Allocate(size_t bytes, bool readable_by_peers) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of 0 bytes");
  if (!readable_by_peers) {
    absl::StatusOr<Mapping> mapping = MapAnonymous(bytes);
    if (!mapping.ok()) return mapping.status();
    return std::make_unique<ShmBuffer>(this, UniqueFd(), *std::move(mapping), RemoteRange());
  }
  absl::StatusOr<UniqueFd> fd = CreateSealable("farlook-buffer", bytes);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<Mapping> mapping = Map(fd->get(), bytes, /*writable=*/true);
  if (!mapping.ok()) return mapping.status();
  // Peers accept no other memory: see PeerMemory::AddBuffer.
  if (absl::Status status = Populate(fd->get(), mapping->bytes()); !status.ok()) return status;
  if (absl::Status status = Seal(fd->get(), Sealing::kReadOnly); !status.ok()) return status;
  absl::StatusOr<uint32_t> rkey = buffers_.Add(fd->get(), mapping->bytes());
  if (!rkey.ok()) return rkey.status();
  RemoteRange remote;
  remote.bytes = mapping->bytes();
  remote.rkey = *rkey;
  for (ShmConnection* connection : all_) connection->Offer({fd->get(), remote.rkey, remote.bytes});
  return std::make_unique<ShmBuffer>(this, *std::move(fd), *std::move(mapping), remote);
}

void ShmEndpoint::Free(uint32_t rkey) {
  buffers_.Remove(rkey);
  for (ShmConnection* connection : all_) connection->Withdraw(rkey);
}

// ---- Polling ----

size_t ShmEndpoint::Poll(absl::Span<Completion> out) {
  arena_.Reset();
  if (ABSL_PREDICT_FALSE(armed_)) {
    Disarm();
    polls_until_check_ = 1;
  }
  if (ABSL_PREDICT_FALSE(--polls_until_check_ == 0)) CheckEvents();
  if (ABSL_PREDICT_FALSE(!dialing_.empty())) StepDialing();
  if (out.empty()) return 0;
  // Most clients have one connection, and so have some workers.
  if (polled_.size() == 1) return PollOne(polled_[0], out);
  return PollInTurn(out);
}

[[gnu::always_inline]] inline size_t ShmEndpoint::PollOne(ShmConnection* connection, absl::Span<Completion> out) {
  const size_t added = connection->Poll(out, &arena_);
  if (added != 0) {
    connection->active = true;
    connection->silent_polls = 0;
  }
  return added;
}

ABSL_ATTRIBUTE_NOINLINE size_t ShmEndpoint::PollInTurn(absl::Span<Completion> out) {
  const size_t turns = polled_.size();
  if (next_turn_ >= turns) next_turn_ = 0;
  size_t index = next_turn_++;
  size_t count = 0;
  for (size_t turn = 0; turn < turns && index < polled_.size(); ++turn) {
    // A connection without a turn is first next time.
    if (ABSL_PREDICT_FALSE(count == out.size() || arena_.full())) {
      next_turn_ = index;
      return count;
    }
    ShmConnection* const connection = polled_[index];
    const size_t added = PollOne(connection, absl::MakeSpan(out.data() + count, out.size() - count));
    count += added;
    if (added == 0 && polled_.size() > kAlwaysPolled && ++connection->silent_polls > kSilentPolls) [[unlikely]]
      RetireSilent(index);
    if (++index >= turns) index = 0;
  }
  return count;
}

// Stops polling the connection, unless something arrived just now. The connection that takes its place in the list
// waits for the next Poll.
void ShmEndpoint::RetireSilent(size_t index) {
  ShmConnection* const connection = polled_[index];
  connection->silent_polls = 0;
  connection->SetSleeping(true);
  RingConsumer::FenceSleep();
  if (connection->Ready()) {
    connection->SetSleeping(false);
    return;
  }
  connection->polled = false;
  polled_[index] = polled_.back();
  polled_.pop_back();
}

void ShmEndpoint::PollAgain(ShmConnection* connection) {
  if (connection->polled) return;
  connection->polled = true;
  connection->silent_polls = 0;
  connection->SetSleeping(false);
  polled_.push_back(connection);
}

void ShmEndpoint::CheckEvents() {
  polls_until_check_ = kPollsPerEventCheck;
  processor_ = ThisProcessor();
  epoll_event events[kEventsPerCheck];
  const int count = epoll_wait(epoll_.get(), events, kEventsPerCheck, /*timeout=*/0);
  for (int i = 0; i < count; ++i) {
    auto* const connection = static_cast<ShmConnection*>(events[i].data.ptr);
    if (connection == nullptr) {
      uint64_t expirations;
      [[maybe_unused]] const ssize_t bytes = read(timer_.get(), &expirations, sizeof(expirations));
      wake_.Clear();
      continue;
    }
    PollAgain(connection);
    connection->OnEvent();
  }
  // More may wait.
  if (count == kEventsPerCheck) polls_until_check_ = 1;
}

void ShmEndpoint::StepDialing() {
  const int64_t now_ns = clock_.NowNs();
  for (ShmConnection* connection : dialing_) {
    if (connection->dialing()) connection->Step(now_ns);
  }
  dialing_.erase(std::remove_if(dialing_.begin(), dialing_.end(),
                                [](const ShmConnection* connection) { return !connection->dialing(); }),
                 dialing_.end());
}

// ---- Sleeping ----

bool ShmEndpoint::Arm() {
  armed_ = true;
  for (ShmConnection* connection : polled_) connection->SetSleeping(true);
  RingConsumer::FenceSleep();
  for (ShmConnection* connection : polled_) {
    if (connection->Ready()) {
      Disarm();
      return false;
    }
  }
  if (!dialing_.empty()) SetTimer();
  return true;
}

void ShmEndpoint::Disarm() {
  armed_ = false;
  for (ShmConnection* connection : polled_) {
    connection->SetSleeping(false);
    connection->active = false;
  }
}

PeerActivity ShmEndpoint::peer_activity() const {
  const uint32_t here = ThisProcessor();
  PeerActivity active = PeerActivity::kNone;
  for (const ShmConnection* connection : polled_) {
    if (!connection->active) continue;
    if (connection->peer_processor() != here) return PeerActivity::kElsewhere;
    active = PeerActivity::kHere;
  }
  return here == 0 ? PeerActivity::kElsewhere : active;
}

void ShmEndpoint::SetTimer() {
  int64_t due_ns = INT64_MAX;
  for (const ShmConnection* connection : dialing_) {
    if (connection->dialing()) due_ns = std::min(due_ns, connection->due_ns());
  }
  if (due_ns == INT64_MAX) return;
  due_ns = std::max<int64_t>(due_ns, 1);  // 0 would stop the timer
  itimerspec when = {};
  when.it_value.tv_sec = due_ns / 1'000'000'000;
  when.it_value.tv_nsec = due_ns % 1'000'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

bool ShmEndpoint::LeaveToParent() {
  for (ShmConnection* connection : all_) connection->LeaveToParent();
  epoll_.reset();
  timer_.reset();
  wake_.Close();
  return true;
}

// ---- Bookkeeping ----

bool ShmEndpoint::Watch(int socket, ShmConnection* connection, bool writing) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (writing) event.events |= EPOLLOUT;
  event.data.ptr = connection;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) == 0) return true;
  return errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event) == 0;
}

void ShmEndpoint::Unmap(Mapping mapping) {
  if (disposal_ != nullptr) disposal_->Take(std::move(mapping));
}

void ShmEndpoint::Unwatch(int socket) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr); }

void ShmEndpoint::Forget(ShmConnection* connection) {
  Remove(polled_, connection);
  Remove(dialing_, connection);
  Remove(all_, connection);
}

}  // namespace farlook::rdma::shm
