// Requests a server's statistics when they are scraped.
//
// The server gets at most one stat request in kFreshMs, however many callers scrape: the result is kept for that time.
#ifndef FARLOOK_CLIENT_EXPORTER_SCRAPER_H_
#define FARLOOK_CLIENT_EXPORTER_SCRAPER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "farlook/client.h"

namespace farlook::exporter {

// Returns the state of a server with this status of a request; `stats`: its statistics, if it sent them.
enum class State : uint8_t { kReady, kStarting, kDraining, kDown };
State StateOf(const absl::Status& status, absl::string_view stats);
// Returns "ready", "starting", "draining" or "down".
absl::string_view StateName(State state);

// Thread safety: any thread. A call waits for at most twice `timeout_ms`, and for the calls before it.
class Scraper {
 public:
  static constexpr int64_t kFreshMs = 500;

  Scraper(std::string address, int64_t timeout_ms) : address_(std::move(address)), timeout_ms_(timeout_ms) {}

  // Returns the page of /metrics. It contains farlook_up 0 if the server does not answer.
  std::string Metrics() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the page of /healthz: the state, and the reason.
  std::string Health(State* state) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  const int64_t timeout_ms_;
  absl::Mutex mutex_;
  std::unique_ptr<Client> client_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration took_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  State state_ ABSL_GUARDED_BY(mutex_) = State::kDown;
  std::string stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::exporter

#endif  // FARLOOK_CLIENT_EXPORTER_SCRAPER_H_
