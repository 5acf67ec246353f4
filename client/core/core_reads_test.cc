// Gets of ClientCore: where bytes are written, what is verified, what ends when.
#include <algorithm>
#include <random>

#include "client/testing/core_testing.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"

namespace farlook::client {
namespace {

TEST_F(CoreTest, FindsWhatIsThereAndReportsWhatIsNot) {
  server_->Put("key", "value");
  Connect();
  auto get = Do(Kind::kGet, "key");
  EXPECT_TRUE(get->status().ok());
  EXPECT_EQ(get->result, "value");
  kv::ItemView item;
  EXPECT_EQ(get->operation.version, server_->table().Get(server_->table().HashOf("key"), "key", &item).version);
  const auto absent = Do(Kind::kGet, "other");
  EXPECT_EQ(absent->code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(absent->status().message().empty());
  EXPECT_TRUE(Do(Kind::kExists, "key")->status().ok());
  EXPECT_EQ(Do(Kind::kExists, "other")->code(), absl::StatusCode::kNotFound);
  // Expect: no message was sent for any of it.
  EXPECT_EQ(server_->executed, 0);
  EXPECT_EQ(core_->stats().gets, 4);
  EXPECT_EQ(core_->stats().hits, 2);
  EXPECT_EQ(core_->stats().misses, 2);
}

TEST_F(CoreTest, RefusesKeysThatCannotBe) {
  Connect();
  EXPECT_EQ(Do(Kind::kGet, "")->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do(Kind::kPut, "", "x")->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do(Kind::kGet, std::string(1025, 'k'))->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Do(Kind::kGet, std::string(1024, 'k'))->code(), absl::StatusCode::kNotFound);
  const std::string zeros("a\0b", 3);
  EXPECT_TRUE(Put(zeros, "z").ok());
  EXPECT_EQ(Get(zeros), "z");
  EXPECT_EQ(Do(Kind::kGet, "a")->code(), absl::StatusCode::kNotFound);
}

struct Way {
  bool any_local_memory;
  uint32_t max_read_sges;
  uint64_t max_read_bytes;
};

class CoreReadsTest : public CoreTest, public testing::WithParamInterface<Way> {
 protected:
  CoreReadsTest() {
    network_.capabilities.any_local_memory = GetParam().any_local_memory;
    network_.capabilities.max_read_sges = GetParam().max_read_sges;
    network_.capabilities.max_read_bytes = GetParam().max_read_bytes;
  }
};

TEST_P(CoreReadsTest, ValuesOfEveryLengthArriveInStringAndBuffer) {
  const std::string long_key(1000, 'k');
  Connect();
  for (size_t bytes : {0, 1, 7, 100, 460, 512, 1000, 4072, 5000, 20'000, 70'000, 1'000'000}) {
    for (const std::string& key : {std::string("key"), long_key}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, key of " << key.size());
      const std::string value = Pattern(bytes, static_cast<int>(bytes));
      ASSERT_EQ(server_->Put(key, value).code, kv::Code::kOk);
      EXPECT_TRUE(Get(key) == value);
      // Expect: a buffer of the exact length at an odd address suffices, and nothing is written behind it.
      std::string buffer(bytes + 2, 'x');
      Operation operation;
      operation.key = key;
      operation.to.buffer = absl::MakeSpan(buffer).subspan(1, bytes);
      core_->Start(&operation);
      Poll();
      ASSERT_TRUE(operation.done);
      EXPECT_TRUE(operation.status.ok()) << operation.status;
      EXPECT_EQ(operation.value_bytes, bytes);
      EXPECT_TRUE(buffer.substr(1, bytes) == value);
      EXPECT_EQ(buffer.front(), 'x');
      EXPECT_EQ(buffer.back(), 'x');
      // Expect: a longer one as well.
      buffer.assign(2 * bytes + 2000, 'x');
      operation.to.buffer = absl::MakeSpan(buffer);
      core_->Start(&operation);
      Poll();
      EXPECT_TRUE(operation.status.ok());
      EXPECT_EQ(operation.value_bytes, bytes);
      EXPECT_TRUE(buffer.substr(0, bytes) == value);
    }
  }
  EXPECT_EQ(core_->stats().server_gets, 0);
}

TEST_P(CoreReadsTest, ABufferThatIsTooShortIsSaidToBe) {
  Connect();
  for (size_t bytes : {1, 100, 600, 5000, 100'000}) {
    SCOPED_TRACE(bytes);
    server_->Put("key", Pattern(bytes));
    for (size_t room : {size_t{0}, bytes / 2, bytes - 1}) {
      std::string buffer(room + 1, 'x');
      Operation operation;
      operation.key = "key";
      operation.to.buffer = absl::MakeSpan(buffer).first(room);
      core_->Start(&operation);
      Poll();
      ASSERT_TRUE(operation.done);
      EXPECT_EQ(operation.status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_EQ(operation.value_bytes, bytes);
      EXPECT_EQ(buffer.back(), 'x');
    }
  }
  EXPECT_EQ(core_->stats().server_gets, 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, CoreReadsTest,
                         testing::Values(Way{true, 4, 1 << 30}, Way{true, 1, 1 << 30}, Way{false, 4, 1 << 30},
                                         Way{true, 2, 4096}, Way{true, 1, 1000}, Way{false, 1, 4096}));

TEST_F(CoreTest, ManyGetsShareOneDoorbellForEachRoundOfReads) {
  Connect();
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  std::vector<Operation*> operations;
  for (int i = 0; i < 50; ++i) {
    server_->Put("key" + std::to_string(i), "value" + std::to_string(i));
    gets.push_back(std::make_unique<OwnedOperation>(Kind::kGet, "key" + std::to_string(i)));
    operations.push_back(&gets.back()->operation);
  }
  const uint64_t rings = network_.rings;
  core_->Start(operations);
  EXPECT_EQ(Poll(), 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(gets[i]->result, "value" + std::to_string(i));
  EXPECT_LE(network_.rings - rings, 4);
}

TEST_F(CoreTest, MoreOperationsThanFlightsWaitTheirTurn) {
  options_.max_in_flight = 4;
  network_.read_room = 1000;
  Connect();
  server_->Put("key", "value");
  network_.hold_reads = true;
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  for (int i = 0; i < 30; ++i) gets.push_back(Start(Kind::kGet, "key"));
  Poll();
  EXPECT_EQ(network_.held_reads(), 4);
  network_.hold_reads = false;
  network_.ReleaseReads();
  EXPECT_EQ(Poll(), 30);
  for (const auto& get : gets) EXPECT_EQ(get->result, "value");
}

TEST_F(CoreTest, ReadsThatFindNoRoomArePostedLater) {
  Connect();
  server_->Put("key", "value");
  network_.read_room = 0;
  auto first = Start(Kind::kGet, "key"), second = Start(Kind::kGet, "key");
  Poll();
  EXPECT_FALSE(first->done());
  EXPECT_EQ(core_->wait_ms(), 1);  // free room causes no event
  network_.read_room = SIZE_MAX;
  EXPECT_EQ(Poll(), 2);
  EXPECT_EQ(first->result, "value");
  EXPECT_EQ(second->result, "value");
}

TEST_F(CoreTest, AGetEndsAtItsDeadlineAndItsReadMayComeLater) {
  Connect();
  server_->Put("key", "value");
  server_->Put("other", "another value");
  network_.hold_reads = true;
  auto get = Start(Kind::kGet, "key", "", /*timeout_ms=*/10);
  Poll();
  clock_.AdvanceMs(9);
  EXPECT_EQ(Poll(), 0);
  EXPECT_EQ(core_->wait_ms(), 1);
  clock_.AdvanceMs(1);
  EXPECT_EQ(Poll(), 1);
  EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->stats().timeouts, 1);
  get.reset();
  // Expect: another get does not use the memory that the READ may still write to; it returns its own value at once.
  auto other = Start(Kind::kGet, "other");
  EXPECT_EQ(network_.held_reads(), 2);
  network_.hold_reads = false;
  network_.ReleaseReads(/*newest_first=*/true);
  Poll();
  EXPECT_EQ(other->result, "another value");
  EXPECT_EQ(core_->stats().directory_refreshes, 0);
  EXPECT_EQ(core_->stats().read_retries, 0);
}

TEST_F(CoreTest, AReadIntoTheCallersMemoryNeverOutlivesTheOperation) {
  network_.capabilities.any_local_memory = true;
  Connect();
  server_->Put("key", Pattern(5000));
  auto buffer = std::make_unique<std::string>(6000, 'x');
  Operation operation;
  operation.key = "key";
  operation.to.buffer = absl::MakeSpan(*buffer);
  operation.timeout_ms = 10;
  core_->Start(&operation);
  network_.hold_reads = true;
  core_->Progress();  // the bucket arrived, the item is requested
  ASSERT_EQ(network_.held_reads(), 1);
  clock_.AdvanceMs(10);
  Poll();
  EXPECT_TRUE(operation.done);
  EXPECT_EQ(operation.status.code(), absl::StatusCode::kDeadlineExceeded);
  // Expect: the connection that carried it is gone, and so is the READ.
  EXPECT_EQ(network_.held_reads(), 0);
  buffer.reset();
  network_.hold_reads = false;
  network_.ReleaseReads();
  EXPECT_TRUE(Do(Kind::kExists, "key")->status().ok());
}

TEST_F(CoreTest, AnAbsenceThatTookTooLongToReadIsNotBelieved) {
  Connect();
  network_.hold_reads = true;
  auto get = Start(Kind::kGet, "key");
  Poll();
  clock_.AdvanceMs(kv::kMaxBucketReadNs / 1'000'000 + 1);
  const uint64_t reads = network_.reads;
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(network_.reads - reads, 1) << "the bucket was to be read again";
  EXPECT_EQ(core_->stats().read_retries, 1);
}

TEST_F(CoreTest, AHitReadsNoClock) {
  Connect();
  server_->Put("key", "value");
  OwnedOperation get(Kind::kGet, "key");
  Operation* operations[] = {&get.operation};
  const int64_t readings = clock_.readings;
  core_->StartUntimed(operations);
  core_->Progress();
  EXPECT_TRUE(get.done());
  EXPECT_EQ(clock_.readings, readings);
}

}  // namespace
}  // namespace farlook::client
