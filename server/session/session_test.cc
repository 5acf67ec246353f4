// The rules of exactly-once, one test each.

#include "server/session/session.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;
using Claim = Session::Claim;

constexpr uint32_t kWindow = 8;
constexpr uint64_t kIncarnation = 77;

void Answer(Session& session, uint64_t number, RequestType type = RequestType::kPut) {
  ASSERT_EQ(session.Begin(number, type), Claim::kExecute) << number;
  session.Finish(number, {Code::kOk, 1000 + number, {}});
}

TEST(SessionTest, AnswersAgainWhatItAnswered) {
  Session session(1, false, kWindow);
  ASSERT_EQ(session.Begin(1, RequestType::kPut), Claim::kExecute);
  session.Finish(1, {Code::kExists, 42, kv::Slot(9)});
  ASSERT_EQ(session.Begin(1, RequestType::kPut), Claim::kAnswered);
  const Outcome outcome = session.Remembered(1);
  EXPECT_EQ(outcome.code, Code::kExists);
  EXPECT_EQ(outcome.version, 42u);
  EXPECT_EQ(outcome.slot.word(), 9u);
}

TEST(SessionTest, WhatWasBegunAndFinishedInOneIsRememberedAsOthersAre) {
  Session session(1, false, kWindow);
  EXPECT_FALSE(session.IsNext(0));
  EXPECT_FALSE(session.IsNext(2));
  ASSERT_TRUE(session.IsNext(1));
  EXPECT_FALSE(session.wrote());
  session.BeginAndFinish(1, RequestType::kPut, {Code::kExists, 42, kv::Slot(9)});
  EXPECT_TRUE(session.wrote());
  EXPECT_EQ(session.floor(), 1u);
  EXPECT_EQ(session.highest(), 1u);
  EXPECT_FALSE(session.IsNext(1));
  ASSERT_EQ(session.Begin(1, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session.Remembered(1).code, Code::kExists);
  EXPECT_EQ(session.Remembered(1).version, 42u);
  EXPECT_EQ(session.Remembered(1).slot.word(), 9u);
  EXPECT_EQ(session.Begin(1, RequestType::kDelete), Claim::kImpossible);
  // Expect: the floor stays below what is under way, and limits the window.
  ASSERT_EQ(session.Begin(2, RequestType::kPutPulled), Claim::kExecute);
  for (uint64_t n = 3; n <= 1 + kWindow; ++n) {
    ASSERT_TRUE(session.IsNext(n)) << n;
    session.BeginAndFinish(n, RequestType::kPut, {Code::kOk, 1000 + n});
  }
  EXPECT_EQ(session.floor(), 1u);
  EXPECT_FALSE(session.IsNext(2 + kWindow));
  session.Finish(2, {});
  EXPECT_EQ(session.floor(), 1 + kWindow);
  EXPECT_TRUE(session.IsNext(2 + kWindow));
}

TEST(SessionTest, RemembersTheWholeWindow) {
  Session session(1, false, kWindow);
  for (uint64_t n = 1; n <= 100; ++n) Answer(session, n);
  for (uint64_t n = 100 - kWindow + 1; n <= 100; ++n) {
    ASSERT_EQ(session.Begin(n, RequestType::kPut), Claim::kAnswered) << n;
    EXPECT_EQ(session.Remembered(n).version, 1000 + n);
  }
}

TEST(SessionTest, NeverExecutesBelowTheWindow) {
  Session session(1, false, kWindow);
  for (uint64_t n = 1; n <= 100; ++n) Answer(session, n);
  for (uint64_t n = 1; n <= 100 - kWindow; ++n) {
    EXPECT_EQ(session.Begin(n, RequestType::kPut), Claim::kForgotten) << n;
  }
}

TEST(SessionTest, WindowNeedNotBeAPowerOfTwo) {
  Session session(1, false, 5);
  for (uint64_t n = 1; n <= 20; ++n) Answer(session, n);
  EXPECT_EQ(session.Begin(15, RequestType::kPut), Claim::kForgotten);
  EXPECT_EQ(session.Begin(16, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session.Begin(26, RequestType::kPut), Claim::kImpossible);
  EXPECT_EQ(session.Begin(25, RequestType::kPut), Claim::kExecute);
}

TEST(SessionTest, DoesNotExecuteTwiceWhatIsUnderWay) {
  Session session(1, false, kWindow);
  ASSERT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kExecute);
  EXPECT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kUnderWay);
  session.Finish(1, {});
  EXPECT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kAnswered);
}

TEST(SessionTest, ExecutesWhatWasReleased) {
  Session session(1, false, kWindow);
  ASSERT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kExecute);
  Answer(session, 2);
  session.Release(1);
  EXPECT_EQ(session.floor(), 0u);
  ASSERT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kExecute);
  session.Finish(1, {});
  EXPECT_EQ(session.floor(), 2u);
}

TEST(SessionTest, RefusesNumbersThatNoWindowAllows) {
  Session session(1, false, kWindow);
  EXPECT_EQ(session.Begin(0, RequestType::kPut), Claim::kImpossible);
  EXPECT_EQ(session.Begin(kWindow + 1, RequestType::kPut), Claim::kImpossible);
  EXPECT_EQ(session.Begin(UINT64_MAX, RequestType::kPut), Claim::kImpossible);
  EXPECT_EQ(session.highest(), 0u);  // Expect: a refused number leaves no trace
}

TEST(SessionTest, OneUnansweredNumberHoldsTheFloor) {
  Session session(1, false, kWindow);
  ASSERT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kExecute);
  for (uint64_t n = 2; n <= kWindow; ++n) Answer(session, n);
  EXPECT_EQ(session.floor(), 0u);
  EXPECT_EQ(session.Begin(kWindow + 1, RequestType::kPut), Claim::kImpossible);
  session.Finish(1, {});
  EXPECT_EQ(session.floor(), kWindow);
  Answer(session, kWindow + 1);
  EXPECT_EQ(session.Begin(1, RequestType::kPutPulled), Claim::kForgotten);
}

TEST(SessionTest, NumbersMayComeInAnyOrder) {
  Session session(1, false, kWindow);
  for (uint64_t n : {3, 1, 5, 2, 8, 4, 7, 6}) Answer(session, n);
  EXPECT_EQ(session.floor(), 8u);
}

TEST(SessionTest, ANumberUsedForAnotherTypeIsImpossible) {
  Session session(1, false, kWindow);
  Answer(session, 1, RequestType::kPing);
  EXPECT_EQ(session.Begin(1, RequestType::kPut), Claim::kImpossible);
  Answer(session, 2, RequestType::kPut);
  EXPECT_EQ(session.Begin(2, RequestType::kDelete), Claim::kImpossible);
}

TEST(SessionTest, ReadsAreExecutedAgainAndCount) {
  Session session(1, false, kWindow);
  for (uint64_t n = 1; n <= 50; ++n) Answer(session, n, RequestType::kGet);
  EXPECT_EQ(session.floor(), 50u);
  Answer(session, 50, RequestType::kGet);
  EXPECT_EQ(session.floor(), 50u);
}

// In a group a get waits for a record: repeated over another connection, it may be answered before that.
TEST(SessionTest, AGetThatEndsLateLeavesAloneWhatHasItsPlaceNow) {
  Session session(1, false, /*window=*/1);
  Answer(session, 1, RequestType::kGet);
  ASSERT_EQ(session.Begin(1, RequestType::kGet), Claim::kExecute);
  EXPECT_EQ(session.Begin(1, RequestType::kGet), Claim::kUnderWay) << "or repeats would pile up in a group";
  session.Finish(1, {Code::kOk, 41, {}});
  ASSERT_EQ(session.Begin(2, RequestType::kPut), Claim::kExecute);
  session.Finish(1, {Code::kOk, 40, {}});
  EXPECT_EQ(session.Begin(2, RequestType::kPut), Claim::kUnderWay) << "nobody answered it";
  EXPECT_EQ(session.floor(), 1u);
  session.Finish(2, {Code::kOk, 42, {}});
  ASSERT_EQ(session.Begin(2, RequestType::kPut), Claim::kAnswered);
  EXPECT_EQ(session.Remembered(2).version, 42u);
}

// Compares the ring with a model that remembers everything.
TEST(SessionTest, AgreesWithAModelThatForgetsNothing) {
  constexpr uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (uint32_t window : {1u, 2u, 7u, 8u, 64u}) {
    Session session(1, false, window);
    std::set<uint64_t> executed, under_way;
    uint64_t highest = 0, floor = 0;
    for (int step = 0; step < 20000; ++step) {
      const uint64_t low = floor > 2 * window ? floor - 2 * window : 0;
      const uint64_t number = low + random() % (floor + window + 3 - low);
      const Claim claim = session.Begin(number, RequestType::kPutPulled);
      if (number == 0 || number > floor + window) {
        ASSERT_EQ(claim, Claim::kImpossible) << number;
      } else if (number + window <= highest) {
        ASSERT_EQ(claim, Claim::kForgotten) << number;
      } else if (executed.contains(number)) {
        ASSERT_EQ(claim, Claim::kAnswered) << number;
        ASSERT_EQ(session.Remembered(number).version, number);
      } else if (under_way.contains(number)) {
        ASSERT_EQ(claim, Claim::kUnderWay) << number;
      } else {
        ASSERT_EQ(claim, Claim::kExecute) << number;
        under_way.insert(number);
        highest = std::max(highest, number);
      }
      if (!under_way.empty() && random() % 2 == 0) {
        const uint64_t any = *std::next(under_way.begin(), static_cast<long>(random() % under_way.size()));
        under_way.erase(any);
        if (random() % 4 == 0) {
          session.Release(any);
        } else {
          session.Finish(any, {Code::kOk, any, {}});
          executed.insert(any);
          while (executed.contains(floor + 1)) ++floor;
        }
      }
      ASSERT_EQ(session.floor(), floor);
    }
    EXPECT_GT(floor, 1000u);
  }
}

class SessionTableTest : public ::testing::Test {
 protected:
  SessionOptions Options() {
    SessionOptions options;
    options.worker = 5;
    options.incarnation = kIncarnation;
    options.window = kWindow;
    options.max_kept = 3;
    options.keep_ns = 1000;
    options.random = [this] { return random_(); };
    return options;
  }

  static kv::Hello HelloFor(const Session& session) {
    kv::Hello hello;
    hello.session = session.id();
    hello.epoch = session.epoch();
    hello.incarnation = kIncarnation;
    if (session.read_only()) hello.flags = kv::Hello::kReadOnly;
    return hello;
  }

  // A client that wrote loses its connection.
  kv::Hello Leave(const std::string& user, const std::string& peer, int64_t now_ns, SessionTable* table = nullptr) {
    if (table == nullptr) table = &table_;
    Session* const session = table->Create(false);
    session->account = {user, peer};
    Answer(*session, 1);
    const kv::Hello hello = HelloFor(*session);
    table->Detach(session, now_ns);
    return hello;
  }
  bool IsKept(const kv::Hello& hello, SessionTable* table = nullptr) {
    return (table == nullptr ? table_ : *table).Find(hello.session) != nullptr;
  }

  std::mt19937_64 random_{1};
  SessionTable table_{Options()};
  absl::string_view why_;
};

TEST_F(SessionTableTest, IdsBearTheirWorker) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    const uint64_t id = table_.Create(false)->id();
    EXPECT_EQ(SessionTable::OwnerOf(id), 5);
    EXPECT_NE(id, 0u);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100u);
}

TEST_F(SessionTableTest, AnIdIsNeverZeroNorTaken) {
  SessionOptions options = Options();
  options.worker = 0;
  int calls = 0;
  options.random = [&calls]() -> uint64_t { return calls++ < 2 ? 0 : 64 + static_cast<uint64_t>(calls / 5) * 64; };
  SessionTable table(options);
  EXPECT_EQ(table.Create(false)->id(), 64u);
  EXPECT_EQ(table.Create(false)->id(), 128u);
}

TEST_F(SessionTableTest, AKeptSessionIsResumedWithWhatItKnew) {
  Session* session = table_.Create(false);
  Answer(*session, 1);
  const kv::Hello hello = HelloFor(*session);
  table_.Detach(session, 10);
  EXPECT_EQ(table_.kept(), 1u);
  ASSERT_EQ(table_.FindResumable(hello, 20, &why_), session);
  table_.Attach(session);
  session->Resume(hello);
  EXPECT_EQ(table_.kept(), 0u);
  EXPECT_EQ(session->epoch(), 2u);
  EXPECT_EQ(session->Begin(1, RequestType::kPut), Claim::kAnswered);
}

TEST_F(SessionTableTest, AnAttachedSessionCanBeResumedToo) {
  Session* session = table_.Create(false);
  EXPECT_EQ(table_.FindResumable(HelloFor(*session), 20, &why_), session);
}

TEST_F(SessionTableTest, AWelcomeMayBeLost) {
  Session* session = table_.Create(false);
  const kv::Hello first = HelloFor(*session);
  session->Resume(first);
  // The client never learnt epoch 2 and sends 1 once more.
  ASSERT_EQ(table_.FindResumable(first, 0, &why_), session);
  session->Resume(first);
  EXPECT_EQ(session->epoch(), 3u);
  // Expect: once it has used epoch 3, an older one belongs to a stranger, or to a late request of its own.
  ASSERT_EQ(session->Begin(1, RequestType::kPut), Claim::kExecute);
  session->Finish(1, {});
  EXPECT_EQ(table_.FindResumable(first, 0, &why_), nullptr);
  EXPECT_EQ(table_.FindResumable(HelloFor(*session), 0, &why_), session);
}

TEST_F(SessionTableTest, WhoPresentsAnEpochHasLearntIt) {
  Session* session = table_.Create(false);
  const kv::Hello first = HelloFor(*session);
  session->Resume(first);
  session->Resume(HelloFor(*session));
  // Expect: a late request with the first epoch does not disconnect a client with a later epoch.
  EXPECT_EQ(table_.FindResumable(first, 0, &why_), nullptr);
}

TEST_F(SessionTableTest, StrangersAreRefused) {
  Session* session = table_.Create(false);
  Session* read_only = table_.Create(true);
  Answer(*session, 1);
  kv::Hello hello = HelloFor(*session);
  hello.epoch = 2;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "epoch from the future";
  hello.epoch = 0;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "epoch from the past";

  hello = HelloFor(*session);
  hello.incarnation = kIncarnation + 1;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "incarnation";

  hello = HelloFor(*session);
  hello.session += 1;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "id of another worker";

  hello = HelloFor(*session);
  hello.acknowledged = 2;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "answers that were never given";
  hello.acknowledged = 1;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), session);

  hello = HelloFor(*read_only);
  hello.flags = 0;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "a read-only session taken up for writing";
  hello = HelloFor(*session);
  hello.flags = kv::Hello::kReadOnly;
  EXPECT_EQ(table_.FindResumable(hello, 0, &why_), nullptr) << "other rights";
}

TEST_F(SessionTableTest, WhatNeverWroteOrSaidGoodbyeIsNotKept) {
  Session* reader = table_.Create(false);
  Answer(*reader, 1, RequestType::kGet);
  table_.Detach(reader, 1);
  Session* polite = table_.Create(false);
  Answer(*polite, 1);
  polite->OnGoodbye();
  table_.Detach(polite, 1);
  Session* read_only = table_.Create(true);
  Answer(*read_only, 1);  // refused as such, with kReadOnly
  table_.Detach(read_only, 1);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(table_.kept(), 0u);
}

TEST_F(SessionTableTest, WhatNeverWroteIsResumedUnderAnotherId) {
  Session* session = table_.Create(false);
  for (uint64_t n = 1; n <= 20; ++n) Answer(*session, n, RequestType::kGet);
  kv::Hello hello = HelloFor(*session);
  hello.acknowledged = 18;
  table_.Detach(session, 1);
  ASSERT_EQ(table_.size(), 0u);
  session = table_.FindResumable(hello, 2, &why_);
  ASSERT_NE(session, nullptr) << why_;
  session->Resume(hello);
  EXPECT_NE(session->id(), hello.session) << "who knows an id is not let in under it";
  EXPECT_EQ(SessionTable::OwnerOf(session->id()), 5);
  EXPECT_EQ(session->epoch(), hello.epoch + 1);
  EXPECT_EQ(session->floor(), 18u);
  // Expect: requests without an answer are executed now, including a write that never arrived.
  EXPECT_EQ(session->Begin(19, RequestType::kGet), Claim::kExecute);
  EXPECT_EQ(session->Begin(21, RequestType::kPut), Claim::kExecute);
  hello.session += SessionTable::kMaxWorkers;
  hello.acknowledged = UINT64_MAX;
  EXPECT_EQ(table_.FindResumable(hello, 2, &why_), nullptr) << "no client was ever so far";
}

TEST_F(SessionTableTest, WhatWroteAndWasEvictedIsNeverTakenForNew) {
  Session* session = table_.Create(false);
  Answer(*session, 1);
  const kv::Hello hello = HelloFor(*session);
  table_.Detach(session, 100);
  EXPECT_EQ(table_.FindResumable(hello, 1101, &why_), nullptr);
  EXPECT_EQ(table_.FindResumable(hello, 1102, &why_), nullptr);
}

TEST_F(SessionTableTest, WhenMoreWereEvictedThanIsRememberedNothingUnknownIsResumed) {
  for (size_t i = 0; i <= SessionTable::kMaxLost; ++i) {
    Session* session = table_.Create(false);
    Answer(*session, 1);
    table_.Detach(session, static_cast<int64_t>(i) * 2000);
    if (i == SessionTable::kMaxLost - 1) {
      kv::Hello unknown = HelloFor(*table_.Create(false));
      unknown.session = 64 * 7 + 5;
      EXPECT_NE(table_.FindResumable(unknown, 0, &why_), nullptr);
    }
  }
  kv::Hello unknown = HelloFor(*table_.Create(false));
  unknown.session = 64 * 8 + 5;
  EXPECT_EQ(table_.FindResumable(unknown, int64_t{1} << 40, &why_), nullptr);
}

TEST(SessionOfAnOlderTableTest, NothingUnknownIsResumed) {
  SessionOptions options;
  options.incarnation = kIncarnation;
  options.window = kWindow;
  options.random = [random = std::mt19937_64(1)]() mutable { return random(); };
  kv::Hello hello;
  hello.incarnation = kIncarnation;
  hello.epoch = 1;
  absl::string_view why;
  for (const bool follows_others : {false, true}) {
    options.follows_others = follows_others;
    SessionTable table(options);
    hello.session = SessionTable::kMaxWorkers * 7;
    EXPECT_EQ(table.FindResumable(hello, 1, &why) == nullptr, follows_others);
    // Expect: its own sessions are resumed.
    Session* const session = table.Create(false);
    Answer(*session, 1);
    hello.session = session->id();
    EXPECT_EQ(table.FindResumable(hello, 1, &why), session) << why;
  }
}

TEST_F(SessionTableTest, WhereTooManyAreKeptTheOldestOfTheUserWithMostIsEvicted) {
  const kv::Hello other = Leave("uid 1", "pid 1", 0);
  std::vector<kv::Hello> hellos;
  for (int i = 1; i <= 5; ++i) {
    hellos.push_back(Leave("uid 2", "pid 2", i));
    EXPECT_EQ(table_.kept(), std::min<size_t>(3, static_cast<size_t>(i) + 1));
  }
  // Expect: the other user's session is kept, though it is the oldest; of the flood, the last two are kept.
  EXPECT_TRUE(IsKept(other));
  for (size_t i = 0; i < hellos.size(); ++i) EXPECT_EQ(IsKept(hellos[i]), i >= 3) << i;
  // Expect: a session that never wrote is resumed even while the limit of kept sessions is reached.
  kv::Hello unknown = other;
  unknown.session = 64 * 7 + 5;
  EXPECT_NE(table_.FindResumable(unknown, 6, &why_), nullptr);
}

TEST_F(SessionTableTest, OfAUserTheOldestOfThePeerWithMostIsEvicted) {
  const kv::Hello other = Leave("uid 1", "pid 1", 0);
  std::vector<kv::Hello> hellos;
  for (int i = 1; i <= 5; ++i) hellos.push_back(Leave("uid 1", "pid 2", i));
  EXPECT_TRUE(IsKept(other));
  for (size_t i = 0; i < hellos.size(); ++i) EXPECT_EQ(IsKept(hellos[i]), i >= 3) << i;
  // Expect: among peers with equally many, the oldest of all is evicted, so killed commands evict each other.
  for (int i = 10; i < 13; ++i) Leave("uid 1", std::to_string(i), i);
  EXPECT_FALSE(IsKept(other));
}

TEST_F(SessionTableTest, AUserThatHasAsManyAsAnotherEvictsItsOwn) {
  SessionOptions options = Options();
  options.max_kept = 4;
  SessionTable table(options);
  const kv::Hello first = Leave("a", "", 0, &table), second = Leave("a", "", 1, &table);
  const kv::Hello third = Leave("b", "", 2, &table);
  for (int i = 3; i < 9; ++i) Leave("b", "", i, &table);
  EXPECT_TRUE(IsKept(first, &table));
  EXPECT_TRUE(IsKept(second, &table));
  EXPECT_FALSE(IsKept(third, &table));
  EXPECT_EQ(table.kept(), 4u);
}

TEST_F(SessionTableTest, TheUserWithMostMakesRoomForAnother) {
  SessionOptions options = Options();
  options.max_kept = 4;
  SessionTable table(options);
  const kv::Hello oldest = Leave("a", "", 0, &table);
  const kv::Hello first = Leave("b", "", 1, &table), second = Leave("b", "", 2, &table);
  Leave("b", "", 3, &table);
  const kv::Hello latest = Leave("a", "", 4, &table);
  EXPECT_TRUE(IsKept(oldest, &table));
  EXPECT_FALSE(IsKept(first, &table));
  EXPECT_TRUE(IsKept(second, &table));
  EXPECT_TRUE(IsKept(latest, &table));
}

TEST_F(SessionTableTest, AUserKeepsNoMoreThanItsShare) {
  SessionOptions options = Options();
  options.max_kept_each = 1;
  SessionTable table(options);
  const kv::Hello first = Leave("a", "", 0, &table), other = Leave("b", "", 1, &table);
  const kv::Hello second = Leave("a", "", 2, &table);
  EXPECT_FALSE(IsKept(first, &table));
  EXPECT_TRUE(IsKept(other, &table));
  EXPECT_TRUE(IsKept(second, &table));
}

// The counts of users and peers stay right for every way in which a session is kept and released.
TEST_F(SessionTableTest, ASessionThatIsResumedDoesNotCountAsKept) {
  const kv::Hello hello = Leave("a", "", 0);
  for (int i = 0; i < 100; ++i) {
    Session* const session = table_.FindResumable(hello, i, &why_);
    ASSERT_NE(session, nullptr);
    table_.Attach(session);
    EXPECT_EQ(table_.kept(), 0u);
    table_.Detach(session, i);
    EXPECT_EQ(table_.kept(), 1u);
  }
}

TEST_F(SessionTableTest, WithoutRoomNothingIsKept) {
  SessionOptions options = Options();
  options.max_kept = 0;
  SessionTable table(options);
  Session* session = table.Create(false);
  Answer(*session, 1);
  const kv::Hello hello = HelloFor(*session);
  table.Detach(session, 1);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.FindResumable(hello, 2, &why_), nullptr) << "it wrote";
}

TEST_F(SessionTableTest, KeepsForABoundedTime) {
  Session* early = table_.Create(false);
  Session* late = table_.Create(false);
  Answer(*early, 1);
  Answer(*late, 1);
  const kv::Hello early_hello = HelloFor(*early), late_hello = HelloFor(*late);
  table_.Detach(early, 100);
  table_.Detach(late, 500);
  EXPECT_NE(table_.FindResumable(early_hello, 1100, &why_), nullptr);
  EXPECT_EQ(table_.FindResumable(early_hello, 1101, &why_), nullptr);
  EXPECT_NE(table_.FindResumable(late_hello, 1101, &why_), nullptr);
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(SessionTableTest, AnAttachedSessionIsNeverEvicted) {
  Session* attached = table_.Create(false);
  for (int i = 0; i < 10; ++i) table_.Detach(table_.Create(false), i);
  EXPECT_TRUE(table_.attached(attached->id()));
  EXPECT_FALSE(table_.attached(attached->id() + SessionTable::kMaxWorkers));
  EXPECT_EQ(table_.FindResumable(HelloFor(*attached), 1'000'000, &why_), attached);
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(SessionTableTest, OfACounterTheValueIsRememberedAndNotTheCell) {
  Session session(1, false, kWindow);
  ASSERT_EQ(session.Begin(1, RequestType::kCounterAdd), Claim::kExecute);
  session.Finish(1, {Code::kOk, 0, {}, {-5, 704}});
  ASSERT_EQ(session.Begin(1, RequestType::kCounterAdd), Claim::kAnswered);
  EXPECT_EQ(session.Remembered(1).counter.value, -5);
  EXPECT_EQ(session.Remembered(1).counter.cell, 0u);
}

}  // namespace
}  // namespace farlook::server
