#include "rdma/tcp/dialing.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/socket.h"

namespace farlook::rdma::tcp {

absl::StatusOr<std::optional<Dialing::Attempt>> Dialing::Step(int64_t now_ns) {
  if (!found_) {
    absl::StatusOr<bool> found = candidates_.Find(now_ns);
    if (!found.ok()) return found.status();
    if (!*found) return std::nullopt;
    found_ = true;
  }
  for (size_t i = 0; i < attempts_.size();) {
    const Dialed dialed = LookAtDialed(attempts_[i].socket.get());
    if (dialed.connected) return std::exchange(attempts_[i], {});
    if (dialed.error != 0) {
      Failed(attempts_[i].to, dialed.error);
      attempts_.erase(attempts_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  while (candidates_.left() > 0 && (attempts_.empty() || now_ns >= next_ns_)) {
    if (absl::Status status = DialNext(now_ns); !status.ok()) return status;
  }
  if (attempts_.empty()) return NoServerAnswers();
  return std::nullopt;
}

absl::Status Dialing::DialNext(int64_t now_ns) {
  Attempt attempt;
  attempt.to = candidates_.Next();
  int error = 0;
  absl::StatusOr<UniqueFd> socket = Dial(attempt.to, liveness_ms_, &error);
  if (!socket.ok()) return socket.status();
  if (error != 0) {
    Failed(attempt.to, error);
    return absl::OkStatus();
  }
  attempt.socket = *std::move(socket);
  attempts_.push_back(std::move(attempt));
  next_ns_ = now_ns + kStaggerMs * 1'000'000;
  return absl::OkStatus();
}

void Dialing::Failed(const SocketAddress& to, int error) {
  candidates_.Failed(to, strerror(error));
  error_ = error;
  refused_ |= error == ECONNREFUSED;
}

absl::Status Dialing::NoServerAnswers() const {
  return CannotReach(shown(), is_name() ? candidates_.Tried() : strerror(error_), refused_);
}

absl::Status Dialing::TimedOut() const {
  if (!found_) return NotResolved(candidates_.address().host);
  if (!is_name()) return NoAnswerInTime(shown(), "");
  std::string tried = candidates_.Tried();
  for (const Attempt& attempt : attempts_) {
    absl::StrAppend(&tried, tried.empty() ? "" : ", ", ToText(attempt.to.get()), ": no answer");
  }
  return NoAnswerInTime(shown(), tried);
}

}  // namespace farlook::rdma::tcp
