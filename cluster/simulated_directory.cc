#include "cluster/simulated_directory.h"

#include <utility>

namespace farlook::cluster {

Entry SimulatedRecords::Find(absl::string_view name, size_t ago) const {
  const auto found = history_.find(std::string(name));
  if (found == history_.end() || found->second.size() <= ago) return Entry();
  return found->second[found->second.size() - 1 - ago];
}

Entry SimulatedRecords::Get(absl::string_view name, size_t ago) const {
  const absl::ReaderMutexLock lock(&mutex_);
  return Find(name, ago);
}

CasResult SimulatedRecords::Cas(absl::string_view name, uint64_t expected, absl::string_view value) {
  const absl::MutexLock lock(&mutex_);
  if (Find(name, 0).revision != expected) return {.outcome = CasOutcome::kConflict};
  history_[std::string(name)].push_back({.revision = ++revision_, .value = std::string(value)});
  return {.outcome = CasOutcome::kDone, .revision = revision_};
}

bool SimulatedRecords::Wait(absl::string_view name, uint64_t after, absl::Duration timeout) const {
  const auto changed = [this, name, after]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return Find(name, 0).revision > after; };
  absl::ReaderMutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&changed), timeout);
}

void SimulatedRecords::Delay(absl::string_view name, uint64_t expected, absl::string_view value) {
  const absl::MutexLock lock(&mutex_);
  delayed_.push_back({.name = std::string(name), .expected = expected, .value = std::string(value)});
}

size_t SimulatedRecords::delayed() const {
  const absl::ReaderMutexLock lock(&mutex_);
  return delayed_.size();
}

void SimulatedRecords::Execute(size_t i) {
  Request request;
  {
    const absl::MutexLock lock(&mutex_);
    request = std::move(delayed_[i]);
    delayed_.erase(delayed_.begin() + static_cast<ptrdiff_t>(i));
  }
  Cas(request.name, request.expected, request.value);
}

absl::StatusOr<Entry> SimulatedDirectory::Get(absl::string_view name, Freshness freshness) {
  if (absl::Status status = CheckRecord(name, 0); !status.ok()) return status;
  const Fault fault = fault_();
  if (fault == Fault::kNone) return records_.Get(name);
  if (fault == Fault::kOld) return records_.Get(name, freshness == Freshness::kMaybeOld ? 1 : 0);
  return absl::UnavailableError("simulated: no answer");
}

CasResult SimulatedDirectory::Cas(absl::string_view name, uint64_t expected, absl::string_view value) {
  if (absl::Status status = CheckRecord(name, value.size()); !status.ok()) {
    return {.outcome = CasOutcome::kNotDone, .why = std::move(status)};
  }
  const Fault fault = fault_();
  if (fault == Fault::kNone || fault == Fault::kOld) return records_.Cas(name, expected, value);
  if (fault == Fault::kReplyLost) records_.Cas(name, expected, value);
  if (fault == Fault::kLate) records_.Delay(name, expected, value);
  return {.outcome = CasOutcome::kUnknown, .why = absl::UnavailableError("simulated: no answer")};
}

absl::StatusOr<Entry> SimulatedDirectory::Wait(absl::string_view name, uint64_t after, absl::Duration timeout) {
  absl::StatusOr<Entry> entry = Get(name, Freshness::kLatest);
  if (!entry.ok() || entry->revision > after) return entry;
  if (entry->revision < after) return absl::DataLossError("simulated: the record went back");
  if (!records_.Wait(name, after, timeout)) return absl::DeadlineExceededError("simulated: no change in time");
  return records_.Get(name);
}

}  // namespace farlook::cluster
