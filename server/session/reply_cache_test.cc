#include "server/session/reply_cache.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/limits.h"
#include "kv/wire/message.h"

namespace farlook::server {
namespace {

using kv::Code;

std::vector<uint64_t> NumbersOf(const ReplyCache::Of& of) {
  std::vector<uint64_t> numbers;
  for (const ReplyCache::Reply& reply : of.replies) numbers.push_back(reply.number);
  return numbers;
}

TEST(ReplyCacheTest, TheLastToldOfARequestIsWhatCounts) {
  ReplyCache outcomes;
  outcomes.Note(7, {.number = 1, .code = Code::kOk, .result = 5});
  outcomes.Note(7, {.number = 2, .code = Code::kOk, .result = 6});
  outcomes.Note(7, {.number = 1, .code = Code::kIndexFull, .result = 0});
  ASSERT_EQ(outcomes.sessions().size(), 1u);
  EXPECT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes.sessions().front().replies[0].code, Code::kIndexFull);
}

TEST(ReplyCacheTest, OfTooManyTheLowestNumberGoes) {
  ReplyCache outcomes;
  for (const uint64_t number : {uint64_t{3}, uint64_t{1}, uint64_t{4}, uint64_t{2}})
    outcomes.Note(7, {.number = number});
  EXPECT_EQ(NumbersOf(outcomes.sessions().front()), (std::vector<uint64_t>{1, 2, 3, 4}));
  outcomes.Note(7, {.number = kv::kMaxWindow + 2});
  EXPECT_EQ(NumbersOf(outcomes.sessions().front()), (std::vector<uint64_t>{3, 4, kv::kMaxWindow + 2}));
  EXPECT_EQ(outcomes.size(), 3u);
}

TEST(ReplyCacheTest, WhoIsHeardOfAgainIsRememberedAndWhatWasForgottenIsUnknown) {
  ReplyCache outcomes(/*most=*/4);
  outcomes.NoteSession(1, "user", 2);
  outcomes.Note(1, {.number = 5});
  outcomes.Note(2, {.number = 1});
  outcomes.Note(2, {.number = 2});
  EXPECT_EQ(outcomes.forgotten().count(1), 1u);
  outcomes.Note(1, {.number = 6});
  EXPECT_EQ(outcomes.forgotten().count(1), 0u);
  EXPECT_EQ(outcomes.forgotten().count(2), 1u);
  ASSERT_EQ(outcomes.sessions().size(), 1u);
  EXPECT_EQ(outcomes.sessions().front().unknown_up_to, 5u);
  EXPECT_FALSE(outcomes.sessions().front().is_known);
  outcomes.NoteSession(1, "user", 2);
  EXPECT_TRUE(outcomes.sessions().front().is_known);
  outcomes.NoteLost(1);
  EXPECT_TRUE(outcomes.sessions().empty());
  EXPECT_EQ(outcomes.size(), 0u);
  EXPECT_EQ(outcomes.forgotten().size(), 2u);
}

TEST(ReplyCacheTest, OfMoreThanItRemembersToHaveForgottenNothingIsMadeUp) {
  ReplyCache outcomes(/*most=*/2, /*most_forgotten=*/1);
  for (uint64_t session = 1; session <= 3; ++session) outcomes.Note(session, {.number = 1});
  EXPECT_TRUE(outcomes.forgot_more());
  EXPECT_EQ(outcomes.forgotten().size(), 1u);
  outcomes.Note(2, {.number = 9});
  EXPECT_GE(outcomes.sessions().back().unknown_up_to, 9u);
}

TEST(ReplyCacheTest, AreBoundedAndWhoIsForgottenIsKnown) {
  ReplyCache outcomes(/*most=*/10'000);
  for (uint64_t number = 1; number <= 6000; ++number) outcomes.Note(1, {.number = number});
  EXPECT_EQ(outcomes.size(), kv::kMaxWindow);
  EXPECT_EQ(outcomes.sessions().front().replies.front().number, 6000 - kv::kMaxWindow + 1);
  for (uint64_t number = 1; number <= 5000; ++number) outcomes.Note(2, {.number = number});
  outcomes.Note(1, {.number = 6001});
  EXPECT_TRUE(outcomes.forgotten().empty());
  for (uint64_t number = 1; number <= 3000; ++number) outcomes.Note(3, {.number = number});
  EXPECT_EQ(outcomes.forgotten().size(), 1u);
  EXPECT_TRUE(outcomes.forgotten().contains(2)) << "1 was heard of later";
  EXPECT_EQ(outcomes.size(), kv::kMaxWindow + 3000u);
}

}  // namespace
}  // namespace farlook::server
