// A client that makes one call after the other on a separate thread, and records how long each takes.
#ifndef FARLOOK_BENCH_CLUSTER_CALLER_H_
#define FARLOOK_BENCH_CLUSTER_CALLER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/common/clocks.h"
#include "farlook/client.h"

namespace farlook::bench {

class Caller {
 public:
  // Puts or gets the keys in turn, until it is destroyed or a call fails. `pause`: after each call.
  Caller(std::unique_ptr<Client> client, std::vector<std::string> keys, bool puts,
         std::chrono::microseconds pause = std::chrono::microseconds(0))
      : client_(std::move(client)), keys_(std::move(keys)), puts_(puts), pause_(pause), thread_([this] { Call(); }) {}
  ~Caller() {
    over_ = true;
    thread_.join();
  }
  uint64_t calls() const { return calls_; }
  bool failed() const { return failed_; }
  // The longest call that ended since the last call of this.
  int64_t TakeLongestNs() { return longest_ns_.exchange(0); }
  // Waits until `more` further calls have ended. Returns false if one failed.
  bool Await(uint64_t more) const {
    const uint64_t until = calls() + more;
    while (calls() < until && !failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return !failed();
  }

 private:
  void Call() {
    for (size_t i = 0; !over_ && !failed_; i = (i + 1) % keys_.size()) {
      const int64_t start_ns = NowNs();
      failed_ = puts_ ? !client_->Put(keys_[i], "value").ok() : !client_->Get(keys_[i]).ok();
      longest_ns_ = std::max(longest_ns_.load(), NowNs() - start_ns);
      ++calls_;
      if (pause_.count() > 0) std::this_thread::sleep_for(pause_);
    }
  }

  const std::unique_ptr<Client> client_;
  const std::vector<std::string> keys_;
  const bool puts_;
  const std::chrono::microseconds pause_;
  std::atomic<bool> over_{false}, failed_{false};
  std::atomic<uint64_t> calls_{0};
  std::atomic<int64_t> longest_ns_{0};
  std::thread thread_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_CLUSTER_CALLER_H_
