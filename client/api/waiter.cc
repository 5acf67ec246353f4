#include "client/api/waiter.h"

#include <poll.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rdma/clock.h"
#include "rdma/durations.h"

namespace farlook::client {
namespace {

// A spinning caller reads the clock once in N polls of the transport.
constexpr uint32_t kTurnsPerTick = 8;

// Limits of the time until while_waiting() is called: the first time, and any time.
constexpr int64_t kFirstAskMs = 10, kMostAskMs = 1'000'000;

// For Connect: time for greeting the backups of a group.
constexpr int64_t kMostForGreetingMs = 100;

// Returns whether the server may not be there yet, shut down, or have its maximum of clients.
bool MayGetBetter(const absl::Status& refused) {
  return absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused) || absl::IsDeadlineExceeded(refused);
}

int64_t NowNs() { return rdma::Clock::Real().NowNs(); }
int64_t EndNs(int64_t timeout_ms) { return NowNs() + rdma::NsOfMs(timeout_ms); }

// Returns whether the result of an attempt to connect is known.
bool IsDecided(ClientCore* core, bool wait_for_server) {
  if (core->ready()) return true;
  if (!core->refused().ok() && (!wait_for_server || !MayGetBetter(core->refused()))) return true;
  // Try again when it is due. A connection may also have been ready, and lost before this call looked: when its group
  // took a member in at that moment. Then only this call causes another attempt.
  core->Connect();
  return false;
}

absl::Status HowItEnded(const ClientCore& core) {
  if (core.ready()) return absl::OkStatus();
  const absl::Status& refused = core.refused();
  if (refused.ok()) {
    const absl::Status pending = core.pending();
    return absl::UnavailableError(pending.ok() ? "no server answered within the time given" : pending.message());
  }
  switch (refused.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:  // of a group
      return refused;
    default:
      return absl::UnavailableError(refused.message());
  }
}

}  // namespace

bool Waiter::Wait(absl::FunctionRef<bool()> done, int64_t end_ns) {
  int64_t ask_ns = 0;
  bool spinning = spin_us_ > 0;
  const int64_t spin_until_ns = spinning ? NowNs() + rdma::NsOfUs(spin_us_) : 0;
  for (uint32_t turn = 1;; ++turn) {
    const bool tick = !spinning || turn % kTurnsPerTick == 0;
    bool is_active_here = false;
    for (ClientCore* core : cores_->all()) {
      if (!Waits(*core)) continue;
      if (tick) {
        core->Poll(absl::Span<Operation*>());
        is_active_here |= core->peer_activity() == rdma::PeerActivity::kHere;
      } else {
        core->Progress();
      }
    }
    if (tick && !cores_->one()) cores_->PollMoved();
    if (done()) return true;
    if (!tick) continue;
    const int64_t now_ns = NowNs();
    if (now_ns >= end_ns) return true;
    if (while_waiting_ != nullptr && now_ns >= ask_ns) [[unlikely]] {
      if (!GoesOn(now_ns, &ask_ns)) return false;
      continue;  // time has passed, and it may have used the cores
    }
    // On the server's processor, polling would only keep the server from running.
    spinning = spinning && now_ns < spin_until_ns && !is_active_here;
    if (!spinning) Sleep(now_ns, while_waiting_ != nullptr ? std::min(end_ns, ask_ns) : end_ns);
  }
}

// Calls while_waiting(), unless the wait has only begun; sets the time of the next call.
bool Waiter::GoesOn(int64_t now_ns, int64_t* ask_ns) {
  int64_t next_ms = kFirstAskMs;
  if (*ask_ns != 0) {
    {
      const OneThread::Pause pause(&one_thread_);
      next_ms = while_waiting_();
    }
    now_ns = NowNs();
  }
  *ask_ns = now_ns + rdma::NsOfMs(std::min(next_ms, kMostAskMs));
  return next_ms >= 0;
}

bool Waiter::WaitFor(absl::Span<const Operation> operations) {
  const auto is_done = [](const Operation& operation) { return operation.done; };
  if (Wait([&] { return std::all_of(operations.begin(), operations.end(), is_done); })) return true;
  cores_->GiveUp([operations](const Operation* operation) {
    return !std::less<>()(operation, operations.begin()) && std::less<>()(operation, operations.end());
  });
  return false;
}

void Waiter::Sleep(int64_t now_ns, int64_t end_ns) {
  const OneThread::Call call(&one_thread_);
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
  if (fds.empty() && wait_ms < 0) return;
  poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(wait_ms, std::numeric_limits<int>::max())));
}

absl::Status Waiter::Connect(ClientCore* core, int64_t timeout_ms, bool wait_for_server) {
  core->Connect();
  Wait([core, wait_for_server] { return IsDecided(core, wait_for_server); }, EndNs(timeout_ms));
  Greet();
  return HowItEnded(*core);
}

// A server drops an admitted client that sends no Hello, and the next call of the user may be late. A backup that does
// not answer is not waited for.
void Waiter::Greet() {
  const auto greeted = [this] {
    const auto cores = cores_->all();
    return std::none_of(cores.begin(), cores.end(), [](const ClientCore* core) { return core->greets(); });
  };
  if (!greeted()) Wait(greeted, EndNs(kMostForGreetingMs));
}

absl::Status Waiter::ConnectAll(int64_t timeout_ms, bool wait_for_server) {
  const auto cores = cores_->all();
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
  // A group without slots may have been stopped.
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
