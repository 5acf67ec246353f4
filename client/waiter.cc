#include "client/waiter.h"

#include <sys/epoll.h>

#include <algorithm>
#include <limits>

#include "absl/types/span.h"
#include "rdma/clock.h"

namespace farlook::client {
namespace {

// A spinning caller looks at the clock only once in so many looks at the transport.
constexpr uint32_t kTurnsPerTick = 8;

// A server that is not there yet, is shutting down, or has as many clients as it may have.
bool MayGetBetter(const absl::Status& refused) {
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused) || absl::IsDeadlineExceeded(refused);
}

int64_t NowNs() { return rdma::Clock::Real().NowNs(); }

}  // namespace

void Waiter::Wait(absl::FunctionRef<bool()> done, int64_t end_ns) {
  bool spinning = spin_us_ > 0;
  const int64_t spin_until_ns = spinning ? NowNs() + spin_us_ * 1000 : 0;
  for (uint32_t turn = 1;; ++turn) {
    const bool tick = !spinning || turn % kTurnsPerTick == 0;
    if (tick) {
      core_->Poll(absl::Span<Operation*>());
    } else {
      core_->Progress();
    }
    if (done()) return;
    if (!tick) continue;
    const int64_t now_ns = NowNs();
    if (now_ns >= end_ns) return;
    // On the server's processor polling would only keep the server from answering.
    spinning = spinning && now_ns < spin_until_ns && core_->heard() != rdma::Heard::kHere;
    if (!spinning) Sleep(now_ns, end_ns);
  }
}

void Waiter::Sleep(int64_t now_ns, int64_t end_ns) {
  if (!core_->Arm()) return;
  int64_t wait_ms = core_->wait_ms();
  if (end_ns != ClientCore::kNoDeadline) {
    const int64_t left_ms = (end_ns - now_ns + 999'999) / 1'000'000;
    wait_ms = wait_ms < 0 ? left_ms : std::min(wait_ms, left_ms);
  }
  epoll_event event;
  epoll_wait(core_->fd(), &event, /*maxevents=*/1,
             static_cast<int>(std::min<int64_t>(wait_ms, std::numeric_limits<int>::max())));
}

absl::Status Waiter::Connect(int64_t timeout_ms, bool wait_for_server) {
  const int64_t end_ns = NowNs() + std::clamp<int64_t>(timeout_ms, 0, INT64_MAX / 4'000'000) * 1'000'000;
  core_->Connect();
  const auto decided = [this, wait_for_server] {
    if (core_->ready()) return true;
    if (core_->refused().ok()) return false;
    if (!wait_for_server || !MayGetBetter(core_->refused())) return true;
    core_->Connect();  // once more, when its time has come
    return false;
  };
  Wait(decided, end_ns);
  if (core_->ready()) return absl::OkStatus();
  const absl::Status& refused = core_->refused();
  if (refused.ok()) return absl::UnavailableError("no server answered within the time given");
  switch (refused.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:  // a group's
      return refused;
    default:
      return absl::UnavailableError(refused.message());
  }
}

}  // namespace farlook::client
