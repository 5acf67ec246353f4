// The operations that export or import one pair, one after the other. OrderedWindow starts them.
//
//     ReadPair    ttl -> get -> again if a write came between; of a counter: ttl -> get -> read counter
//     WritePair   put; of a counter: create -> if it exists: swap until it holds the number -> touch or persist
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_PAIR_STEPS_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_PAIR_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/input/pair_format.h"
#include "client/cli/terminal/explain.h"
#include "farlook/async.h"

namespace farlook::cli {

// Next() returns the operation after `ended`, which is null for the first; null: the pair is finished, and status() is
// its result. All other functions REQUIRE that it is finished.
class ReadPair {
 public:
  ReadPair(const std::string& key, int64_t timeout_ms);
  AsyncOperation* Next(const AsyncOperation* ended);

  const absl::Status& status() const { return last_->status(); }
  std::string Explanation(const Options& options) const;
  // Returns the pair that was read, once. REQUIRES that status() is OK.
  Pair TakePair();
  size_t pair_bytes() const { return get_.key().size() + get_.value().size(); }
  size_t value_bytes() const { return get_.value().size(); }

 private:
  // Maximum number of attempts to read a value and its expiry without a write between. The last one counts anyway.
  static constexpr int kMostAttempts = 16;

  TtlOperation ttl_;
  GetOperation get_;
  ReadCounterOperation counter_;
  const AsyncOperation* last_ = nullptr;
  int attempts_ = 0;
};

class WritePair {
 public:
  // `insert_only`: an existing key is unchanged, and the status is ALREADY_EXISTS.
  WritePair(Pair pair, bool insert_only, int64_t timeout_ms);
  AsyncOperation* Next(const AsyncOperation* ended);

  const absl::Status& status() const { return gave_up_.ok() ? last_->status() : gave_up_; }
  std::string Explanation(const Options& options) const;
  size_t pair_bytes() const { return pair_bytes_; }
  // Releases the value's memory.
  void ForgetValue();

 private:
  // Maximum number of consecutive swaps that found another number.
  static constexpr int kMostSwaps = 1000;

  AsyncOperation* Swap(int64_t expected);

  const Pair pair_;  // its value is in the put
  const bool insert_only_;
  const CounterOptions counter_options_;
  const size_t pair_bytes_;
  std::optional<PutOperation> put_;
  std::optional<CreateCounterOperation> create_;
  std::optional<CompareSwapOperation> swap_;
  std::optional<TouchOperation> touch_;
  std::optional<PersistOperation> persist_;
  const AsyncOperation* last_ = nullptr;
  int64_t expected_ = 0;
  int swaps_ = 0;
  absl::Status gave_up_;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_PAIR_STEPS_H_
