// Caches that see every get, as references for hit ratios: they hold keys, all of one size.
#ifndef FARLOOK_BENCH_COMMON_REFERENCE_CACHES_H_
#define FARLOOK_BENCH_COMMON_REFERENCE_CACHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farlook::bench {

// Evicts the least recently used key.
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  bool Get(uint64_t key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return false;
    order_.splice(order_.begin(), order_, at->second);
    return true;
  }
  void Put(uint64_t key, bool /*refill*/) {
    if (Get(key)) return;
    if (order_.size() == capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(key);
    places_[key] = order_.begin();
  }

 private:
  const size_t capacity_;
  std::list<uint64_t> order_;
  absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

// Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction (SOSP 2023). A small queue with a
// tenth of the keys, a main queue that reinserts keys that were used, and ghosts of keys that left the small one.
class S3FifoCache {
 public:
  explicit S3FifoCache(size_t capacity) : capacity_(capacity), small_capacity_(capacity / 10) {}

  bool Get(uint64_t key) {
    const auto at = uses_.find(key);
    if (at == uses_.end()) return false;
    if (at->second < 3) ++at->second;
    return true;
  }
  void Put(uint64_t key, bool /*refill*/) {
    if (Get(key)) return;
    while (uses_.size() >= capacity_) Evict();
    uses_[key] = 0;
    (ghosts_.erase(key) > 0 ? main_ : small_).push_back(key);
  }

 private:
  void Evict() {
    if (small_.size() >= small_capacity_ || main_.empty()) {
      while (!small_.empty()) {
        const uint64_t key = Pop(&small_);
        if (uses_[key] == 0) return Bury(key);
        uses_[key] = 0;
        main_.push_back(key);
        if (main_.size() > capacity_ - small_capacity_) break;
      }
    }
    while (!main_.empty()) {
      const uint64_t key = Pop(&main_);
      if (uses_[key] == 0) {
        uses_.erase(key);
        return;
      }
      --uses_[key];
      main_.push_back(key);
    }
  }
  void Bury(uint64_t key) {
    uses_.erase(key);
    ghosts_[key] = ++buried_;
    graves_.emplace_back(key, buried_);
    while (graves_.size() > capacity_ - small_capacity_) {
      const auto [old, number] = graves_.front();
      graves_.pop_front();
      const auto at = ghosts_.find(old);
      if (at != ghosts_.end() && at->second == number) ghosts_.erase(at);
    }
  }
  static uint64_t Pop(std::deque<uint64_t>* queue) {
    const uint64_t key = queue->front();
    queue->pop_front();
    return key;
  }

  const size_t capacity_, small_capacity_;
  std::deque<uint64_t> small_, main_;
  absl::flat_hash_map<uint64_t, int> uses_;
  absl::flat_hash_map<uint64_t, uint64_t> ghosts_;
  std::deque<std::pair<uint64_t, uint64_t>> graves_;
  uint64_t buried_ = 0;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_REFERENCE_CACHES_H_
