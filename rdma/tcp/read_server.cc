#include "rdma/tcp/read_server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/socket.h"
#include "rdma/violations.h"

namespace farlook::rdma::tcp {
namespace {

int64_t NowNs() { return Clock::Real().NowNs(); }

bool Random(void* to, size_t bytes) { return getrandom(to, bytes, 0) == static_cast<ssize_t>(bytes); }

template <typename T>
void Remove(std::vector<T*>& from, T* what) {
  from.erase(std::remove(from.begin(), from.end(), what), from.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadServer>> ReadServer::Start(std::vector<UniqueFd> listening, int64_t liveness_ms) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  const int error = errno;
  std::unique_ptr<ReadServer> server(new ReadServer(std::move(listening), std::move(epoll), liveness_ms));
  if (!server->epoll_.ok() || !server->wake_.ok() || !server->called_.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make descriptors for a listener: ", strerror(error),
                                                     " (see ulimit -n for the limit of open files)"));
  }
  // The pointer shows the thread the source of an event: a peer, the listening sockets, or wake_.
  epoll_event of_wake = {};
  of_wake.events = EPOLLIN;
  if (!server->WatchListening(EPOLL_CTL_ADD, EPOLLIN) ||
      epoll_ctl(server->epoll_.get(), EPOLL_CTL_ADD, server->wake_.fd(), &of_wake) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot wait at a listener: ", strerror(errno)));
  }
  // Signals are for the process' own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  try {
    server->thread_ = std::thread([server = server.get()] { server->Run(); });
    pthread_setname_np(server->thread_.native_handle(), "reads");
  } catch (const std::system_error& thrown) {
    started = absl::ResourceExhaustedError(absl::StrCat("cannot start a thread for a listener: ", thrown.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) return started;
  return server;
}

ReadServer::ReadServer(std::vector<UniqueFd> listening, UniqueFd epoll, int64_t liveness_ms)
    : listening_(std::move(listening)),
      epoll_(std::move(epoll)),
      liveness_ms_(liveness_ms),
      room_(new uint64_t[Channel::kRoomBytes / sizeof(uint64_t)]) {}

ReadServer::~ReadServer() {
  stopping_.store(true, std::memory_order_release);
  wake_.Wake();
  if (thread_.joinable()) thread_.join();
}

RemoteRange ReadServer::Offer(const SharedRange& range) {
  absl::MutexLock lock(&mutex_);
  uint32_t rkey = static_cast<uint32_t>(offered_.size()) + 1;
  if (!Random(&rkey, sizeof(rkey)) || Taken(rkey)) {
    for (rkey = 1; Taken(rkey);) ++rkey;
  }
  offered_.push_back({range.base, range.bytes, rkey});
  RemoteRange remote;
  remote.bytes = range.bytes;
  remote.rkey = rkey;
  return remote;
}

bool ReadServer::Taken(uint32_t rkey) const {
  return rkey == 0 || std::any_of(offered_.begin(), offered_.end(),
                                  [rkey](const ReadGrant::Range& other) { return other.rkey == rkey; });
}

std::optional<Caller> ReadServer::Next() {
  absl::MutexLock lock(&mutex_);
  if (callers_.empty()) {
    called_.Clear();
    return std::nullopt;
  }
  if (callers_.size() == kMaxRequests) wake_.Wake();  // it may accept again
  Caller caller = std::move(callers_.front());
  callers_.pop_front();
  return caller;
}

std::shared_ptr<ReadGrant> ReadServer::Admit(absl::Span<const uint32_t> rkeys, bool withheld) {
  auto grant = std::make_shared<ReadGrant>();
  if (!Random(grant->ticket.data(), grant->ticket.size())) return nullptr;
  grant->withheld.store(withheld, std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  for (const ReadGrant::Range& range : offered_) {
    if (std::find(rkeys.begin(), rkeys.end(), range.rkey) != rkeys.end()) grant->ranges.push_back(range);
  }
  expected_[grant->ticket] = grant;
  return grant;
}

void ReadServer::Dismiss(ReadGrant* grant) {
  grant->over.store(true, std::memory_order_release);
  {
    absl::MutexLock lock(&mutex_);
    expected_.erase(grant->ticket);
  }
  if (!grant->attached.load(std::memory_order_acquire)) return;
  dismissed_.store(true, std::memory_order_release);
  wake_.Wake();
}

ReadsServed ReadServer::served() const {
  ReadsServed served;
  served.reads = reads_.load(std::memory_order_relaxed);
  served.bytes = bytes_.load(std::memory_order_relaxed);
  clockid_t clock;
  timespec time;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the handle is only read.
  const pthread_t handle = const_cast<std::thread&>(thread_).native_handle();
  if (pthread_getcpuclockid(handle, &clock) == 0 && clock_gettime(clock, &time) == 0) {
    served.cpu_ns = static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  }
  return served;
}

// ---- The thread ----

void ReadServer::Run() {
  epoll_event events[kEventsPerCheck];
  while (!stopping_.load(std::memory_order_acquire)) {
    SetAccepting();
    const bool ticks = impatient_ > 0 || accept_again_ns_ != 0;
    const int count = epoll_wait(epoll_.get(), events, kEventsPerCheck,
                                 !again_.empty() ? 0 : (ticks ? static_cast<int>(kTickMs) : -1));
    // Peers that wait for nothing first, so that events cannot delay them.
    std::vector<Peer*> turns;
    turns.swap(again_);
    for (Peer* peer : turns) peer->waits_again = false;
    bool somebody_comes = false;
    for (int i = 0; i < count; ++i) {
      void* const about = events[i].data.ptr;
      if (about == nullptr) {
        wake_.Clear();
      } else if (about == this) {
        somebody_comes = true;
      } else if (auto* const peer = static_cast<Peer*>(about);
                 std::find(turns.begin(), turns.end(), peer) == turns.end()) {
        turns.push_back(peer);
      }
    }
    for (Peer* peer : turns) OnEvent(peer);
    if (somebody_comes) Accept();
    if (dismissed_.exchange(false, std::memory_order_acq_rel)) CloseDismissed();
    if (impatient_ > 0) CloseOverdue();
  }
}

// Stops accepting while there is no place, or was none just now: otherwise epoll would report the listening sockets
// continuously.
void ReadServer::SetAccepting() {
  if (accept_again_ns_ != 0 && NowNs() >= accept_again_ns_) accept_again_ns_ = 0;
  bool wanted = accept_again_ns_ == 0;
  {
    absl::MutexLock lock(&mutex_);
    wanted = wanted && callers_.size() < kMaxRequests;
  }
  if (wanted == accepting_) return;
  accepting_ = wanted;
  WatchListening(EPOLL_CTL_MOD, wanted ? uint32_t{EPOLLIN} : 0);
}

bool ReadServer::WatchListening(int operation, uint32_t wanted) {
  epoll_event event = {};
  event.events = wanted;
  event.data.ptr = this;
  return std::all_of(listening_.begin(), listening_.end(), [&](const UniqueFd& listening) {
    return epoll_ctl(epoll_.get(), operation, listening.get(), &event) == 0;
  });
}

// Peers are in order of arrival.
ReadServer::Peer* ReadServer::OldestStranger() {
  const auto oldest = std::find_if(peers_.begin(), peers_.end(), [](const auto& peer) { return peer->until_ns != 0; });
  return oldest == peers_.end() ? nullptr : oldest->get();
}

// Closes the oldest stranger, unless it has not had its minimum time yet.
void ReadServer::MakeRoom() {
  Peer* const oldest = OldestStranger();
  const int64_t now_ns = NowNs();
  if (oldest != nullptr && now_ns > oldest->until_ns - (kStrangerMs - kStrangerPatienceMs) * 1'000'000) {
    Close(oldest);
  } else {
    accept_again_ns_ = now_ns + kAcceptPauseMs * 1'000'000;
  }
}

void ReadServer::Accept() {
  for (const UniqueFd& listening : listening_) AcceptFrom(listening.get());
}

void ReadServer::AcceptFrom(int listening) {
  for (int i = 0; accepting_ && i < kEventsPerCheck; ++i) {
    if (impatient_ >= kMaxStrangers) MakeRoom();
    if (accept_again_ns_ != 0) return;
    UniqueFd socket = tcp::AcceptFrom(listening, liveness_ms_);
    if (!socket.ok()) {
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) MakeRoom();  // of descriptors, above all
      return;
    }
    auto peer = std::make_unique<Peer>(std::move(socket), &spare_);
    peer->until_ns = NowNs() + kStrangerMs * 1'000'000;
    ++impatient_;
    peers_.push_back(std::move(peer));
    if (!Watch(peers_.back().get())) Close(peers_.back().get());
  }
}

void ReadServer::OnEvent(Peer* peer) {
  if (!Step(peer) || !Watch(peer)) Close(peer);
}

bool ReadServer::Step(Peer* peer) {
  if (peer->grant != nullptr && peer->grant->over.load(std::memory_order_acquire)) return false;
  peer->channel.Flush();
  // Its requests before the end may fill its socket, and need no answers.
  if (peer->channel.stopped()) return false;
  if (peer->channel.unsent().size() >= kMaxUnsentBytes) return true;  // a peer that does not take answers gets no more
  const absl::string_view came = peer->channel.Receive(reinterpret_cast<char*>(room_.get()), /*more=*/true);
  if (peer->refused) {  // further frames are ignored
    if (peer->channel.unsent().empty()) shutdown(peer->channel.fd(), SHUT_WR);
    return !peer->channel.ended();
  }
  const bool goes_on = peer->grant == nullptr ? Greet(peer, came) : Serve(peer, came);
  return goes_on && (peer->refused || !peer->channel.ended());
}

bool ReadServer::Greet(Peer* peer, absl::string_view came) {
  Frame frame;
  switch (NextFrame(&came, &frame)) {
    case Parsed::kInvalid:
      return HangUp(peer, "not this protocol");
    case Parsed::kPartial:
      peer->channel.GiveBack(came);
      return true;
    case Parsed::kFrame:
      break;
  }
  if (const absl::Status status = CheckGreeting(frame); !status.ok()) {
    HangUp(peer, status.message());
    return Refuse(peer, FrameType::kReject, status.message());
  }
  if (!came.empty()) return HangUp(peer, "more than a greeting before there was an answer");
  if (frame.type == FrameType::kHello) {
    absl::MutexLock lock(&mutex_);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer->channel.fd(), nullptr);
    callers_.push_back({peer->channel.Release(), std::string(frame.payload)});
    called_.Wake();
    return false;
  }
  if (frame.type != FrameType::kAttach) return HangUp(peer, "its first frame is no greeting");
  peer->grant = Redeem(frame.payload);
  if (peer->grant == nullptr) return HangUp(peer, "a ticket that is not good");
  peer->until_ns = 0;
  --impatient_;
  AppendFrame(FrameType::kAttached, Greeting(), "", "", &peer->channel.unsent());
  peer->channel.Flush();
  return true;
}

bool ReadServer::Serve(Peer* peer, absl::string_view came) {
  Bytes& unsent = peer->channel.unsent();
  bool refused = false;
  while (!refused && Continue(&peer->answer, &unsent)) {
    Frame frame;
    const Parsed parsed = NextFrame(&came, &frame);
    if (parsed == Parsed::kPartial) break;
    if (parsed == Parsed::kInvalid || frame.type != FrameType::kRead) {
      return HangUp(peer, "what it asks is no READ");
    }
    refused = !Begin(peer, ReadOrderOf(frame));
  }
  if (refused) return Refuse(peer, FrameType::kRefused, "");
  peer->channel.GiveBack(came);
  peer->channel.Flush();
  return true;
}

// Returns false if the READ is not allowed.
bool ReadServer::Begin(Peer* peer, const ReadOrder& order) {
  const ReadGrant& grant = *peer->grant;
  if (grant.over.load(std::memory_order_acquire)) return false;
  if (grant.withheld.load(std::memory_order_acquire)) return HangUp(peer, "a READ before it was granted any");
  const auto range = std::find_if(grant.ranges.begin(), grant.ranges.end(),
                                  [&order](const ReadGrant::Range& other) { return other.rkey == order.rkey; });
  if (range == grant.ranges.end() || !LiesWithin(order, range->bytes)) {
    return HangUp(peer, "a READ of memory that it was not granted");
  }
  peer->answer = {range->base + order.address, order.bytes};
  reads_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(order.bytes, std::memory_order_relaxed);
  return true;
}

// Reports a peer that breaks the protocol. Returns false, like the functions that have it closed.
bool ReadServer::HangUp(Peer* peer, absl::string_view how) {
  NoteViolation(peer->grant == nullptr ? Violator::kStranger : Violator::kClient, PeerOf(peer->channel.fd()), how);
  return false;
}

// Sends the refusal, and gives the peer time to receive it: closing at once might discard it.
bool ReadServer::Refuse(Peer* peer, FrameType type, absl::string_view reason) {
  const uint64_t argument = type == FrameType::kReject ? Greeting() : 0;
  AppendFrame(type, argument, reason.substr(0, kMaxRejectBytes), "", &peer->channel.unsent());
  peer->channel.Flush();
  if (peer->channel.unsent().empty()) shutdown(peer->channel.fd(), SHUT_WR);
  if (peer->until_ns == 0) ++impatient_;
  peer->until_ns = NowNs() + kStrangerMs * 1'000'000;
  peer->refused = true;
  return true;
}

std::shared_ptr<ReadGrant> ReadServer::Redeem(absl::string_view text) {
  Ticket ticket;
  memcpy(ticket.data(), text.data(), ticket.size());
  absl::MutexLock lock(&mutex_);
  const auto found = expected_.find(ticket);
  if (found == expected_.end()) return nullptr;
  std::shared_ptr<ReadGrant> grant = std::move(found->second);
  expected_.erase(found);
  grant->attached.store(true, std::memory_order_release);
  return grant;
}

// Waits for the events with which the peer can continue.
bool ReadServer::Watch(Peer* peer) {
  const size_t unsent = peer->channel.unsent().size();
  const uint32_t wanted = (unsent < kMaxUnsentBytes ? EPOLLIN : 0u) | (unsent > 0 ? EPOLLOUT : 0u);
  if (!peer->refused && unsent < kMaxUnsentBytes && !peer->waits_again &&
      (peer->answer.left > 0 || peer->channel.has_frame())) {
    peer->waits_again = true;
    again_.push_back(peer);
  }
  if (wanted == peer->watched) return true;
  epoll_event event = {};
  event.events = wanted;
  event.data.ptr = peer;
  const int operation = peer->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  peer->watched = wanted;
  return epoll_ctl(epoll_.get(), operation, peer->channel.fd(), &event) == 0;
}

void ReadServer::Close(Peer* peer) {
  if (peer->until_ns != 0) --impatient_;
  Remove(again_, peer);
  if (peer->channel.open()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer->channel.fd(), nullptr);
  peer->channel.Close();
  peers_.erase(std::find_if(peers_.begin(), peers_.end(), [peer](const auto& other) { return other.get() == peer; }));
}

void ReadServer::CloseOverdue() {
  const int64_t now_ns = NowNs();
  if (now_ns < next_overdue_ns_) return;
  next_overdue_ns_ = now_ns + kTickMs * 1'000'000;
  for (size_t i = peers_.size(); i-- > 0;) {
    if (peers_[i]->until_ns != 0 && peers_[i]->until_ns <= now_ns) Close(peers_[i].get());
  }
}

void ReadServer::CloseDismissed() {
  for (size_t i = peers_.size(); i-- > 0;) {
    const ReadGrant* const grant = peers_[i]->grant.get();
    if (grant != nullptr && grant->over.load(std::memory_order_acquire)) Close(peers_[i].get());
  }
}

}  // namespace farlook::rdma::tcp
