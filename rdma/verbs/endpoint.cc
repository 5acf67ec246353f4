#include "rdma/verbs/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/diagnosis.h"

namespace farlook::rdma::verbs {
namespace {

// Completions taken in one Poll() whatever they are: SENDs that completed are not for the user.
constexpr int kMaxRounds = 8;

// How long the connection manager says nothing of a connection that failed: see Dismiss().
constexpr int64_t kSilenceNs = 1'000'000'000;

void Remove(std::vector<VerbsConnection*>& from, const VerbsConnection* connection) {
  from.erase(std::remove(from.begin(), from.end(), connection), from.end());
}

}  // namespace

// ---- Connections ----

std::unique_ptr<VerbsConnection> VerbsEndpoint::MakeConnection(Role role) {
  const auto free = std::find(by_tag_.begin(), by_tag_.end(), nullptr);
  const auto tag = static_cast<uint32_t>(free - by_tag_.begin());
  if (free == by_tag_.end()) by_tag_.push_back(nullptr);
  SendResources resources;
  resources.device = device_.get();
  resources.memory = memory_.local();
  resources.messages = &messages_;
  resources.credits = &credits_;
  resources.probe_landing = memory_.probe_landing();
  auto connection = std::make_unique<VerbsConnection>(static_cast<ConnectionHost*>(this), resources, role, tag);
  by_tag_[tag] = connection.get();
  if (next_tick_ns_ == 0) next_tick_ns_ = Clock::Real().NowNs() + tick_ns_;
  return connection;
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
  if (device_ == nullptr) {
    if (absl::Status status = UseDeviceTowards(*parsed); !status.ok()) return status;
  }
  if (device_->gone()) {  // which the next Poll() leaves
    polls_until_check_ = 1;
    return DeviceGone(device_->name());
  }
  timeout_ms = std::clamp<int64_t>(timeout_ms, 0, INT32_MAX - 1);
  std::unique_ptr<VerbsConnection> connection = MakeConnection(Role::kClient);
  absl::StatusOr<SocketAddress> remote = Resolve(*parsed);
  if (!remote.ok()) {
    connection->QueuesLost(remote.status().message());
    return connection;
  }
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ms * 1'000'000;
  connection->Dial(channel_.get(), *remote, FormatAddress(*parsed), hello, timeout_ms, deadline_ns);
  SetTimer();
  polls_until_check_ = 1;
  return connection;
}

absl::StatusOr<std::unique_ptr<Connection>> VerbsEndpoint::Accept(const std::shared_ptr<Offers>& offers, CmId id,
                                                                  const Envelope& client, const ReadDepths& depths,
                                                                  absl::string_view welcome, bool grant_atomics) {
  if (device_ == nullptr) {
    if (absl::Status status = Use(offers->device, offers); !status.ok()) return status;
  }
  if (device_->gone() || offers_ != offers) return DeviceGone(device_->name());
  memory_.AddOffers();
  if (rdma_migrate_id(id.get(), channel_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat("the client's handshake could not be taken over: ", strerror(errno)));
  }
  std::unique_ptr<VerbsConnection> connection = MakeConnection(Role::kServer);
  absl::Status status = connection->Accept(std::move(id), client, depths, welcome, grant_atomics);
  if (!status.ok()) return status;
  SetTimer();
  return connection;
}

void VerbsEndpoint::List(VerbsConnection* connection) {
  connection->listed = true;
  listed_.push_back(connection);
}

void VerbsEndpoint::Attend(VerbsConnection* connection) {
  connection->attended_at = polls_;
  if (std::find(attended_.begin(), attended_.end(), connection) == attended_.end()) attended_.push_back(connection);
}

void VerbsEndpoint::Enter(uint32_t pair_number, VerbsConnection* connection) { by_pair_[pair_number] = connection; }

// What the queue pair has completed is in the queues now, and nothing comes after it. The number may be used again, so
// nothing of it may stay there.
void VerbsEndpoint::Leave(uint32_t pair_number, VerbsConnection* connection) {
  by_pair_.erase(pair_number);
  while (FillBacklog()) {
  }
  const bool shared = receives_.shared() != nullptr;
  const auto gone = [&](const ibv_wc& wc) {
    const bool receive = (wc.wr_id & ReceiveQueue::kReceive) != 0;
    if (receive && wc.qp_num == pair_number && shared) receives_.Repost(static_cast<uint32_t>(wc.wr_id), nullptr);
    if (receive) return wc.qp_num == pair_number;
    return connection != nullptr && wc.wr_id >> 32 == connection->tag;
  };
  backlog_.erase(std::remove_if(backlog_.begin() + static_cast<ptrdiff_t>(backlog_begin_), backlog_.end(), gone),
                 backlog_.end());
  if (backlog_begin_ == backlog_.size()) {
    backlog_.clear();
    backlog_begin_ = 0;
  }
  for (Delivered& delivered : delivered_) {
    if (delivered.connection != connection || connection == nullptr) continue;
    delivered.connection = nullptr;
    if (!shared) connection->Disown(delivered.slot);
  }
}

void VerbsEndpoint::Forget(VerbsConnection* connection) {
  by_tag_[connection->tag] = nullptr;
  if (connection->listed) Remove(listed_, connection);
  Remove(attended_, connection);
  if (device_->gone()) Wake();  // to leave it, if this was the last
}

// ---- Polling ----

size_t VerbsEndpoint::Poll(absl::Span<Completion> out) {
  ++polls_;
  if (!delivered_.empty()) Recycle();
  if (ABSL_PREDICT_FALSE(armed_)) {
    armed_ = false;
    // Mostly it was a completion that ended the sleep. Whatever else happened keeps its descriptor readable, and so
    // ends the next one: epoll need not be asked now.
    if (!completions_.TakeEvent()) polls_until_check_ = 1;
  }
  if (ABSL_PREDICT_FALSE(--polls_until_check_ == 0)) CheckEvents();
  if (!listed_.empty()) AdvanceAll();
  size_t count = 0;
  if (ABSL_PREDICT_FALSE(!attended_.empty())) count = AnnounceAll(out);
  bool drained = false;
  count += TakeCompletions(absl::MakeSpan(out.data() + count, out.size() - count), &drained);
  if (ABSL_PREDICT_FALSE(drained && !attended_.empty())) {
    count += EndAll(absl::MakeSpan(out.data() + count, out.size() - count));
  }
  // The completions made room.
  if (!listed_.empty()) AdvanceAll();
  return count;
}

// The messages of the last Poll() were read.
void VerbsEndpoint::Recycle() {
  for (const Delivered& delivered : delivered_) {
    VerbsConnection* const connection = delivered.connection;
    receives_.Repost(delivered.slot, connection != nullptr ? connection->own_receives() : nullptr);
    if (connection != nullptr) connection->Reposted();
  }
  delivered_.clear();
}

void VerbsEndpoint::AdvanceAll() {
  size_t kept = 0;
  for (VerbsConnection* connection : listed_) {
    connection->listed = connection->Advance();
    if (connection->listed) listed_[kept++] = connection;
  }
  listed_.resize(kept);
}

size_t VerbsEndpoint::AnnounceAll(absl::Span<Completion> out) {
  size_t count = 0;
  for (VerbsConnection* connection : attended_) {
    count += connection->Announce(absl::MakeSpan(out.data() + count, out.size() - count));
  }
  attended_.erase(std::remove_if(attended_.begin(), attended_.end(),
                                 [](const VerbsConnection* connection) { return connection->alive(); }),
                  attended_.end());
  return count;
}

size_t VerbsEndpoint::EndAll(absl::Span<Completion> out) {
  const int64_t now_ns = Clock::Real().NowNs();
  size_t count = 0;
  // What arrived before the end is in a queue that was looked at after it.
  for (VerbsConnection* connection : attended_) {
    if (!connection->ending() || connection->attended_at == polls_ || count == out.size()) continue;
    count += connection->End(absl::MakeSpan(out.data() + count, out.size() - count), now_ns);
  }
  attended_.erase(std::remove_if(attended_.begin(), attended_.end(),
                                 [](const VerbsConnection* connection) { return connection->over(); }),
                  attended_.end());
  return count;
}

size_t VerbsEndpoint::TakeCompletions(absl::Span<Completion> out, bool* drained) {
  size_t count = 0;
  for (int round = 0; round < kMaxRounds && count < out.size(); ++round) {
    if (ABSL_PREDICT_FALSE(!backlog_.empty())) {
      const ibv_wc wc = backlog_[backlog_begin_++];
      if (Handle(wc, &out[count])) ++count;
      if (backlog_begin_ == backlog_.size()) {
        backlog_.clear();
        backlog_begin_ = 0;
      }
      --round;
      continue;
    }
    ibv_wc completions[kCompletionsPerPoll];
    const int most = static_cast<int>(std::min<size_t>(kCompletionsPerPoll, out.size() - count));
    const int taken = completions_.Poll(completions, most);
    if (ABSL_PREDICT_FALSE(taken < 0)) OnQueuesLost(IBV_EVENT_CQ_ERR);
    for (int i = 0; i < taken; ++i) {
      if (Handle(completions[i], &out[count])) ++count;
    }
    if (taken < most) {
      *drained = backlog_.empty();
      break;
    }
  }
  return count;
}

inline bool VerbsEndpoint::Handle(const ibv_wc& wc, Completion* done) {
  if ((wc.wr_id & ReceiveQueue::kReceive) != 0) return HandleReceive(wc, done);
  const uint64_t tag = wc.wr_id >> 32;
  VerbsConnection* const connection = tag < by_tag_.size() ? by_tag_[tag] : nullptr;
  return ABSL_PREDICT_TRUE(connection != nullptr) && connection->OnCompletion(wc, done);
}

bool VerbsEndpoint::HandleReceive(const ibv_wc& wc, Completion* done) {
  const auto slot = static_cast<uint32_t>(wc.wr_id);
  const auto found = by_pair_.find(wc.qp_num);
  VerbsConnection* const connection = found != by_pair_.end() ? found->second : nullptr;
  if (connection != nullptr && connection->OnReceive(wc, messages_.data(slot), done)) {
    delivered_.push_back({slot, connection});
    return true;
  }
  // Nothing for the user. A buffer of a queue pair's own queue that came back with an error goes with the queue pair.
  if (wc.status != IBV_WC_SUCCESS && receives_.shared() == nullptr) return false;
  if (connection == nullptr && receives_.shared() == nullptr) return false;
  receives_.Repost(slot, connection != nullptr ? connection->own_receives() : nullptr);
  if (connection != nullptr && wc.status == IBV_WC_SUCCESS) connection->Reposted();
  return false;
}

// Takes completions that are there, to be handled by Poll(). False: there are none.
bool VerbsEndpoint::FillBacklog() {
  ibv_wc completions[kCompletionsPerPoll];
  const int taken = completions_.Poll(completions, kCompletionsPerPoll);
  if (taken <= 0) return false;
  backlog_.insert(backlog_.end(), completions, completions + taken);
  return true;
}

// ---- Sleeping ----

bool VerbsEndpoint::Arm() {
  if (std::exchange(room_returned_, false) || !attended_.empty() || !backlog_.empty()) return false;
  if (!listed_.empty()) AdvanceAll();
  if (!attended_.empty()) return false;
  completions_.Arm();
  // What came before the request for a wake-up wakes nobody.
  if (FillBacklog()) return false;
  armed_ = true;
  return true;
}

// ---- Events ----

void VerbsEndpoint::CheckEvents() {
  polls_until_check_ = kPollsPerEventCheck;
  epoll_event events[kSources];
  const int count = epoll_wait(epoll_.get(), events, kSources, /*timeout=*/0);
  uint64_t ignored;
  for (int i = 0; i < count; ++i) {
    switch (events[i].data.u32) {
      case kCompletions:
        completions_.TakeEvent();
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
        device_->HandleEvents();
        break;
    }
  }
  const bool dialing = std::any_of(by_tag_.begin(), by_tag_.end(),
                                   [](const VerbsConnection* c) { return c != nullptr && c->dialing(); });
  if (dialing) polls_until_check_ = 1;
  if (device_ != nullptr && device_->gone() && idle()) LeaveDevice();
}

void VerbsEndpoint::LookAtEvents() {
  ForEachEvent(channel_.get(), [this](const rdma_cm_event& event) {
    auto* const connection = static_cast<VerbsConnection*>(event.id->context);
    if (connection != nullptr) return connection->OnCmEvent(event);
    for (PairParts& parts : parked_) {
      if (parts.id.get() == event.id) parts.over = true;
    }
  });
  if (ABSL_PREDICT_FALSE(!parked_.empty())) ReleaseParked();
}

void VerbsEndpoint::ReleaseParked() {
  for (PairParts& parts : parked_) {
    if (!parts.over) continue;
    parts.pair.Fail();
    rdma_disconnect(parts.id.get());
    const uint32_t number = parts.pair.number();
    parts.pair.reset();
    Leave(number, nullptr);
    completions_.Release(parts.completions, parts.completion_entries);
    receives_.Release(parts.window, parts.slots);
  }
  parked_.erase(std::remove_if(parked_.begin(), parked_.end(), [](const PairParts& parts) { return parts.over; }),
                parked_.end());
}

void VerbsEndpoint::Dismiss(CmId id, bool failed) {
  // That the port is down the device knows a moment later than its requests.
  if (device_->gone() || device_->traits().iwarp || (!failed && !device_->MustBeSilent())) return;
  id->context = nullptr;
  silent_.push_back(std::move(id));
  if (silent_until_ns_ == 0) silent_until_ns_ = Clock::Real().NowNs() + kSilenceNs;
  SetTimer();
}

void VerbsEndpoint::OnTimer() {
  const int64_t now_ns = Clock::Real().NowNs();
  const bool tick = next_tick_ns_ != 0 && now_ns >= next_tick_ns_;
  bool any = false;
  for (VerbsConnection* connection : by_tag_) {
    if (connection == nullptr) continue;
    any = true;
    if (connection->dialing() && connection->deadline_ns() <= now_ns) connection->TimeOut();
    if (tick) connection->Tick();
  }
  if (tick) next_tick_ns_ = any ? now_ns + tick_ns_ : 0;
  if (silent_until_ns_ != 0 && now_ns >= silent_until_ns_) {
    if (!device_->MustBeSilent()) silent_.clear();
    silent_until_ns_ = silent_.empty() ? 0 : now_ns + kSilenceNs;
  }
  SetTimer();
}

void VerbsEndpoint::SetTimer() {
  int64_t due_ns = next_tick_ns_;
  if (due_ns == 0 || (silent_until_ns_ != 0 && silent_until_ns_ < due_ns)) due_ns = silent_until_ns_;
  for (const VerbsConnection* connection : by_tag_) {
    if (connection == nullptr || !connection->dialing()) continue;
    if (due_ns == 0 || connection->deadline_ns() < due_ns) due_ns = connection->deadline_ns();
  }
  itimerspec when = {};
  when.it_value.tv_sec = due_ns / 1'000'000'000;
  when.it_value.tv_nsec = due_ns % 1'000'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void VerbsEndpoint::OnQueuesLost(ibv_event_type event) {
  queues_lost_.store(event, std::memory_order_relaxed);
  OnQueuePairFailed();
}

void VerbsEndpoint::OnWake() {
  const int lost = queues_lost_.exchange(-1, std::memory_order_relaxed);
  for (VerbsConnection* connection : by_tag_) {
    if (connection == nullptr) continue;
    if (lost >= 0) {
      connection->QueuesLost(device_->gone()
                                 ? DeviceGone(device_->name()).message()
                                 : absl::StrCat("a queue of ", device_->name(),
                                                " failed: ", ibv_event_type_str(static_cast<ibv_event_type>(lost))));
    } else {
      connection->CheckAsync();
    }
  }
}

}  // namespace farlook::rdma::verbs
