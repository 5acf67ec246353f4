// Whether a member of a group serves clients, and where others are told to go: looked at for each connection. Of a
// cluster's group also which keys it has: looked at for each request.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_SERVING_H_
#define FARLOOK_SERVER_SERVING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/cluster_map.h"

namespace farlook::server {

class Serving {
 public:
  // What clients are told of the group: its configuration.
  struct Told {
    std::string primary;  // its address; empty: none is known
    std::string members;  // the addresses of all, the primary first, separated by commas
    uint64_t epoch = 0;   // 0: none is known
    uint32_t lease_us = 0;
    std::string cluster = {};  // of which the group is one; empty: of none
    kv::SlotWords slots = {};  // that are the group's in this epoch
    std::string loss = {};     // all members are gone: what to say of that; empty: it is not so
  };

  bool now() const {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  Told told() const {
    absl::MutexLock lock(&mutex_);
    return told_;
  }

  // Whether as many members are in sync as must be for a write to be acknowledged. Who asks after it saw what is
  // committed hears it of the members that committed it, or of later ones.
  bool takes_writes() const { return takes_writes_.load(std::memory_order_acquire); }
  void SetTakesWrites(bool takes) { takes_writes_.store(takes, std::memory_order_release); }

  // Whether keys of this slot are this group's. All are, where there is no cluster.
  bool Owns(size_t slot) const {
    if (!is_in_cluster_.load(std::memory_order_acquire)) return true;
    return (slots_[slot / 64].load(std::memory_order_acquire) >> slot % 64 & 1) != 0;
  }
  // The group is one of a cluster, and these slots are its own. One thread at a time.
  void SetSlots(const kv::SlotSet& slots) {
    const kv::SlotWords words = kv::WordsOf(slots);
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].store(words[i], std::memory_order_release);
    is_in_cluster_.store(true, std::memory_order_release);
  }

  void Set(bool now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }
  void Tell(Told told) {
    absl::MutexLock lock(&mutex_);
    told_ = std::move(told);
  }

 private:
  std::atomic<bool> takes_writes_{true};
  std::atomic<bool> is_in_cluster_{false};
  std::array<std::atomic<uint64_t>, kv::kClusterSlots / 64> slots_{};  // a bit each
  mutable absl::Mutex mutex_;
  bool now_ ABSL_GUARDED_BY(mutex_) = false;
  Told told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVING_H_
