#include "server/executor/tidy.h"

#include <algorithm>

#include "kv/table/table.h"

namespace farlook::server {

void Tidy::Poll(int64_t now_ns) {
  if (TakeNote() && shared().table->untidy()) {
    wait_ns_ = kFirstWaitNs;
    set_due_ns(std::min(due_ns(), now_ns + kFirstWaitNs));
  }
  if (now_ns >= due_ns()) Step(now_ns);
}

void Tidy::Step(int64_t now_ns) {
  const int partitions = shared().table->partitions();
  int64_t end_ns = now_ns;
  while (looked_ < partitions && end_ns - now_ns < kStepNs) {
    kv::TidyResult result = kv::TidyResult::kWaits;  // for the lock
    TryLocked([&] {
      // With the lock held: see "Retired segments" in docs/design-notes.md.
      result = shared().table->Tidy(partition(), shared().clock->NowNs());
    });
    end_ns = shared().clock->NowNs();
    if (result == kv::TidyResult::kDid) {
      did_ = true;
      continue;
    }
    waits_ = waits_ || result == kv::TidyResult::kWaits;
    NextPartition();
    ++looked_;
  }
  set_due_ns(end_ns + (kShare - 1) * (end_ns - now_ns));
  if (looked_ == partitions) EndRound(end_ns);
}

void Tidy::EndRound(int64_t now_ns) {
  if (did_) {
    wait_ns_ = kFirstWaitNs;
  } else if (!waits_) {
    set_due_ns(kNever);
  } else {
    set_due_ns(std::max(due_ns(), now_ns + wait_ns_));
    wait_ns_ = std::min(2 * wait_ns_, kLongestWaitNs);
  }
  looked_ = 0;
  did_ = waits_ = false;
}

}  // namespace farlook::server
