#include "client/multi_get.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/core.h"
#include "client/core_testing.h"
#include "client/waiter.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"

namespace farlook::client {
namespace {

// Time passes whenever somebody looks.
class TickingClock final : public rdma::Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += 1'000'000; }

 private:
  mutable int64_t now_ns_ = 1'000'000'000;
};

class MultiGetTest : public CoreTest {
 protected:
  void ConnectTicking() {
    core_ = std::make_unique<ClientCore>(network_.CreateEndpoint(), "fake://", options_, ticking_, /*random_seed=*/1);
    core_->Connect();
    Poll();
    ASSERT_TRUE(core_->ready()) << core_->refused();
  }
  // Never asleep: the fake transport has no descriptor.
  absl::Status Run(size_t count, int64_t timeout_ms, std::vector<Client::Result>* results) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back("key" + std::to_string(i));
    const std::vector<absl::string_view> views(keys.begin(), keys.end());
    results->clear();
    results->resize(count);
    Waiter waiter(core_.get(), /*spin_us=*/3'600'000'000);
    return MultiGetter(core_.get(), &waiter).Run(views, absl::MakeSpan(*results), timeout_ms);
  }

  TickingClock ticking_;
};

TEST_F(MultiGetTest, ManyBatchesHaveOneDeadline) {
  ConnectTicking();
  network_.hold_reads = true;
  std::vector<Client::Result> results;
  const int64_t before_ns = ticking_.NowNs();
  const absl::Status status = Run(1000, /*timeout_ms=*/2000, &results);
  // Expect: four batches, and not four timeouts one after the other.
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(ticking_.NowNs() - before_ns, 3'000'000'000);
  for (const Client::Result& result : results) {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded) << result.status;
  }
}

TEST_F(MultiGetTest, OneKeyThatIsAbsentIsNoError) {
  ConnectTicking();
  for (int i = 0; i < 10; ++i) {
    auto put = Start(Kind::kPut, "key" + std::to_string(i), "value" + std::to_string(i), 1'000'000);
    for (int turn = 0; turn < 100 && !put->done(); ++turn) Poll();
    ASSERT_TRUE(put->status().ok()) << put->status();
  }
  std::vector<Client::Result> results;
  const absl::Status status = Run(300, /*timeout_ms=*/1'000'000, &results);
  EXPECT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < 10) {
      EXPECT_TRUE(results[i].status.ok()) << results[i].status;
      EXPECT_EQ(results[i].value.data, "value" + std::to_string(i));
    } else {
      EXPECT_EQ(results[i].status.code(), absl::StatusCode::kNotFound) << i;
    }
  }
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
