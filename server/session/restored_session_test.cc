// Sessions of a former primary, restored at the server that was its backup.

#include <cstdint>
#include <random>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "server/session/reply_cache.h"
#include "server/session/session.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;
using Claim = Session::Claim;

constexpr uint32_t kWindow = 8;
constexpr uint64_t kFormer = 99;
constexpr uint64_t kMine = 10 * SessionTable::kMaxWorkers + 5;

class RestoredSessionTest : public ::testing::Test {
 protected:
  SessionOptions Options() {
    SessionOptions options;
    options.worker = 5;
    options.incarnation = 77;
    options.window = kWindow;
    options.max_kept = 3;
    options.keep_ns = 1000;
    options.random = [this] { return random_(); };
    return options;
  }
  void Restore() { table_.Restore(kFormer, outcomes_, /*now_ns=*/1); }
  static kv::Hello HelloOf(uint32_t epoch, uint64_t acknowledged) {
    kv::Hello hello;
    hello.session = kMine;
    hello.incarnation = kFormer;
    hello.epoch = epoch;
    hello.acknowledged = acknowledged;
    return hello;
  }
  // Returns null if the client is not admitted.
  Session* ComeBack(uint32_t epoch, uint64_t acknowledged) {
    const kv::Hello hello = HelloOf(epoch, acknowledged);
    Session* const session = table_.FindResumable(hello, 2, &why_);
    if (session == nullptr) return nullptr;
    table_.Attach(session);
    session->Resume(hello);
    return session;
  }

  std::mt19937_64 random_{1};
  SessionTable table_{Options()};
  ReplyCache outcomes_;
  absl::string_view why_;
};

TEST_F(RestoredSessionTest, WhatTheFormerPrimaryToldIsRemembered) {
  outcomes_.NoteSession(kMine, "", 17);
  outcomes_.Note(kMine, {.number = 3, .code = Code::kOk, .result = 30});
  outcomes_.Note(kMine, {.number = 5, .code = Code::kExists, .result = 50});
  outcomes_.Note(/*session=*/kMine + 1, {.number = 1});
  Restore();
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.kept(), 1u);
  Session* const session = ComeBack(17, 2);
  ASSERT_NE(session, nullptr) << why_;
  EXPECT_EQ(session->id(), kMine);
  EXPECT_EQ(session->epoch(), 18u);
  ASSERT_EQ(session->Begin(3, RequestType::kPutPulled), Claim::kAnswered);
  EXPECT_EQ(session->Remembered(3).version, 30u);
  // Expect: a request without a record was not executed.
  EXPECT_EQ(session->Begin(4, RequestType::kPut), Claim::kExecute);
  EXPECT_EQ(session->Begin(5, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session->Remembered(5).code, Code::kExists);
  EXPECT_EQ(session->Begin(3 + kWindow + 1, RequestType::kPut), Claim::kImpossible);
  // Expect: when it reconnects it may acknowledge its answers, though nothing else has finished.
  table_.Detach(session, 3);
  EXPECT_EQ(table_.FindResumable(HelloOf(18, 3), 4, &why_), session) << why_;
  // Expect: from now on only its client knows the epoch.
  EXPECT_EQ(table_.FindResumable(HelloOf(16, 3), 4, &why_), nullptr);
}

// Gets that were answered before a put: they are not sent again, and the new primary has no record of them.
TEST_F(RestoredSessionTest, WhatWasReadAtTheFormerPrimaryDoesNotStandInTheWay) {
  outcomes_.NoteSession(kMine, "", 17);
  outcomes_.Note(kMine, {.number = 7, .result = 70});
  Restore();
  Session* const session = ComeBack(/*epoch=*/17, /*acknowledged=*/4);  // 6 and 8 are answered too, and 7 is
  ASSERT_NE(session, nullptr) << why_;
  const auto finish = [session](uint64_t number, RequestType type) {
    ASSERT_EQ(session->Begin(number, type), Claim::kExecute) << number;
    session->Finish(number, Outcome(Code::kOk));
  };
  finish(5, RequestType::kPut);
  // Expect: its client has all answers up to 8, and may acknowledge them, though it has sent nothing new.
  table_.Detach(session, 3);
  ASSERT_EQ(ComeBack(18, 8), session) << why_;
  EXPECT_EQ(session->floor(), 8u);
  // Expect: numbers continue without limit.
  for (uint64_t number = 9; number < 9 + 3 * kWindow; ++number) finish(number, RequestType::kPut);
  EXPECT_EQ(session->floor(), session->highest());
}

TEST_F(RestoredSessionTest, WhatAClientLeavesOutItWillNeverSend) {
  outcomes_.NoteSession(kMine, "", 17);
  outcomes_.Note(kMine, {.number = 7, .result = 70});
  Restore();
  Session* const session = ComeBack(/*epoch=*/17, /*acknowledged=*/4);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_EQ(session->Begin(5, RequestType::kPut), Claim::kExecute);
  ASSERT_EQ(session->Begin(9, RequestType::kGet), Claim::kExecute);
  EXPECT_EQ(session->floor(), 4u) << "5 is under way";
  session->Finish(5, Outcome(Code::kOk));
  EXPECT_EQ(session->floor(), 8u);
  // A released number is no gap: it is sent again, first.
  session->Release(9);
  table_.Detach(session, 3);
  ASSERT_EQ(ComeBack(18, 8), session) << why_;
  EXPECT_EQ(session->Begin(9, RequestType::kGet), Claim::kExecute);
  EXPECT_EQ(session->Begin(10, RequestType::kPut), Claim::kExecute);
  EXPECT_EQ(session->floor(), 8u);
}

TEST_F(RestoredSessionTest, OfTheFormerPrimaryOnlyWhatIsKnownCanBeGoneOnWith) {
  ReplyCache outcomes(/*most=*/4);
  const uint64_t forgotten = 64 + 5, known = 128 + 5, silent = 192 + 5, unowned = 256 + 5;
  outcomes.NoteSession(forgotten, "", 0);
  outcomes.Note(forgotten, {.number = 1});
  outcomes.Note(unowned, {.number = 1});
  outcomes.NoteSession(known, "", 0);
  ASSERT_EQ(outcomes.forgotten().size(), 1u);
  table_.Restore(kFormer, outcomes, 1);
  kv::Hello hello;
  hello.incarnation = kFormer;
  hello.session = unowned;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr) << "nobody knows whose it is";
  hello.session = forgotten;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr) << "it wrote";
  hello.session = silent;
  EXPECT_NE(table_.FindResumable(hello, 2, &why_), nullptr) << "it did not";
  hello.session = known;
  hello.acknowledged = UINT64_MAX;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr);
  hello.acknowledged = 0;
  hello.incarnation = kFormer + 1;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr);
  hello.incarnation = kFormer;
  EXPECT_NE(table_.FindResumable(hello, 2, &why_), nullptr);
}

TEST_F(RestoredSessionTest, SessionsOfTheFormerPrimaryLeaveRoomForNewOnes) {
  ReplyCache outcomes;
  constexpr uint64_t kMany = 100;
  for (uint64_t i = 0; i < kMany; ++i) {
    outcomes.NoteSession(64 * i + 5, "", 0);
    outcomes.Note(64 * i + 5, {.number = 1});
  }
  table_.Restore(kFormer, outcomes, 1);
  EXPECT_GT(table_.kept(), 0u);
  EXPECT_LT(table_.kept(), kMany);
  kv::Hello hello;
  hello.incarnation = kFormer;
  hello.session = 64 * (kMany - 1) + 5;
  EXPECT_NE(table_.FindResumable(hello, 2, &why_), nullptr) << "it was heard of last";
  // Expect: the outcomes of the others' writes are unknown.
  hello.session = 5;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr);
}

TEST_F(RestoredSessionTest, WhatWasForgottenOfARestoredSessionIsUnknown) {
  ReplyCache outcomes(/*most=*/4);
  const uint64_t mine = 640 + 5;
  outcomes.Note(mine, {.number = 2});
  for (uint64_t number = 1; number <= 3; ++number) outcomes.Note(77, {.number = number});
  ASSERT_EQ(outcomes.forgotten().count(mine), 1u);
  outcomes.NoteSession(mine, "app", 1);
  outcomes.Note(mine, {.number = 3, .code = Code::kExists});
  table_.Restore(kFormer, outcomes, 1);
  kv::Hello hello;
  hello.session = mine;
  hello.incarnation = kFormer;
  hello.epoch = 1;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr) << "it is another user's";
  hello.user = "app";
  Session* const session = table_.FindResumable(hello, 2, &why_);
  ASSERT_NE(session, nullptr) << why_;
  table_.Attach(session);
  session->Resume(hello);
  ASSERT_EQ(session->Begin(2, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session->Remembered(2).code, Code::kOutcomeUnknown);
  ASSERT_EQ(session->Begin(3, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session->Remembered(3).code, Code::kExists);
  EXPECT_EQ(session->Begin(4, RequestType::kPut), Claim::kExecute);
}

}  // namespace
}  // namespace farlook::server
