// Operations on counters that do not wait: a part of async.h, which includes it.
#ifndef FARLOOK_ASYNC_COUNTERS_H_
#define FARLOOK_ASYNC_COUNTERS_H_

#include <cstdint>
#include <string_view>

#include "farlook/async.h"
#include "farlook/options.h"

namespace farlook {

// The base of operations on counters.
class CounterOperation : public AsyncOperation {
 public:
  // The value before the operation took effect; also with OUT_OF_RANGE and ALREADY_EXISTS.
  int64_t value() const;
  void set_options(const CounterOptions& options);

 protected:
  CounterOperation(std::string_view key, const CounterOptions& options);
  void set_operands(int64_t operand, int64_t expected);
};

class CreateCounterOperation final : public CounterOperation {
 public:
  explicit CreateCounterOperation(std::string_view key = {}, int64_t initial = 0, const CounterOptions& options = {});
};

class FetchAddOperation final : public CounterOperation {
 public:
  explicit FetchAddOperation(std::string_view key = {}, int64_t delta = 0, const CounterOptions& options = {});
  void set_delta(int64_t delta);
};

// Sets the counter to `desired` if value() is `expected`.
class CompareSwapOperation final : public CounterOperation {
 public:
  CompareSwapOperation(std::string_view key, int64_t expected, int64_t desired, const CounterOptions& options = {});
};

class ReadCounterOperation final : public CounterOperation {
 public:
  explicit ReadCounterOperation(std::string_view key = {}, const CounterOptions& options = {});
};

class DeleteCounterOperation final : public CounterOperation {
 public:
  explicit DeleteCounterOperation(std::string_view key = {}, const CounterOptions& options = {});
};

}  // namespace farlook

#endif  // FARLOOK_ASYNC_COUNTERS_H_
