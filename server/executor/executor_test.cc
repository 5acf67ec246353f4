#include "server/executor/executor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/key_place.h"
#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"
#include "server/base/lock_times.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

class ExecutorTest : public ::testing::Test {
 protected:
  Outcome Do(const kv::Request& request, bool with_cell = false) {
    payload_ = {};
    return executor_.Execute(request.type, request, {t_.table().HashOf(request.key)}, with_cell, /*now_ns=*/1,
                             &payload_);
  }

  TestWorker t_;  // for its table, locks and counters
  Executor executor_{t_.shared()};
  absl::string_view payload_;
};

TEST_F(ExecutorTest, PutsGetsAndDeletes) {
  const Outcome put = Do(MakePut(1, "k", "value"));
  EXPECT_EQ(put.code, Code::kOk);
  const Outcome get = Do(MakeRequest(RequestType::kGet, 2, "k"));
  EXPECT_EQ(get.code, Code::kOk);
  EXPECT_EQ(get.version, put.version);
  EXPECT_EQ(payload_, "value");
  EXPECT_EQ(Do(MakePut(3, "k", "w", kv::Condition::kVersion, put.version + 1)).code, Code::kVersionMismatch);
  EXPECT_EQ(Do(MakeRequest(RequestType::kDelete, 4, "k")).code, Code::kOk);
  EXPECT_EQ(Do(MakeRequest(RequestType::kGet, 5, "k")).code, Code::kNotFound);
}

TEST_F(ExecutorTest, ALongValueIsNotInTheReply) {
  Do(MakePut(1, "k", std::string(kv::kMaxReplyPayloadBytes, 'v')));
  Do(MakeRequest(RequestType::kGet, 2, "k"));
  EXPECT_EQ(payload_.size(), kv::kMaxReplyPayloadBytes);
  const std::string longer(kv::kMaxReplyPayloadBytes + 1, 'v');
  Do(MakePut(3, "k", longer));
  const Outcome get = Do(MakeRequest(RequestType::kGet, 4, "k"));
  EXPECT_EQ(get.code, Code::kOk);
  EXPECT_FALSE(get.slot.empty());
  EXPECT_EQ(payload_, "");
}

TEST_F(ExecutorTest, CountersAnswerWithValueAndCell) {
  kv::Request create = MakeRequest(RequestType::kCounterCreate, 1, "c");
  create.operands.operand = 5;
  EXPECT_EQ(Do(create, /*with_cell=*/true).code, Code::kOk);
  kv::CounterResult result;
  ASSERT_TRUE(kv::CounterResult::Decode(payload_, &result));
  EXPECT_EQ(result.value, 5);
  EXPECT_NE(result.cell, 0u);
  EXPECT_EQ(Do(create).code, Code::kExists);
  ASSERT_TRUE(kv::CounterResult::Decode(payload_, &result));
  EXPECT_EQ(result.cell, 0u);
  EXPECT_EQ(Do(MakeRequest(RequestType::kCounterRead, 2, "none")).code, Code::kNotFound);
  EXPECT_EQ(payload_, "") << "nothing to tell";
  EXPECT_EQ(Do(MakeRequest(RequestType::kGet, 3, "c")).code, Code::kWrongKind);
}

class PutTogetherTest : public ExecutorTest {
 protected:
  std::vector<std::string> KeysOf(int partition, size_t count) {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      std::string key = absl::StrCat("key-", partition, "-", i);
      if (t_.table().PartitionOf(t_.table().HashOf(key)) == partition) keys.push_back(std::move(key));
    }
    return keys;
  }
  // Returns the number of executed puts. None after the one with index `last` is begun.
  size_t Put(const std::vector<std::string>& keys, absl::string_view value, size_t last = SIZE_MAX) {
    std::vector<kv::KeyValue> puts;
    std::vector<kv::KeyPlace> places;
    for (const std::string& key : keys) {
      puts.push_back({key, value});
      places.push_back({t_.table().HashOf(key)});
    }
    return executor_.PutTogether(
        MakePut(1, "", ""), puts, places.data(), /*now_ns=*/1, [last](size_t i) { return i <= last; },
        [](size_t, const kv::WriteResult& result) { return result.code == Code::kOk; });
  }
  uint64_t holds() const {
    DurationBuckets buckets;
    times_.AddTo(&buckets);
    return buckets.count();
  }

  LockTimes times_;
  Executor executor_{t_.shared(), &times_};
};

TEST_F(PutTogetherTest, WhatIsWrittenInPlaceIsDoneUnderOneHold) {
  const std::vector<std::string> keys = KeysOf(0, 16);
  // Expect: each put of a new key is the last of a hold, since it may split a segment or evict other items.
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(Put({keys.begin() + static_cast<std::ptrdiff_t>(i), keys.end()}, "old"), 1u);
  }
  EXPECT_EQ(holds(), 16u);
  EXPECT_EQ(Put(keys, "new"), 16u);
  EXPECT_EQ(holds(), 17u);
  for (const std::string& key : keys) EXPECT_EQ(t_.ReadKey(key), "new");
}

TEST_F(PutTogetherTest, AHoldEndsWithTheKeysOfItsPartition) {
  std::vector<std::string> keys = KeysOf(0, 2);
  keys.push_back(KeysOf(1, 1)[0]);
  for (const std::string& key : keys) Put({key}, "old");
  EXPECT_EQ(Put(keys, "new"), 2u);
  EXPECT_EQ(t_.ReadKey(keys[1]), "new");
  EXPECT_EQ(t_.ReadKey(keys[2]), "old");
}

TEST_F(PutTogetherTest, AHoldEndsWithWhatIsNotBegunOrMustWait) {
  const std::vector<std::string> keys = KeysOf(0, 3);
  for (const std::string& key : keys) Put({key}, "old");
  EXPECT_EQ(Put(keys, "new", /*last=*/1), 2u);
  EXPECT_EQ(t_.ReadKey(keys[2]), "old");
  t_.table().PretendToMakeRoom(1);
  EXPECT_EQ(Put(keys, "newer"), 0u);
  EXPECT_EQ(t_.ReadKey(keys[0]), "new");
}

TEST_F(ExecutorTest, WithoutMemoryForCountersThereIsNoRoom) {
  Shared shared = t_.shared();
  shared.counters = nullptr;
  Executor executor(shared);
  EXPECT_EQ(
      executor
          .Execute(RequestType::kCounterRead, MakeRequest(RequestType::kCounterRead, 1, "c"), {1}, false, 1, &payload_)
          .code,
      Code::kNoMemory);
}

TEST_F(ExecutorTest, FiguresComeInPagesOfWholeLines) {
  t_.stat_text.clear();
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&t_.stat_text, "a_name_", i, " ", i, "\n");
  std::string text;
  uint64_t lines = 0, replies = 0;
  for (uint64_t left = 1; left != 0; ++replies) {
    const Outcome outcome = Do(MakeRequest(RequestType::kStat, 1, lines == 0 ? "" : absl::StrCat("@", lines)));
    left = outcome.version;
    EXPECT_LE(payload_.size(), kv::kMaxReplyPayloadBytes);
    ASSERT_EQ(payload_.back(), '\n');
    lines += static_cast<uint64_t>(std::count(payload_.begin(), payload_.end(), '\n'));
    EXPECT_EQ(lines + left, 1000u);
    absl::StrAppend(&text, payload_);
  }
  EXPECT_EQ(text, t_.stat_text);
  EXPECT_EQ(replies, 4u);
  for (const char* beyond : {"@1000", "@1001", "@18446744073709551615"}) {
    EXPECT_EQ(Do(MakeRequest(RequestType::kStat, 1, beyond)).version, 0u);
    EXPECT_EQ(payload_, "");
  }
}

TEST_F(ExecutorTest, SaysWhyARequestMustNotBeBegun) {
  const kv::Request get = MakeRequest(RequestType::kGet, 1, "k");
  kv::Request put = MakePut(1, "k", "v");
  EXPECT_EQ(Executor::Admit(put.type, put, {}, 1), Code::kOk);
  EXPECT_EQ(Executor::Admit(put.type, put, {.read_only = true}, 1), Code::kReadOnly);
  EXPECT_EQ(Executor::Admit(get.type, get, {.read_only = true}, 1), Code::kOk);
  EXPECT_EQ(Executor::Admit(put.type, put, {.writes_refused = true}, 1), Code::kShuttingDown);
  EXPECT_EQ(Executor::Admit(get.type, get, {.writes_refused = true}, 1), Code::kOk);
  put.unsupported = true;
  EXPECT_EQ(Executor::Admit(put.type, put, {}, 1), Code::kUnsupported);
}

TEST_F(ExecutorTest, NothingIsBegunAfterItsDeadline) {
  kv::Request put = MakePut(1, "k", "v");
  const uint64_t now_us = ServerTime().At(5'000'000);
  put.deadline_us = now_us;
  EXPECT_EQ(Executor::Admit(put.type, put, {}, now_us), Code::kExpired);
  EXPECT_EQ(Executor::Admit(put.type, put, {}, now_us - 1), Code::kOk);
  put.deadline_us = kv::Request::kLongOver;
  EXPECT_EQ(Executor::Admit(put.type, put, {}, ServerTime().At(0)), Code::kExpired) << "over on every clock";
  put.deadline_us = UINT64_MAX;
  EXPECT_EQ(Executor::Admit(put.type, put, {}, now_us), Code::kOk);
}

TEST(ExecutorMap, IsAskedForInPagesLikeFiguresAndIsNoneWithoutACluster) {
  std::optional<std::string> map;
  TestWorker worker{
      32 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, nullptr, 0, nullptr, [&map](Shared* shared) {
        shared->map = [&map] { return map; };
      }};
  Executor executor{worker.shared()};
  absl::string_view payload;
  const auto ask = [&](absl::string_view what) {
    payload = {};
    return executor.Execute(RequestType::kStat, MakeRequest(RequestType::kStat, 1, what), {0}, false, 1, &payload);
  };
  EXPECT_EQ(ask("map").code, Code::kUnsupported);
  EXPECT_EQ(ask("map@1").code, Code::kUnsupported);
  map = "";
  EXPECT_EQ(ask("map").code, Code::kOk);
  EXPECT_EQ(payload, "") << "not known yet";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&*map, "member shm:///a/", i, "\n");
  std::string text;
  for (uint64_t lines = 0;;) {
    const Outcome page = ask(lines == 0 ? "map" : absl::StrCat("map@", lines));
    ASSERT_EQ(page.code, Code::kOk);
    absl::StrAppend(&text, payload);
    lines += static_cast<uint64_t>(std::count(payload.begin(), payload.end(), '\n'));
    EXPECT_EQ(lines + page.version, 300u);
    if (page.version == 0) break;
  }
  EXPECT_EQ(text, *map);
  // Expect: a word that only begins like "map" is a prefix of figures' names.
  ask("mapped");
  EXPECT_EQ(payload, "uptime 1\nmapped");
}

}  // namespace
}  // namespace farlook::server
