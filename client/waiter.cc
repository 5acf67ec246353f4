#include "client/waiter.h"

#include <poll.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rdma/clock.h"

namespace farlook::client {
namespace {

// A spinning caller looks at the clock only once in so many looks at the transport.
constexpr uint32_t kTurnsPerTick = 8;

// Of Connect, for backups of a group.
constexpr int64_t kMostForGreetingMs = 100;

// A server that is not there yet, is shutting down, or has as many clients as it may have.
bool MayGetBetter(const absl::Status& refused) {
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused) || absl::IsDeadlineExceeded(refused);
}

int64_t NowNs() { return rdma::Clock::Real().NowNs(); }
int64_t EndNs(int64_t timeout_ms) {
  return NowNs() + std::clamp<int64_t>(timeout_ms, 0, INT64_MAX / 4'000'000) * 1'000'000;
}

// Whether it is known how an attempt to connect ends.
bool IsDecided(ClientCore* core, bool wait_for_server) {
  if (core->ready()) return true;
  if (!core->refused().ok() && (!wait_for_server || !MayGetBetter(core->refused()))) return true;
  // Once more, when its time has come. A connection may also have been ready, and lost before anyone looked: to a group
  // that took a member in at that moment. Nobody but this call wants another one then.
  core->Connect();
  return false;
}

absl::Status HowItEnded(const ClientCore& core) {
  if (core.ready()) return absl::OkStatus();
  const absl::Status& refused = core.refused();
  if (refused.ok()) return absl::UnavailableError("no server answered within the time given");
  switch (refused.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:  // a group's
      return refused;
    default:
      return absl::UnavailableError(refused.message());
  }
}

}  // namespace

void Waiter::Wait(absl::FunctionRef<bool()> done, int64_t end_ns) {
  bool spinning = spin_us_ > 0;
  const int64_t spin_until_ns = spinning ? NowNs() + spin_us_ * 1000 : 0;
  for (uint32_t turn = 1;; ++turn) {
    const bool tick = !spinning || turn % kTurnsPerTick == 0;
    bool is_heard_here = false;
    for (ClientCore* core : cores_->all()) {
      if (!Waits(*core)) continue;
      if (tick) {
        core->Poll(absl::Span<Operation*>());
        is_heard_here |= core->heard() == rdma::Heard::kHere;
      } else {
        core->Progress();
      }
    }
    if (tick && !cores_->one()) cores_->LookAround();
    if (done()) return;
    if (!tick) continue;
    const int64_t now_ns = NowNs();
    if (now_ns >= end_ns) return;
    // On the server's processor polling would only keep the server from answering.
    spinning = spinning && now_ns < spin_until_ns && !is_heard_here;
    if (!spinning) Sleep(now_ns, end_ns);
  }
}

void Waiter::Sleep(int64_t now_ns, int64_t end_ns) {
  int64_t wait_ms = cores_->one() ? -1 : cores_->look_ms();
  absl::InlinedVector<pollfd, 16> fds;
  for (ClientCore* core : cores_->all()) {
    if (!Waits(*core)) continue;
    if (!core->Arm()) return;
    if (const int64_t its_ms = core->wait_ms(); its_ms >= 0) wait_ms = wait_ms < 0 ? its_ms : std::min(wait_ms, its_ms);
    fds.push_back({core->fd(), POLLIN, 0});
  }
  if (end_ns != ClientCore::kNoDeadline) {
    const int64_t left_ms = (end_ns - now_ns + 999'999) / 1'000'000;
    wait_ms = wait_ms < 0 ? left_ms : std::min(wait_ms, left_ms);
  }
  if (fds.empty()) return;
  poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(wait_ms, std::numeric_limits<int>::max())));
}

absl::Status Waiter::Connect(ClientCore* core, int64_t timeout_ms, bool wait_for_server) {
  core->Connect();
  Wait([core, wait_for_server] { return IsDecided(core, wait_for_server); }, EndNs(timeout_ms));
  Greet();
  return HowItEnded(*core);
}

// A server drops whom it let in, and who says no Hello: the user may be long in coming back. One that does not answer
// is not waited for.
void Waiter::Greet() {
  const auto greeted = [this] {
    const auto cores = cores_->all();
    return std::none_of(cores.begin(), cores.end(), [](const ClientCore* core) { return core->greets(); });
  };
  if (!greeted()) Wait(greeted, EndNs(kMostForGreetingMs));
}

absl::Status Waiter::ConnectAll(int64_t timeout_ms, bool wait_for_server) {
  const auto cores = cores_->served();
  std::vector<bool> awaited;
  for (size_t i = 0; i < cores.size(); ++i) {
    awaited.push_back(cores_->HasSlots(i));
    if (!cores[i]->ready()) cores[i]->Connect();
  }
  const auto decided = [&] {
    bool all = true;
    for (size_t i = 0; i < cores.size(); ++i) all &= IsDecided(cores[i], wait_for_server) || !awaited[i];
    return all;
  };
  Wait(decided, EndNs(timeout_ms));
  Greet();
  // A group that was emptied may have been stopped.
  for (size_t i = 0; i < cores.size(); ++i) {
    if (!awaited[i]) cores[i]->StopConnecting();
  }
  for (size_t i = 0; i < cores.size(); ++i) {
    const absl::Status status = HowItEnded(*cores[i]);
    if (status.ok() || MayGetBetter(status) || !awaited[i]) continue;
    return absl::Status(status.code(), absl::StrCat("group ", cores_->groups()[i], ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace farlook::client
