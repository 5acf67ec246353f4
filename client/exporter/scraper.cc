#include "client/exporter/scraper.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "client/exporter/metrics.h"
#include "farlook/options.h"

namespace farlook::exporter {

// The status of a Connect or a call has no field for the state; the texts are the server's (server/executor/shared.h,
// server/daemon/server.cc). A server that is shutting down answers connected clients until it has closed their
// connections.
State StateOf(const absl::Status& status, absl::string_view stats) {
  if (status.ok()) return absl::StrContains(stats, "\ndraining 1\n") ? State::kDraining : State::kReady;
  if (absl::StrContains(status.message(), "is starting")) return State::kStarting;
  if (absl::StrContains(status.message(), "shutting down")) return State::kDraining;
  return State::kDown;
}

absl::string_view StateName(State state) {
  switch (state) {
    case State::kReady:
      return "ready";
    case State::kStarting:
      return "starting";
    case State::kDraining:
      return "draining";
    case State::kDown:
      break;
  }
  return "down";
}

absl::Status Scraper::Ask() {
  if (client_ == nullptr) {
    ClientOptions options;
    options.timeout_ms = timeout_ms_;
    options.read_only = true;
    options.as_operator = true;  // a full server is not down
    options.mirror_bytes = 0;
    options.counter_cache_bytes = 0;
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_, options);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
  }
  ServerOptions call;
  call.timeout_ms = timeout_ms_;
  absl::StatusOr<std::string> stats = client_->ServerStats(call);
  if (!stats.ok()) {
    client_.reset();  // the next look shows why connecting fails
    return stats.status();
  }
  stats_ = *std::move(stats);
  return absl::OkStatus();
}

void Scraper::Look() {
  const absl::Time now = SteadyNow();
  if (now < looked_ + absl::Milliseconds(kFreshMs)) return;
  status_ = Ask();
  state_ = StateOf(status_, stats_);
  looked_ = SteadyNow();
  took_ = looked_ - now;
}

std::string Scraper::Metrics() {
  absl::MutexLock lock(&mutex_);
  Look();
  std::string page = absl::StrCat(
      "# HELP farlook_up Whether the server answered.\n# TYPE farlook_up gauge\nfarlook_up ", status_.ok() ? 1 : 0,
      "\n# HELP farlook_state What the server does: 1 at one of the states.\n# TYPE farlook_state gauge\n");
  for (const State state : {State::kReady, State::kStarting, State::kDraining, State::kDown}) {
    absl::StrAppend(&page, "farlook_state{state=\"", StateName(state), "\"} ", state == state_ ? 1 : 0, "\n");
  }
  absl::StrAppend(&page,
                  "# HELP farlook_answer_seconds How long the server took to answer.\n"
                  "# TYPE farlook_answer_seconds gauge\nfarlook_answer_seconds ",
                  absl::ToDoubleSeconds(took_), "\n");
  if (status_.ok()) absl::StrAppend(&page, ToMetrics(stats_));
  return page;
}

std::string Scraper::Health(State* state) {
  absl::MutexLock lock(&mutex_);
  Look();
  *state = state_;
  return absl::StrCat(StateName(*state), "\n", status_.message(), status_.ok() ? "" : "\n");
}

}  // namespace farlook::exporter
