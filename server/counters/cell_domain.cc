#include "server/counters/cell_domain.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "rdma/clock.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

using rdma::AtomicDomain;

// The device's own atomics, for a domain that excludes the CPU.
class LoopbackCellWriter final : public CellWriter {
 public:
  LoopbackCellWriter(std::unique_ptr<rdma::Loopback> loopback, uint64_t address)
      : loopback_(std::move(loopback)), address_(address) {}

  bool Read(uint64_t cell, int64_t* value) override {
    uint64_t word = 0;
    return Done(loopback_->Read(address_ + cell, &word), word, value);
  }
  bool FetchAdd(uint64_t cell, int64_t delta, int64_t* old) override {
    uint64_t word = 0;
    return Done(loopback_->FetchAdd(address_ + cell, static_cast<uint64_t>(delta), &word), word, old);
  }
  bool CompareSwap(uint64_t cell, int64_t expected, int64_t desired, int64_t* old) override {
    uint64_t word = 0;
    return Done(
        loopback_->CompareSwap(address_ + cell, static_cast<uint64_t>(expected), static_cast<uint64_t>(desired), &word),
        word, old);
  }

 private:
  bool Done(const absl::Status& status, const uint64_t& word, int64_t* value) {
    *value = static_cast<int64_t>(word);
    if (status.ok()) return true;
    absl::MutexLock lock(&mutex_);
    uint64_t suppressed;
    if (limit_.Allow(rdma::Clock::Real().NowNs(), &suppressed)) {
      Log(LogLevel::kError, "the server's own atomics fail: outcomes of requests about counters are unknown",
          {{"reason", status.message()}, {"suppressed", suppressed}});
    }
    return false;
  }

  const std::unique_ptr<rdma::Loopback> loopback_;
  const uint64_t address_;  // of the region
  absl::Mutex mutex_;
  RateLimit limit_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<CellDomain> OfferCells(const std::vector<std::unique_ptr<rdma::Listener>>& listeners,
                                      const rdma::SharedRange& cells, bool sealed) {
  CellDomain domain;
  domain.ranges.resize(listeners.size());
  const auto first = std::find_if(listeners.begin(), listeners.end(), [](const auto& listener) {
    return listener->atomic_domain() != AtomicDomain::kNone;
  });
  if (first != listeners.end() && (*first)->atomic_domain() == AtomicDomain::kDevice) {
    auto range = (*first)->Offer(cells, rdma::Access::kRemoteReadAtomic);
    if (!range.ok()) return range.status();
    auto loopback = (*first)->ConnectToItself(*range);
    if (!loopback.ok()) {
      return absl::Status(loopback.status().code(),
                          absl::StrCat(loopback.status().message(), "; --counter_memory=0 does without counters"));
    }
    domain.ranges[static_cast<size_t>(first - listeners.begin())] = *range;
    domain.writer = std::make_unique<LoopbackCellWriter>(*std::move(loopback), range->address);
    domain.name = (*first)->address();
    return domain;
  }
  for (size_t i = 0; i < listeners.size(); ++i) {
    if (listeners[i]->atomic_domain() != AtomicDomain::kCpu || !sealed) continue;
    auto range = listeners[i]->Offer(cells, rdma::Access::kRemoteReadAtomic);
    if (!range.ok()) return range.status();
    domain.ranges[i] = *range;
  }
  domain.writer = std::make_unique<CpuCellWriter>(absl::MakeSpan(cells.base, cells.bytes));
  domain.name = "cpu";
  return domain;
}

}  // namespace farlook::server
