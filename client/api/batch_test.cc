#include "client/api/batch.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/api/waiter.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/testing/core_testing.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"

namespace farlook::client {
namespace {

// Time passes with each reading.
class TickingClock final : public rdma::Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += 1'000'000; }
  void Advance(int64_t ns) { now_ns_ += ns; }

 private:
  mutable int64_t now_ns_ = 1'000'000'000;
};

class BatchTest : public CoreTest {
 protected:
  ~BatchTest() override { core_.reset(); }  // it reads its clock as it ends

  void ConnectTicking() {
    core_ = std::make_unique<ClientCore>(network_.CreateEndpoint(), "fake://", options_, ticking_, /*random_seed=*/1);
    core_->Connect();
    Poll();
    ASSERT_TRUE(core_->ready()) << core_->refused();
  }
  static std::vector<std::string> Keys(size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
    return keys;
  }
  // Never asleep: the fake transport has no descriptor.
  absl::Status Run(Kind kind, size_t count, int64_t timeout_ms, std::vector<absl::Status>* results,
                   std::vector<std::string>* values = nullptr) {
    const std::vector<std::string> keys = Keys(count);
    results->assign(count, absl::OkStatus());
    std::vector<std::string> found(count);
    Cores cores(core_.get());
    Waiter waiter(&cores, /*spin_us=*/3'600'000'000);
    Batch batch(&cores, &waiter);
    absl::Status status = batch.Run(
        kind, count, timeout_ms,
        [&](size_t i, Operation* operation) {
          operation->key = keys[i];
          operation->ttl_ms = kind == Kind::kTouch ? 1000 : 0;
          operation->to.string = &found[i];
        },
        [&](size_t i, Operation* operation) { TakeStatus(operation, &(*results)[i]); });
    if (values != nullptr) *values = found;
    return status;
  }

  TickingClock ticking_;
};

// For each kind that the interface has batches of.
class BatchOfKindTest : public BatchTest, public testing::WithParamInterface<Kind> {};

TEST_P(BatchOfKindTest, ManyRunsHaveOneDeadline) {
  ConnectTicking();
  network_.hold_reads = network_.hold_requests = true;
  std::vector<absl::Status> results;
  const int64_t before_ns = ticking_.NowNs();
  const absl::Status status = Run(GetParam(), 1000, /*timeout_ms=*/2000, &results);
  // Expect: four runs, without four consecutive timeouts.
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(ticking_.NowNs() - before_ns, 3'000'000'000);
  for (const absl::Status& result : results) {
    EXPECT_EQ(result.code(), absl::StatusCode::kDeadlineExceeded) << result;
  }
}

// A run that ends without waiting also uses up time.
TEST_P(BatchOfKindTest, TheTimeBeginsWhenTheCallBegins) {
  ConnectTicking();
  const std::vector<std::string> keys = Keys(1000);
  Cores cores(core_.get());
  Waiter waiter(&cores, /*spin_us=*/3'600'000'000);
  Batch batch(&cores, &waiter);
  const int64_t before_ns = ticking_.NowNs();
  const absl::Status status = batch.Run(
      GetParam(), keys.size(), /*timeout_ms=*/2000,
      [&](size_t i, Operation* operation) {
        operation->key = keys[i];
        operation->ttl_ms = GetParam() == Kind::kTouch ? 1000 : 0;
        // The second run hangs, after 1.5 s.
        if (i == 256) {
          ticking_.Advance(1'500'000'000);
          network_.hold_reads = network_.hold_requests = true;
        }
      },
      [](size_t, Operation* operation) { operation->status = absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  // It would be 3.5 s if the timeout began with the second run.
  EXPECT_LT(ticking_.NowNs() - before_ns, 3'000'000'000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchOfKindTest,
                         testing::Values(Kind::kGet, Kind::kPut, Kind::kTouch, Kind::kDelete, Kind::kFetchAdd,
                                         Kind::kReadCounter, Kind::kCreateCounter));

TEST_F(BatchTest, OneKeyThatIsAbsentIsNoError) {
  ConnectTicking();
  for (int i = 0; i < 10; ++i) {
    auto put = Start(Kind::kPut, "key" + std::to_string(i), "value" + std::to_string(i), 1'000'000);
    for (int turn = 0; turn < 100 && !put->done(); ++turn) Poll();
    ASSERT_TRUE(put->status().ok()) << put->status();
  }
  std::vector<absl::Status> results;
  std::vector<std::string> values;
  const absl::Status status = Run(Kind::kGet, 300, /*timeout_ms=*/1'000'000, &results, &values);
  EXPECT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < 10) {
      EXPECT_TRUE(results[i].ok()) << results[i];
      EXPECT_EQ(values[i], "value" + std::to_string(i));
    } else {
      EXPECT_EQ(results[i].code(), absl::StatusCode::kNotFound) << i;
    }
  }
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
