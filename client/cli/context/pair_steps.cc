#include "client/cli/context/pair_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {

// ---- Export.

ReadPair::ReadPair(const std::string& key, int64_t timeout_ms)
    : ttl_(key, {.timeout_ms = timeout_ms}),
      get_(key, {.timeout_ms = timeout_ms}),
      counter_(key, {.timeout_ms = timeout_ms}) {}

AsyncOperation* ReadPair::Next(const AsyncOperation* ended) {
  if (ended == nullptr) return &ttl_;
  last_ = ended;
  if (ended == &ttl_) return ttl_.status().ok() ? &get_ : nullptr;
  if (ended != &get_) return nullptr;
  if (absl::IsFailedPrecondition(get_.status())) return &counter_;
  const bool together = !get_.status().ok() || get_.version() == ttl_.version();
  return together || ++attempts_ == kMostAttempts ? nullptr : &ttl_;
}

std::string ReadPair::Explanation(const Options& options) const {
  return Explain(*last_, last_ == &counter_ ? Action::kReadCounter : Action::kRead, options);
}

Pair ReadPair::TakePair() {
  Pair pair;
  pair.key = get_.key();
  if (last_ == &counter_) {
    pair.counter = counter_.value();
  } else {
    pair.value = std::move(get_.value());
    pair.version = get_.version();
  }
  if (ttl_.left_ms() != kForever) pair.ttl_ms = ttl_.left_ms();
  pair.keep = ttl_.keep();
  return pair;
}

// ---- Import.

WritePair::WritePair(Pair pair, bool insert_only, int64_t timeout_ms)
    : pair_{.key = std::move(pair.key), .counter = pair.counter, .ttl_ms = pair.ttl_ms, .keep = pair.keep},
      insert_only_(insert_only),
      counter_options_{.exactly_once = true, .timeout_ms = timeout_ms, .ttl_ms = pair.ttl_ms},
      pair_bytes_(pair_.key.size() + pair.value.size()) {
  if (pair_.counter.has_value()) return;
  put_.emplace(pair_.key, std::move(pair.value),
               PutOptions{.condition = insert_only ? Condition::IfAbsent() : Condition::Always(),
                          .timeout_ms = timeout_ms,
                          .ttl_ms = pair_.ttl_ms,
                          .keep = pair_.keep});
}

AsyncOperation* WritePair::Next(const AsyncOperation* ended) {
  if (put_.has_value()) {
    last_ = &*put_;
    return ended == nullptr ? &*put_ : nullptr;
  }
  if (ended == nullptr) return &create_.emplace(pair_.key, *pair_.counter, counter_options_);
  last_ = ended;
  const absl::Status& status = ended->status();
  if (create_.has_value() && ended == &*create_) {
    return absl::IsAlreadyExists(status) && !insert_only_ ? Swap(create_->value()) : nullptr;
  }
  // It was deleted or expired meanwhile.
  if (absl::IsNotFound(status)) return &create_.emplace(pair_.key, *pair_.counter, counter_options_);
  if (!status.ok() || !swap_.has_value() || ended != &*swap_) return nullptr;
  if (swap_->value() != expected_) return Swap(swap_->value());
  const TouchOptions options = {.timeout_ms = counter_options_.timeout_ms};
  if (pair_.ttl_ms == 0) return &persist_.emplace(pair_.key, options);
  return &touch_.emplace(pair_.key, pair_.ttl_ms, options);
}

AsyncOperation* WritePair::Swap(int64_t expected) {
  if (++swaps_ > kMostSwaps) {
    gave_up_ = absl::FailedPreconditionError(
        absl::StrCat("counter ", Quoted(pair_.key), " changes faster than it can be set; nothing was stored"));
    return nullptr;
  }
  expected_ = expected;
  return &swap_.emplace(pair_.key, expected, *pair_.counter, counter_options_);
}

std::string WritePair::Explanation(const Options& options) const {
  if (!gave_up_.ok()) return std::string(gave_up_.message());
  return Explain(*last_, pair_.counter.has_value() ? Action::kChangeCounter : Action::kWrite, options);
}

void WritePair::ForgetValue() {
  if (put_.has_value()) put_->set_value(std::string());
}

}  // namespace farlook::cli
