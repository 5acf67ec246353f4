#include "rdma/verbs/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/device/diagnosis.h"

namespace farlook::rdma::verbs {
namespace {

// Limit of rounds in one Poll(): completed SENDs are not for the user.
constexpr int kMaxRounds = 8;

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
  const std::shared_ptr<const Lookup> lookup = endpoint->resolver_.LookUp(address.host);
  absl::StatusOr<SocketAddresses> remotes = lookup->Await(options.resolve_ms);
  if (!remotes.ok() && options.resolve_ms == 0 && !lookup->is_answered()) return endpoint;
  if (!remotes.ok()) return remotes.status();
  if (absl::Status status = endpoint->UseDeviceTowards(*remotes, address); !status.ok()) return status;
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

VerbsEndpoint::~VerbsEndpoint() { LeaveDevice(); }

// Sets up everything that needs no device.
absl::Status VerbsEndpoint::Begin() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.ok()) return NoDescriptors("an epoll descriptor");
  timer_ = UniqueFd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.ok()) return NoDescriptors("a timer");
  if (!wake_.ok()) return NoDescriptors("an event descriptor");
  absl::StatusOr<EventChannel> channel = MakeEventChannel();
  if (!channel.ok()) return channel.status();
  channel_ = *std::move(channel);
  const bool watched = Watch(channel_->fd, kManager) && Watch(timer_.get(), kTimer) && Watch(wake_.fd(), kWake);
  return watched ? absl::OkStatus() : NoDescriptors("an epoll entry");
}

// ---- Devices come and go ----

// Uses the first device that leads to one of them.
absl::Status VerbsEndpoint::UseDeviceTowards(const SocketAddresses& remotes, const Address& address) {
  absl::Status trouble;
  for (SocketAddress remote : remotes) {
    remote.set_port(address.port);
    absl::StatusOr<DevicePort> port = DeviceTowards(remote, FormatAddress(address));
    if (!port.ok()) {
      if (trouble.ok() || absl::IsUnavailable(port.status())) trouble = port.status();
      continue;
    }
    absl::StatusOr<std::shared_ptr<Device>> device = Device::Open(*std::move(port), Device::Posters::kOneThread);
    if (!device.ok()) return device.status();
    return Use(*std::move(device), nullptr);
  }
  return trouble;
}

absl::Status VerbsEndpoint::Use(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers) {
  device_.emplace(std::move(device), std::move(offers), static_cast<AsyncSink*>(this), options_.max_outstanding);
  absl::Status status = BeginOnDevice();
  // A device that was lost before the sink was added did not notify it.
  if (status.ok() && device_->device().gone()) status = DeviceGone(device_->device().name());
  if (!status.ok()) LeaveDevice();
  return status;
}

absl::Status VerbsEndpoint::BeginOnDevice() {
  if (absl::Status status = device_->Begin(); !status.ok()) return status;
  if (absl::Status status = buffers_.Use(&device_->memory()); !status.ok()) return status;
  bool watched = Watch(device_->fd(), kCompletions);
  if (device_->offers() == nullptr) {
    for (const int descriptor : device_->device().event_fds()) {
      watched = watched && (descriptor < 0 || Watch(descriptor, kAsync));
    }
  }
  return watched ? absl::OkStatus() : NoDescriptors("an epoll entry");
}

// Returns whether nothing of the device is in use any more.
bool VerbsEndpoint::idle() const {
  const auto is_null = [](const VerbsConnection* connection) { return connection == nullptr; };
  return device_->idle() && connections_.delivered.empty() &&
         std::all_of(connections_.by_tag.begin(), connections_.by_tag.end(), is_null);
}

// REQUIRES: no connection is left. Messages that the user had until the next Poll() go with the device. Waits for
// handshakes under way in iWARP's kernel.
void VerbsEndpoint::LeaveDevice() {
  connections_.delivered.clear();
  buffers_.Leave();
  device_.reset();
}

// The way to the peer of `connection` no longer leads through the device: the device counts as lost, unless other
// connections use it.
void VerbsEndpoint::LeaveIfUnfit(const VerbsConnection* connection) {
  const bool alone =
      std::all_of(connections_.by_tag.begin(), connections_.by_tag.end(), [connection](const VerbsConnection* other) {
        return other == nullptr || other == connection || !other->alive();
      });
  if (alone) device_->device().SetGone();
}

bool VerbsEndpoint::Watch(int descriptor, uint32_t what) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = what;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// libibverbs and librdmacm free nothing without freeing it in the kernel too, and there it is the parent's.
bool VerbsEndpoint::LeaveToParent() {
  epoll_.reset();
  timer_.reset();
  wake_.Close();
  close(channel_->fd);
  if (device_.has_value()) {
    close(device_->fd());
    device_->device().LeaveToParent();
  }
  return false;
}

// ---- Connections ----

std::unique_ptr<VerbsConnection> VerbsEndpoint::MakeConnection(Role role) {
  if (next_tick_ns_ == 0) next_tick_ns_ = Clock::Real().NowNs() + tick_ns_;
  return std::make_unique<VerbsConnection>(&connections_, &*device_, role);
}

absl::StatusOr<std::unique_ptr<Connection>> VerbsEndpoint::Connect(absl::string_view address, absl::string_view hello,
                                                                   int64_t timeout_ms) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->scheme != Scheme::kRdma) {
    return absl::InvalidArgumentError(absl::StrCat("an endpoint for rdma:// cannot connect to ", address));
  }
  if (hello.size() > kMaxHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello of ", hello.size(), " bytes; the limit is ", kMaxHelloBytes));
  }
  std::shared_ptr<const Lookup> lookup = resolver_.LookUp(parsed->host);
  if (!device_.has_value()) {
    // Does not wait for the lookup: earlier addresses are good enough to find the device.
    const std::optional<absl::StatusOr<SocketAddresses>> known = lookup->Addresses(lookup->fallback_ns());
    if (!known.has_value()) return NotResolved(parsed->host);
    if (!known->ok()) return known->status();
    if (absl::Status status = UseDeviceTowards(**known, *parsed); !status.ok()) return status;
  }
  if (device_->device().gone()) {  // the next Poll() releases it
    polls_until_check_ = 1;
    return DeviceGone(device_->device().name());
  }
  timeout_ms = std::clamp<int64_t>(timeout_ms, 0, INT32_MAX - 1);
  std::unique_ptr<VerbsConnection> connection = MakeConnection(Role::kClient);
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ms * 1'000'000;
  connection->Dial(channel_.get(), Candidates(std::move(lookup), *parsed), hello, deadline_ns);
  SetTimer();
  polls_until_check_ = 1;
  return connection;
}

absl::StatusOr<std::unique_ptr<Connection>> VerbsEndpoint::Accept(const std::shared_ptr<Offers>& offers, CmId id,
                                                                  const Envelope& client, const ReadDepths& depths,
                                                                  absl::string_view welcome, const Terms& terms) {
  if (!device_.has_value()) {
    if (absl::Status status = Use(offers->device, offers); !status.ok()) return status;
  }
  if (device_->device().gone() || device_->offers() != offers) return DeviceGone(device_->device().name());
  device_->memory().AddOffers();
  if (rdma_migrate_id(id.get(), channel_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat("the client's handshake could not be taken over: ", strerror(errno)));
  }
  std::unique_ptr<VerbsConnection> connection = MakeConnection(Role::kServer);
  absl::Status status = connection->Accept(std::move(id), client, depths, welcome, terms);
  if (!status.ok()) return status;
  SetTimer();
  return connection;
}

// ---- Polling ----

[[gnu::always_inline]] inline bool VerbsEndpoint::Handle(const ibv_wc& wc, Completion* done) {
  if ((wc.wr_id & ReceiveQueue::kReceive) != 0) return HandleReceive(wc, done);
  VerbsConnection* const connection = connections_.WithTag(wc.wr_id >> 32);
  return ABSL_PREDICT_TRUE(connection != nullptr) && connection->OnCompletion(wc, done);
}

// Polls once, up to the room left after `count` completions. Inlined into Poll(), together with the dispatch to the
// connection: mostly there is one completion, or none.
[[gnu::always_inline]] inline VerbsEndpoint::Taken VerbsEndpoint::TakeSome(absl::Span<Completion> out, size_t count) {
  ibv_wc completions[kCompletionsPerPoll];
  const int most = static_cast<int>(std::min<size_t>(kCompletionsPerPoll, out.size() - count));
  const int taken = device_->Poll(completions, most);
  if (ABSL_PREDICT_FALSE(taken < 0)) OnQueuesLost(IBV_EVENT_CQ_ERR);
  Completion* done = out.data() + count;
  for (int i = 0; i < taken; ++i) {
    const bool is_users = Handle(completions[i], done);
    count += is_users;
    done += is_users;
  }
  return {count, taken < most};
}

// Polls on until there are no more, or enough.
ABSL_ATTRIBUTE_NOINLINE VerbsEndpoint::Taken VerbsEndpoint::TakeMore(absl::Span<Completion> out, size_t count) {
  Taken taken = {count, false};
  for (int round = 1; round < kMaxRounds && taken.count < out.size() && !taken.drained; ++round) {
    taken = TakeSome(out, taken.count);
  }
  return taken;
}

size_t VerbsEndpoint::Poll(absl::Span<Completion> out) {
  ++connections_.polls;
  if (!connections_.delivered.empty()) Recycle();
  if (ABSL_PREDICT_FALSE(connections_.armed)) {
    connections_.armed = false;
    // Mostly a completion ended the sleep. Any other event keeps its descriptor readable, and so ends the next sleep:
    // epoll need not be checked now.
    if (!device_.has_value() || !device_->TakeEvent()) polls_until_check_ = 1;
  }
  if (ABSL_PREDICT_FALSE(--polls_until_check_ == 0)) CheckEvents();
  size_t count = ABSL_PREDICT_FALSE(connections_.due) ? AttendBefore(out) : 0;
  bool drained = false;
  if (ABSL_PREDICT_TRUE(device_.has_value())) {
    Taken taken = TakeSome(out, count);
    if (ABSL_PREDICT_FALSE(!taken.drained)) taken = TakeMore(out, taken.count);
    count = taken.count;
    drained = taken.drained;
  }
  return ABSL_PREDICT_FALSE(connections_.due) ? AttendAfter(out, count, drained) : count;
}

// Work of Poll() for single connections before it polls for completions, and after; returns the number of completions
// for the user so far. Mostly there is nothing to do.
ABSL_ATTRIBUTE_NOINLINE size_t VerbsEndpoint::AttendBefore(absl::Span<Completion> out) {
  if (!connections_.listed.empty()) AdvanceAll();
  size_t count = 0;
  if (!connections_.attended.empty()) count = AnnounceAll(out);
  if (connections_.resumed) count += DeliverKept(absl::MakeSpan(out.data() + count, out.size() - count));
  return count;
}

ABSL_ATTRIBUTE_NOINLINE size_t VerbsEndpoint::AttendAfter(absl::Span<Completion> out, size_t count, bool drained) {
  if (!connections_.attended.empty()) {
    if (!connections_.suspects.empty()) BreakSuspects();
    if (drained) count += EndAll(absl::MakeSpan(out.data() + count, out.size() - count));
  }
  // The completions made room.
  if (!connections_.listed.empty()) AdvanceAll();
  connections_.due = !connections_.listed.empty() || !connections_.attended.empty() || connections_.resumed;
  return count;
}

// For connections that receive again.
ABSL_ATTRIBUTE_NOINLINE size_t VerbsEndpoint::DeliverKept(absl::Span<Completion> out) {
  size_t count = 0;
  connections_.resumed = false;
  std::erase_if(connections_.kept, [&](const ConnectionTable::Kept& kept) {
    if (!kept.connection->receiving) return false;
    if (count == out.size()) {
      connections_.resumed = true;
      return false;
    }
    Completion& done = out[count++];
    done = Completion();
    done.connection = kept.connection;
    done.opcode = Opcode::kReceive;
    done.message = kept.message;
    --kept.connection->kept_messages;
    connections_.delivered.push_back({kept.slot, kept.connection});
    return true;
  });
  return count;
}

// The user has read the messages of the last Poll().
ABSL_ATTRIBUTE_NOINLINE void VerbsEndpoint::Recycle() {
  for (const ConnectionTable::Delivered& delivered : connections_.delivered) {
    VerbsConnection* const connection = delivered.connection;
    device_->Repost(delivered.slot, connection != nullptr ? connection->own_receives() : nullptr);
    if (connection != nullptr) connection->Reposted();
  }
  connections_.delivered.clear();
}

ABSL_ATTRIBUTE_NOINLINE void VerbsEndpoint::AdvanceAll() {
  size_t kept = 0;
  for (VerbsConnection* connection : connections_.listed) {
    connection->listed = connection->Advance();
    if (connection->listed) connections_.listed[kept++] = connection;
  }
  connections_.listed.resize(kept);
}

ABSL_ATTRIBUTE_NOINLINE size_t VerbsEndpoint::AnnounceAll(absl::Span<Completion> out) {
  size_t count = 0;
  for (VerbsConnection* connection : connections_.attended) {
    count += connection->Announce(absl::MakeSpan(out.data() + count, out.size() - count));
  }
  connections_.attended.erase(std::remove_if(connections_.attended.begin(), connections_.attended.end(),
                                             [](const VerbsConnection* connection) { return connection->alive(); }),
                              connections_.attended.end());
  return count;
}

size_t VerbsEndpoint::EndAll(absl::Span<Completion> out) {
  const int64_t now_ns = Clock::Real().NowNs();
  size_t count = 0;
  // Completions that arrived before the end are in a queue that was polled after it.
  for (VerbsConnection* connection : connections_.attended) {
    if (!connection->ending() || connection->attended_at == connections_.polls || count == out.size()) continue;
    count += connection->End(absl::MakeSpan(out.data() + count, out.size() - count), now_ns);
    if (connection->device_unfit()) LeaveIfUnfit(connection);
    if (!connection->dialing()) continue;
    SetTimer();
    polls_until_check_ = 1;
  }
  std::erase_if(connections_.attended,
                [](const VerbsConnection* connection) { return connection->over() || connection->dialing(); });
  return count;
}

bool VerbsEndpoint::HandleReceive(const ibv_wc& wc, Completion* done) {
  const auto slot = static_cast<uint32_t>(wc.wr_id);
  if (ABSL_PREDICT_FALSE(!device_->Completed(slot))) return false;
  VerbsConnection* const connection = connections_.WithPair(wc.qp_num);
  if (connection != nullptr && connection->OnReceive(wc, device_->message(slot), done)) {
    if (ABSL_PREDICT_FALSE(connection->keeps_messages())) {
      ++connection->kept_messages;
      connections_.kept.push_back({slot, connection, done->message});
      return false;
    }
    connections_.delivered.push_back({slot, connection});
    return true;
  }
  // Not for the user. A buffer of a queue pair's own queue that was returned with an error is released with the queue
  // pair.
  if (wc.status != IBV_WC_SUCCESS && !device_->shares_receives()) return false;
  if (connection == nullptr && !device_->shares_receives()) return false;
  device_->Repost(slot, connection != nullptr ? connection->own_receives() : nullptr);
  if (connection != nullptr && wc.status == IBV_WC_SUCCESS) connection->Reposted();
  return false;
}

// The connection manager may know the reason of their end.
void VerbsEndpoint::BreakSuspects() {
  LookAtEvents();
  for (VerbsConnection* connection : std::exchange(connections_.suspects, {})) connection->BreakAsFlushed();
}

// ---- Sleeping ----

bool VerbsEndpoint::Arm() {
  // The peer may have no credit before the next Poll() posts these buffers again: this would be a sleep until a message
  // that the peer cannot send.
  if (!connections_.delivered.empty()) return false;
  if (std::exchange(connections_.room_returned, false) || connections_.resumed || !connections_.attended.empty()) {
    return false;
  }
  if (!connections_.listed.empty()) AdvanceAll();
  if (!connections_.attended.empty()) return false;
  connections_.armed = !device_.has_value() || device_->Arm();
  return connections_.armed;
}

// ---- Events ----

ABSL_ATTRIBUTE_NOINLINE void VerbsEndpoint::CheckEvents() {
  polls_until_check_ = kPollsPerEventCheck;
  epoll_event events[kSources];
  const int count = epoll_wait(epoll_.get(), events, kSources, /*timeout=*/0);
  uint64_t ignored;
  for (int i = 0; i < count; ++i) {
    switch (events[i].data.u32) {
      case kCompletions:
        if (device_.has_value()) device_->TakeEvent();
        break;
      case kManager:
        LookAtEvents();
        break;
      case kTimer:
        if (read(timer_.get(), &ignored, sizeof(ignored)) == sizeof(ignored)) OnTimer();
        break;
      case kWake:
        wake_.Clear();
        OnWake();
        break;
      case kAsync:
        if (device_.has_value()) device_->device().HandleEvents();
        break;
    }
  }
  const bool dialing = std::any_of(connections_.by_tag.begin(), connections_.by_tag.end(),
                                   [](const VerbsConnection* c) { return c != nullptr && c->dialing(); });
  if (dialing) polls_until_check_ = 1;
  if (device_.has_value() && device_->device().gone() && idle()) LeaveDevice();
}

void VerbsEndpoint::LookAtEvents() {
  ForEachEvent(channel_.get(), [this](const rdma_cm_event& event) {
    if (!device_.has_value()) return;  // then the channel has no id any more
    if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL) device_->device().SetRemoved();
    auto* const connection = static_cast<VerbsConnection*>(event.id->context);
    if (connection == nullptr) return device_->OnEvent(event);
    connection->OnCmEvent(event);
  });
  if (device_.has_value()) device_->ReleaseParked();
}

void VerbsEndpoint::OnTimer() {
  const int64_t now_ns = Clock::Real().NowNs();
  const bool tick = next_tick_ns_ != 0 && now_ns >= next_tick_ns_;
  bool any = false;
  for (VerbsConnection* connection : connections_.by_tag) {
    if (connection == nullptr) continue;
    any = true;
    if (connection->dialing() && connection->due_ns() <= now_ns) {
      LookAtEvents();  // the answer may have arrived
      if (connection->dialing() && connection->due_ns() <= now_ns) connection->GoOnDialing(now_ns);
    }
    if (tick) connection->Tick();
  }
  if (tick) next_tick_ns_ = any ? now_ns + tick_ns_ : 0;
  if (device_.has_value()) device_->OnTimer(now_ns);
  SetTimer();
}

void VerbsEndpoint::SetTimer() {
  int64_t due_ns = next_tick_ns_;
  const int64_t device_due_ns = device_.has_value() ? device_->due_ns() : 0;
  if (due_ns == 0 || (device_due_ns != 0 && device_due_ns < due_ns)) due_ns = device_due_ns;
  for (const VerbsConnection* connection : connections_.by_tag) {
    if (connection == nullptr || !connection->dialing()) continue;
    if (due_ns == 0 || connection->due_ns() < due_ns) due_ns = connection->due_ns();
  }
  itimerspec when = {};
  when.it_value.tv_sec = due_ns / 1'000'000'000;
  when.it_value.tv_nsec = due_ns % 1'000'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void VerbsEndpoint::OnQueuesLost(ibv_event_type event) {
  queues_lost_.store(event, std::memory_order_relaxed);
  Wake();
}

void VerbsEndpoint::OnWake() {
  const std::vector<VerbsConnection*>& all = connections_.by_tag;
  const int64_t now_ns = Clock::Real().NowNs();
  for (VerbsConnection* connection : all) {
    if (connection != nullptr) connection->OnAnswered(now_ns);
  }
  const int lost = queues_lost_.exchange(-1, std::memory_order_relaxed);
  if (lost >= 0 && device_.has_value()) {
    const Device& device = device_->device();
    const std::string why = device.gone()
                                ? std::string(DeviceGone(device.name()).message())
                                : absl::StrCat("a queue of ", device.name(),
                                               " failed: ", ibv_event_type_str(static_cast<ibv_event_type>(lost)));
    for (VerbsConnection* connection : all) {
      if (connection != nullptr) connection->QueuesLost(why);
    }
  } else if (std::any_of(all.begin(), all.end(),
                         [](const VerbsConnection* c) { return c != nullptr && c->pair_failed(); })) {
    LookAtEvents();  // the connection manager may know a better reason for the end of a queue pair
    for (VerbsConnection* connection : all) {
      if (connection != nullptr) connection->CheckAsync();
    }
  }
  SetTimer();
}

}  // namespace farlook::rdma::verbs
