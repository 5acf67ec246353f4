// State of a group's member that workers check. For each connection: whether it serves clients, and where it redirects
// them. In a cluster, for each request: the slots that its group owns.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_REPLICATION_SERVING_H_
#define FARLOOK_SERVER_REPLICATION_SERVING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kv/wire/cluster_map.h"

namespace farlook::server {

class Serving {
 public:
  // The group's configuration, as sent to clients.
  struct Announcement {
    std::string primary;  // its address; empty: none is known
    std::string members;  // addresses of all members, the primary first, separated by commas
    uint64_t epoch = 0;   // 0: none is known
    uint32_t lease_us = 0;
    uint64_t history = 0;      // of the table: see kv::Welcome
    std::string cluster = {};  // the cluster of the group; empty: none
    kv::SlotWords slots = {};  // the group's slots in this epoch
    std::string loss = {};     // message if all members are lost; else empty
  };

  bool now() const {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  Announcement announced() const {
    absl::MutexLock lock(&mutex_);
    return announced_;
  }

  // Returns whether enough members are in sync to acknowledge writes. A thread that calls this after it saw a record
  // committed gets the answer for the members that committed it, or for later ones.
  bool takes_writes() const { return takes_writes_.load(std::memory_order_acquire); }
  void SetTakesWrites(bool takes) { takes_writes_.store(takes, std::memory_order_release); }

  // Returns whether the group owns this slot. Without a cluster it owns all.
  bool Owns(size_t slot) const {
    if (!is_in_cluster_.load(std::memory_order_acquire)) return true;
    return (slots_[slot / 64].load(std::memory_order_acquire) >> slot % 64 & 1) != 0;
  }
  // Sets the slots that this group of a cluster owns. One thread at a time.
  void SetSlots(const kv::SlotSet& slots) {
    const kv::SlotWords words = kv::WordsOf(slots);
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].store(words[i], std::memory_order_release);
    is_in_cluster_.store(true, std::memory_order_release);
  }

  void Set(bool now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }
  void Announce(Announcement announced) {
    absl::MutexLock lock(&mutex_);
    announced_ = std::move(announced);
  }

 private:
  std::atomic<bool> takes_writes_{true};
  std::atomic<bool> is_in_cluster_{false};
  std::array<std::atomic<uint64_t>, kv::kClusterSlots / 64> slots_{};  // a bit each
  mutable absl::Mutex mutex_;
  bool now_ ABSL_GUARDED_BY(mutex_) = false;
  Announcement announced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_SERVING_H_
