#include "rdma/tcp/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "rdma/clock.h"
#include "rdma/durations.h"
#include "rdma/host/processor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/tcp/frame.h"

namespace farlook::rdma::tcp {
namespace {

// A bit in the pointers that epoll keeps: the event belongs to the second socket.
constexpr uint64_t kOfReads = 1;
static_assert(alignof(TcpConnection) > kOfReads);

int64_t NowNs() { return Clock::Real().NowNs(); }

// The address by which peers name the first byte of a buffer. A multiple of 8 is one in memory too, because READs
// consist of whole words.
uint64_t Lead(absl::Span<const char> memory) { return reinterpret_cast<uintptr_t>(memory.data()) % 8; }

class TcpBuffer final : public Buffer {
 public:
  // `mapping` holds the memory, or nothing if the memory is the user's.
  TcpBuffer(TcpEndpoint* endpoint, Mapping mapping, absl::Span<char> memory, uint32_t rkey)
      : endpoint_(endpoint), mapping_(std::move(mapping)) {
    bytes_ = memory;
    if (rkey == 0) return;
    remote_.address = Lead(memory);
    remote_.bytes = bytes_.size();
    remote_.rkey = rkey;
  }
  ~TcpBuffer() override {
    if (remote_.rkey != 0) endpoint_->Free(remote_.rkey);
  }

 private:
  TcpEndpoint* const endpoint_;
  const Mapping mapping_;
};

void Remove(std::vector<TcpConnection*>& from, TcpConnection* connection) {
  from.erase(std::remove(from.begin(), from.end(), connection), from.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpEndpoint>> TcpEndpoint::Create(const TransportOptions& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(std::move(epoll), std::move(timer), options));
  uint32_t timer_watched = 0, wake_watched = 0;
  if (!endpoint->epoll_.ok() || !endpoint->timer_.ok() || !endpoint->wake_.ok() ||
      !endpoint->Watch(endpoint->timer_.get(), nullptr, false, EPOLLIN, &timer_watched) ||
      !endpoint->Watch(endpoint->wake_.fd(), nullptr, false, EPOLLIN, &wake_watched)) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make descriptors for an endpoint: ", strerror(errno),
                                                     " (see ulimit -n for the limit of open files)"));
  }
  if (!endpoint->arena_.ok()) return absl::ResourceExhaustedError("no memory for an endpoint to receive messages in");
  return endpoint;
}

TcpEndpoint::TcpEndpoint(UniqueFd epoll, UniqueFd timer, const TransportOptions& options)
    : epoll_(std::move(epoll)), timer_(std::move(timer)), options_(options) {}

absl::StatusOr<std::unique_ptr<Connection>> TcpEndpoint::Connect(absl::string_view address, absl::string_view hello,
                                                                 int64_t timeout_ms) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->scheme != Scheme::kTcp) {
    return absl::InvalidArgumentError(absl::StrCat("an endpoint for tcp:// cannot connect to ", address));
  }
  if (hello.size() > kMaxHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello of ", hello.size(), " bytes; the limit is ", kMaxHelloBytes));
  }
  const int64_t timeout_ns = NsOfMs(timeout_ms);
  auto connection = std::make_unique<TcpConnection>(
      static_cast<ConnectionHost*>(this), Candidates(resolver()->LookUp(parsed->host), *parsed),
      Way{.shown = std::string(address), .liveness_ms = options_.liveness_ms, .until_ns = NowNs() + timeout_ns}, hello);
  all_.push_back(connection.get());
  connection->Begin();
  return connection;
}

Resolver* TcpEndpoint::resolver() {
  if (resolver_ == nullptr) resolver_ = std::make_unique<Resolver>([this] { wake_.Wake(); });
  return resolver_.get();
}

std::unique_ptr<Connection> TcpEndpoint::Adopt(UniqueFd socket, std::shared_ptr<ReadGrant> grant, ReadServer* server,
                                               absl::string_view welcome) {
  auto connection = std::make_unique<TcpConnection>(static_cast<ConnectionHost*>(this), std::move(socket),
                                                    std::move(grant), server, welcome, options_.liveness_ms);
  all_.push_back(connection.get());
  return connection;
}

absl::StatusOr<std::unique_ptr<Buffer>> TcpEndpoint::Allocate(size_t bytes, bool readable_by_peers) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of 0 bytes");
  absl::StatusOr<Mapping> mapping = MapAnonymous(bytes);
  if (!mapping.ok()) return mapping.status();
  const absl::Span<char> memory(mapping->data(), mapping->bytes());
  return std::make_unique<TcpBuffer>(this, *std::move(mapping), memory, readable_by_peers ? Offer(memory) : 0);
}

absl::StatusOr<std::unique_ptr<Buffer>> TcpEndpoint::Register(absl::Span<char> memory) {
  return std::make_unique<TcpBuffer>(this, Mapping(), memory, Offer(memory));
}

// Assigns memory a key with which peers READ it.
uint32_t TcpEndpoint::Offer(absl::Span<char> memory) {
  while (next_rkey_ == 0 || buffers_.count(next_rkey_) > 0) ++next_rkey_;
  buffers_[next_rkey_] = memory;
  return next_rkey_++;
}

void TcpEndpoint::Free(uint32_t rkey) {
  const absl::Span<char> bytes = buffers_[rkey];
  buffers_.erase(rkey);
  for (TcpConnection* connection : all_) connection->OnFreed(bytes.data(), bytes.data() + bytes.size());
}

const char* TcpEndpoint::Find(const ReadOrder& order) {
  const auto found = buffers_.find(order.rkey);
  if (found == buffers_.end()) return nullptr;
  const uint64_t lead = Lead(found->second);
  if (order.address < lead || !LiesWithin(order, lead + found->second.size())) return nullptr;
  return found->second.data() + (order.address - lead);
}

bool TcpEndpoint::LeaveToParent() {
  for (TcpConnection* connection : all_) connection->LeaveToParent();
  epoll_.reset();
  timer_.reset();
  wake_.Close();
  return true;
}

// ---- Polling ----

size_t TcpEndpoint::Poll(absl::Span<Completion> out) {
  arena_.Reset();
  ++quiet_polls_;
  // At once after sleeping, and while data arrives; otherwise only sometimes, since checking costs a system call.
  const uint32_t polls_per_check = quiet_polls_ < kQuietPolls && !all_.empty() ? 1 : kPollsPerQuietCheck;
  const bool slept = std::exchange(armed_, false);
  if (slept) ClearActive();
  if (slept || quiet_polls_ % polls_per_check == 0) CheckEvents();
  if (out.empty()) return 0;

  size_t count = 0;
  turns_.swap(waiting_);
  size_t turn = 0;
  for (; turn < turns_.size() && count < out.size() && !arena_.full(); ++turn) {
    TcpConnection* const connection = turns_[turn];
    connection->waits_turn = false;
    const size_t added = connection->Poll(out.subspan(count), &arena_);
    count += added;
    if (added > 0 && !std::exchange(connection->active, true)) active_.push_back(connection);
    if (connection->unfinished()) PollAgain(connection);
  }
  // A connection without a turn is first next time.
  waiting_.insert(waiting_.begin(), turns_.begin() + static_cast<ptrdiff_t>(turn), turns_.end());
  turns_.clear();
  return count;
}

void TcpEndpoint::PollAgain(TcpConnection* connection) {
  if (connection->waits_turn) return;
  connection->waits_turn = true;
  waiting_.push_back(connection);
}

void TcpEndpoint::CheckEvents() {
  epoll_event events[kEventsPerCheck];
  const int count = epoll_wait(epoll_.get(), events, kEventsPerCheck, /*timeout=*/0);
  if (count > 0) quiet_polls_ = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = events[i].data.u64;
    if (mark == 0) {
      uint64_t expirations;
      if (read(timer_.get(), &expirations, sizeof(expirations)) > 0) timer_ns_ = 0;
      wake_.Clear();
      OnAnswered();
      continue;
    }
    auto* const connection = reinterpret_cast<TcpConnection*>(mark & ~kOfReads);
    connection->OnEvent((mark & kOfReads) != 0);
    PollAgain(connection);
  }
  Tick();
}

// The resolver may have woken this side.
void TcpEndpoint::OnAnswered() {
  if (resolver_ == nullptr) return;
  for (TcpConnection* connection : all_) {
    if (connection->dials()) PollAgain(connection);
  }
}

// Not more often than this side polls: one that did not poll must not blame the peer.
void TcpEndpoint::Tick() {
  const int64_t now_ns = NowNs();
  if (now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + kTickMs * 1'000'000;
  for (TcpConnection* connection : all_) {
    if (connection->ticks()) connection->Tick(now_ns);
  }
}

// ---- Sleeping ----

bool TcpEndpoint::Arm() {
  armed_ = true;
  if (std::exchange(room_came_, false) || !waiting_.empty()) return false;
  if (timer_ns_ == 0 && AnyTicks()) {
    timer_ns_ = next_tick_ns_;
    itimerspec when = {};
    when.it_value.tv_sec = timer_ns_ / 1'000'000'000;
    when.it_value.tv_nsec = timer_ns_ % 1'000'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }
  return true;
}

bool TcpEndpoint::AnyTicks() const {
  return std::any_of(all_.begin(), all_.end(), [](const TcpConnection* connection) { return connection->ticks(); });
}

void TcpEndpoint::ClearActive() {
  for (TcpConnection* connection : active_) connection->active = false;
  active_.clear();
}

PeerActivity TcpEndpoint::peer_activity() const {
  const uint32_t here = ThisProcessor();
  for (TcpConnection* connection : active_) {
    if (here == 0 || connection->peer_processor() != here) return PeerActivity::kElsewhere;
  }
  return active_.empty() ? PeerActivity::kNone : PeerActivity::kHere;
}

// ---- Bookkeeping ----

bool TcpEndpoint::Watch(int socket, TcpConnection* connection, bool of_reads, uint32_t wanted, uint32_t* watched) {
  if (wanted == *watched) return true;
  epoll_event event = {};
  event.events = wanted;
  event.data.u64 = reinterpret_cast<uintptr_t>(connection) | (of_reads ? kOfReads : 0);
  const int operation = *watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  *watched = wanted;
  return epoll_ctl(epoll_.get(), operation, socket, &event) == 0;
}

void TcpEndpoint::Unwatch(int socket) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr); }

void TcpEndpoint::Forget(TcpConnection* connection) {
  Remove(all_, connection);
  Remove(waiting_, connection);
  Remove(turns_, connection);
  Remove(active_, connection);
}

}  // namespace farlook::rdma::tcp
