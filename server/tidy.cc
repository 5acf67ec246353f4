#include "server/tidy.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"

namespace farlook::server {

void Tidy::Poll(int64_t now_ns) {
  if (noted_) {
    noted_ = false;
    if (shared_.table->untidy()) {
      wait_ns_ = kFirstWaitNs;
      due_ns_ = std::min(due_ns_, now_ns + kFirstWaitNs);
    }
  }
  if (now_ns >= due_ns_) Step(now_ns);
}

void Tidy::Step(int64_t now_ns) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const int partitions = shared_.table->partitions();
  int64_t end_ns = now_ns;
  while (looked_ < partitions && end_ns - now_ns < kStepNs) {
    absl::Mutex* const mutex = shared_.locks->at(partition_);
    kv::TidyResult result = kv::TidyResult::kWaits;  // for the lock
    if (mutex->TryLock()) {
      const uint64_t start = Ticks();
      end_ns = shared_.clock->NowNs();  // with the lock held: see "Retired segments" in docs/design-notes.md
      result = shared_.table->Tidy(partition_, end_ns);
      const uint64_t end = Ticks();
      mutex->Unlock();
      if (times_ != nullptr) times_->Add(start, end);
    }
    end_ns = shared_.clock->NowNs();
    if (result == kv::TidyResult::kDid) {
      did_ = true;
      continue;
    }
    waits_ = waits_ || result == kv::TidyResult::kWaits;
    partition_ = (partition_ + 1) % partitions;
    ++looked_;
  }
  due_ns_ = end_ns + (kShare - 1) * (end_ns - now_ns);
  if (looked_ < partitions) return;
  looked_ = 0;
  if (did_) {
    wait_ns_ = kFirstWaitNs;
  } else if (!waits_) {
    due_ns_ = kNever;
  } else {
    due_ns_ = std::max(due_ns_, end_ns + wait_ns_);
    wait_ns_ = std::min(2 * wait_ns_, kLongestWaitNs);
  }
  did_ = waits_ = false;
}

}  // namespace farlook::server
