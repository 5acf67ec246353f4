#include "rdma/verbs/connection/endpoint_device.h"

#include <algorithm>
#include <utility>

#include "rdma/clock.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {
namespace {

// Time for which the connection manager sends nothing about a failed connection: see Dismiss().
constexpr int64_t kSilenceNs = 1'000'000'000;

}  // namespace

EndpointDevice::EndpointDevice(std::shared_ptr<Device> device, std::shared_ptr<Offers> offers, AsyncSink* sink,
                               uint32_t max_outstanding)
    : device_(std::move(device)),
      offers_(std::move(offers)),
      registration_(device_.get(), sink),
      memory_(device_.get(), offers_.get()),
      messages_(device_.get()),
      completions_(device_.get(), sink),
      receives_(device_.get(), &messages_),
      credits_(max_outstanding) {}

EndpointDevice::~EndpointDevice() = default;

absl::Status EndpointDevice::Begin() {
  if (absl::Status status = memory_.Begin(); !status.ok()) return status;
  if (absl::Status status = receives_.Begin(/*shared=*/offers_ != nullptr, registration_.sink()); !status.ok())
    return status;
  return completions_.Begin(receives_.shared_receives());
}

SendResources EndpointDevice::send_resources() {
  return {device_.get(), memory_.local(), &messages_, &credits_, memory_.probe_buffer()};
}

// ---- Queue pairs ----

absl::Status EndpointDevice::MakePair(const QueuePlan& plan, const PeerRights& rights, Pair* pair) {
  absl::StatusOr<uint32_t> window = receives_.Reserve();
  if (!window.ok()) return window.status();
  pair->window = *window;
  pair->own_receives = !shares_receives();
  const uint32_t entries = plan.hardware_depth + (pair->own_receives ? pair->window : 0);
  absl::StatusOr<ibv_cq*> completions = completions_.Reserve(entries);
  if (!completions.ok()) return completions.status();
  pair->completions = *completions;
  pair->completion_entries = entries;

  QueuePair::Queues queues;
  queues.completions = pair->completions;
  queues.shared_receives = receives_.shared();
  queues.receives = pair->own_receives ? pair->window : 0;
  pair->events->sink = registration_.sink();
  absl::StatusOr<QueuePair> made = QueuePair::Create(*device_, plan, queues, pair->events.get());
  if (!made.ok()) return made.status();
  pair->queue_pair = *std::move(made);
  if (absl::Status status = pair->queue_pair.Initialize(pair->id.get(), rights); !status.ok()) return status;
  return receives_.Fill(pair->queue_pair.get(), pair->window, &pair->slots);
}

void EndpointDevice::Retire(Pair pair) {
  // On iWARP the kernel waits, up to ten seconds, for the peer's part in a handshake before it releases the queue pair.
  if (pair.connecting && device_->traits().iwarp) {
    pair.id->context = nullptr;
    parked_.push_back({std::move(pair)});
  } else {
    Release(&pair, /*sent=*/true);
    // After the queue pair: until then the connection manager could not notify the peer of its end.
    if (pair.id != nullptr) Dismiss(std::move(pair.id), pair.failed);
  }
  // The endpoint releases a lost device when its last connection has ended.
  if (device_->gone()) registration_.sink()->OnSomethingToDo();
}

// Destroys the queue pair. Its completions are in the queues then, and none follow. Its number may be reused, so none
// of them may stay there. `sent`: its tag is in the wr_id of its sends.
void EndpointDevice::Release(Pair* pair, bool sent) {
  if (pair->queue_pair.ok()) {
    const uint32_t number = pair->queue_pair.number();
    pair->queue_pair.reset();
    while (SetAllAside()) {
    }
    const auto gone = [&](const ibv_wc& wc) {
      const bool receive = (wc.wr_id & ReceiveQueue::kReceive) != 0;
      if (!receive) return sent && wc.wr_id >> 32 == pair->tag;
      const auto slot = static_cast<uint32_t>(wc.wr_id);
      if (wc.qp_num == number && shares_receives() && receives_.Completed(slot)) receives_.Repost(slot, nullptr);
      return wc.qp_num == number;
    };
    backlog_.erase(std::remove_if(backlog_.begin() + static_cast<ptrdiff_t>(backlog_begin_), backlog_.end(), gone),
                   backlog_.end());
    if (backlog_begin_ == backlog_.size()) {
      backlog_.clear();
      backlog_begin_ = 0;
    }
  }
  if (pair->completions != nullptr) completions_.Release(pair->completions, pair->completion_entries);
  if (pair->window != 0) receives_.Release(pair->window, pair->slots);
}

void EndpointDevice::OnEvent(const rdma_cm_event& event) {
  for (Parked& parked : parked_) {
    if (parked.pair.id.get() == event.id) parked.over = true;
  }
}

void EndpointDevice::ReleaseParked() {
  for (Parked& parked : parked_) {
    if (!parked.over) continue;
    parked.pair.queue_pair.Fail();
    rdma_disconnect(parked.pair.id.get());
    Release(&parked.pair, /*sent=*/false);
  }
  parked_.erase(std::remove_if(parked_.begin(), parked_.end(), [](const Parked& parked) { return parked.over; }),
                parked_.end());
}

// Destroys the id of a connection that ended; `failed`: a request failed, as when the port goes down. Destroying makes
// the connection manager notify the peer, if it does not know: never through a port that is down
// (Device::MustBeSilent).
void EndpointDevice::Dismiss(CmId id, bool failed) {
  // The device detects that the port is down a moment later than its requests fail.
  if (device_->gone() || device_->traits().iwarp || (!failed && !device_->MustBeSilent())) return;
  id->context = nullptr;
  silent_.push_back(std::move(id));
  if (silent_until_ns_ != 0) return;
  silent_until_ns_ = Clock::Real().NowNs() + kSilenceNs;
  registration_.sink()->OnSomethingToDo();  // the time at which OnTimer() is due has changed
}

void EndpointDevice::OnTimer(int64_t now_ns) {
  if (!device_->gone()) {
    if (backlog_.empty()) receives_.Shrink(registration_.sink());
    messages_.Trim(/*none_used=*/!receives_.used());
  }
  if (silent_until_ns_ == 0 || now_ns < silent_until_ns_) return;
  if (!device_->MustBeSilent()) silent_.clear();
  silent_until_ns_ = silent_.empty() ? 0 : now_ns + kSilenceNs;
}

// ---- Completions ----

// Takes waiting completions, to be polled later. Returns false if there are none.
bool EndpointDevice::SetAllAside() {
  ibv_wc completions[kCompletionsPerPoll];
  const int taken = completions_.Poll(completions, kCompletionsPerPoll);
  if (taken <= 0) return false;
  backlog_.insert(backlog_.end(), completions, completions + taken);
  return true;
}

ABSL_ATTRIBUTE_NOINLINE int EndpointDevice::PollBacklog(ibv_wc* to, int most) {
  const size_t count = std::min(static_cast<size_t>(most), backlog_.size() - backlog_begin_);
  std::copy_n(backlog_.begin() + static_cast<ptrdiff_t>(backlog_begin_), count, to);
  backlog_begin_ += count;
  if (backlog_begin_ < backlog_.size()) return most;
  backlog_.clear();
  backlog_begin_ = 0;
  const int more = completions_.Poll(to + count, most - static_cast<int>(count));
  return static_cast<int>(count) + std::max(more, 0);
}

bool EndpointDevice::Arm() {
  if (!backlog_.empty()) return false;
  completions_.Arm();
  // A completion that arrived before the queues were armed ends no sleep.
  return !SetAllAside();
}

}  // namespace farlook::rdma::verbs
