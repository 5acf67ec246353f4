#include "server/counters/counters.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/test_region.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

constexpr int64_t kEnd = kv::kCounterEnd;

class CountersTest : public testing::Test {
 protected:
  // One cell in each line, and a line for the header.
  explicit CountersTest(uint64_t cells = 63) : memory_(16 << 20), cells_(cells * 64 + 64) {
    kv::TableOptions options;
    options.incarnation = 1;
    options.partitions = 2;
    table_ = *kv::Table::Create(memory_.span(), options);
    locks_ = std::make_unique<PartitionLocks>(table_.get());
    region_ = cells_.span().subspan(0, cells * 64 + 64);
    kv::FormatCellRegion(region_, 1);
    counters_ = std::make_unique<Counters>(table_.get(), locks_.get(), &clock_, ServerTime(), region_,
                                           std::make_unique<CpuCellWriter>(region_));
  }

  Outcome Do(RequestType type, absl::string_view key, int64_t operand = 0, int64_t desired = 0, bool tell = true) {
    kv::Request request;
    request.type = type;
    request.number = 1;
    request.key = key;
    request.operands = {operand, desired};
    return counters_->Execute(request, table_->HashOf(key), tell);
  }
  Outcome Create(absl::string_view key, int64_t initial = 0) { return Do(RequestType::kCounterCreate, key, initial); }
  Outcome Add(absl::string_view key, int64_t delta) { return Do(RequestType::kCounterAdd, key, delta); }
  Outcome Read(absl::string_view key) { return Do(RequestType::kCounterRead, key); }
  Outcome Delete(absl::string_view key) { return Do(RequestType::kCounterDelete, key); }
  static int64_t Value(const Outcome& outcome) { return outcome.counter.value; }
  // Acts like a client's atomic.
  int64_t AddToCell(uint64_t cell, int64_t delta) {
    int64_t old;
    CpuCellWriter(region_).FetchAdd(cell, delta, &old);
    return old;
  }
  static uint64_t Cell(const Outcome& outcome) { return outcome.counter.cell; }

  rdma::FakeClock clock_;
  kv::TestMemory memory_, cells_;
  absl::Span<char> region_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Counters> counters_;
};

TEST_F(CountersTest, CreateAddSwapReadDelete) {
  EXPECT_EQ(Create("c", -5).code, Code::kOk);
  EXPECT_EQ(Create("c", 9).code, Code::kExists);
  EXPECT_EQ(Value(Create("c", 9)), -5);
  const Outcome added = Add("c", 7);
  EXPECT_EQ(added.code, Code::kOk);
  EXPECT_EQ(Value(added), -5);
  Outcome swapped = Do(RequestType::kCounterSwap, "c", 3, 100);
  EXPECT_EQ(swapped.code, Code::kOk);
  EXPECT_EQ(Value(swapped), 2) << "the present value, not the expected one: nothing was changed";
  swapped = Do(RequestType::kCounterSwap, "c", 2, 100);
  EXPECT_EQ(Value(swapped), 2);
  EXPECT_EQ(Value(Read("c")), 100);
  const Outcome deleted = Delete("c");
  EXPECT_EQ(deleted.code, Code::kOk);
  EXPECT_EQ(Value(deleted), 100);
  for (const RequestType type :
       {RequestType::kCounterAdd, RequestType::kCounterSwap, RequestType::kCounterRead, RequestType::kCounterDelete}) {
    EXPECT_EQ(Do(type, "c").code, Code::kNotFound);
  }
}

TEST_F(CountersTest, AnAddCreatesACounterThatIsAbsent) {
  kv::Request request;
  request.type = RequestType::kCounterAdd;
  request.number = 1;
  request.key = "c";
  request.operands.operand = -3;
  request.option.create = true;
  request.option.initial = 10;
  const auto add = [&] { return counters_->Execute(request, table_->HashOf("c"), /*with_cell=*/true); };
  const Outcome created = add();
  EXPECT_EQ(created.code, Code::kOk);
  EXPECT_EQ(Value(created), 10);
  EXPECT_TRUE(kv::ValidCell(Cell(created), region_.size()));
  EXPECT_EQ(AddToCell(Cell(created), 0), 7) << "the client may go on there";
  EXPECT_EQ(Value(add()), 7) << "one that exists is only added to";
  EXPECT_EQ(Value(Read("c")), 4);
  // Expect: after a delete another counter is created, but none that would be out of range.
  Delete("c");
  EXPECT_EQ(Value(add()), 10);
  Delete("c");
  request.option.initial = -kEnd;
  EXPECT_EQ(add().code, Code::kOutOfRange);
  EXPECT_EQ(Value(add()), -kEnd);
  EXPECT_EQ(Read("c").code, Code::kNotFound);
  EXPECT_EQ(counters_->stats().counters, 0u);
}

TEST_F(CountersTest, TheCellIsToldOnlyToThoseWhoMayKnowIt) {
  EXPECT_EQ(Cell(Do(RequestType::kCounterCreate, "c", 1, 0, /*tell=*/false)), 0u);
  EXPECT_EQ(Cell(Do(RequestType::kCounterAdd, "c", 1, 0, /*tell=*/false)), 0u);
  const uint64_t cell = Cell(Read("c"));
  EXPECT_TRUE(kv::ValidCell(cell, region_.size()));
  EXPECT_EQ(AddToCell(cell, 5), 2);
  EXPECT_EQ(Value(Read("c")), 7);
  EXPECT_EQ(Cell(Delete("c")), 0u);
}

TEST_F(CountersTest, AnAddThatWouldLeaveTheRangeIsAnErrorAndChangesNothing) {
  Create("c", kEnd - 1);
  EXPECT_EQ(Add("c", 1).code, Code::kOutOfRange);
  EXPECT_EQ(Value(Read("c")), kEnd - 1);
  EXPECT_EQ(Add("c", -1).code, Code::kOk);
  Create("d", -kEnd);
  EXPECT_EQ(Add("d", -1).code, Code::kOutOfRange);
  EXPECT_EQ(Value(Read("d")), -kEnd);
}

TEST_F(CountersTest, ACounterOutOfRangeStaysSoUntilAMessageResetsIt) {
  const uint64_t cell = Cell(Create("c", kEnd - 1));
  AddToCell(cell, 100);  // by a client that died before it took this back
  const int64_t lost = kEnd + 99;
  EXPECT_EQ(Read("c").code, Code::kOutOfRange);
  EXPECT_EQ(Value(Read("c")), lost);
  EXPECT_EQ(Add("c", -200).code, Code::kOutOfRange);
  EXPECT_EQ(Do(RequestType::kCounterSwap, "c", 5, 5).code, Code::kOutOfRange);
  EXPECT_EQ(Do(RequestType::kCounterSwap, "c", lost, 5).code, Code::kOk);
  EXPECT_EQ(Read("c").code, Code::kOk);
  EXPECT_EQ(Value(Read("c")), 5);
}

TEST_F(CountersTest, AfterADeleteTheCellIsFarFromAliveWhateverItHeld) {
  for (const int64_t beyond : {int64_t{0}, kEnd - 1, kEnd + 5, kv::kDeadBegin - 1, -kEnd, -kEnd - 5, -kv::kDeadBegin}) {
    const uint64_t cell = Cell(Create("c", 0));
    AddToCell(cell, beyond);
    ASSERT_EQ(Delete("c").code, Code::kOk);
    const int64_t most = kv::kMaxAtomicsInFlight * kv::kMaxCounterDelta;
    EXPECT_EQ(kv::StateOf(AddToCell(cell, most)), kv::CellState::kDead) << beyond;
    EXPECT_EQ(kv::StateOf(AddToCell(cell, -2 * most)), kv::CellState::kDead) << beyond;
    EXPECT_EQ(kv::StateOf(AddToCell(cell, 0)), kv::CellState::kDead) << beyond;
  }
}

TEST_F(CountersTest, ACellIsReusedOnlyWhenItsHoldersAreDoneAndThenHoldsWhatItShould) {
  const Counters::Holder holder = counters_->Enroll();
  const uint64_t cell = Cell(Create("old", 1));
  Delete("old");
  EXPECT_EQ(counters_->stats().cells_quarantined, 1u);
  EXPECT_NE(Cell(Create("other", 2)), cell);
  AddToCell(cell, 1'000'000);  // a late add
  std::vector<uint64_t> hashes;
  const uint64_t sequence = counters_->NextNotice(holder, 10, &hashes);
  EXPECT_EQ(hashes, (std::vector<uint64_t>{table_->HashOf("old")}));
  EXPECT_TRUE(counters_->Acknowledge(holder, sequence));
  EXPECT_EQ(counters_->stats().cells_quarantined, 0u);
  const Outcome reused = Create("new", 77);
  EXPECT_EQ(Cell(reused), cell) << "the last freed is the first used";
  EXPECT_EQ(Value(Read("new")), 77);
  EXPECT_EQ(Value(Read("other")), 2);
}

TEST_F(CountersTest, WithoutCellsCreateSaysNoMemoryAndCellsComeBack) {
  int made = 0;
  while (Create(absl::StrCat(made), made).code == Code::kOk) ++made;
  EXPECT_EQ(made, 63);
  EXPECT_EQ(Create("more").code, Code::kNoMemory);
  EXPECT_EQ(Read("more").code, Code::kNotFound);
  EXPECT_EQ(Delete("5").code, Code::kOk);
  EXPECT_EQ(Create("more", 8).code, Code::kOk);
  for (int i = 0; i < made; ++i) {
    if (i != 5) {
      EXPECT_EQ(Value(Read(absl::StrCat(i))), i);
    }
  }
}

TEST_F(CountersTest, ValuesAreNotCounters) {
  const uint64_t hash = table_->HashOf("v");
  table_->Put(hash, "v", "text", kv::Condition::kAlways, 0, 1);
  for (const RequestType type : {RequestType::kCounterCreate, RequestType::kCounterAdd, RequestType::kCounterSwap,
                                 RequestType::kCounterRead, RequestType::kCounterDelete}) {
    EXPECT_EQ(Do(type, "v").code, Code::kWrongKind);
  }
  EXPECT_EQ(counters_->stats().cells_free, 63u);
}

TEST_F(CountersTest, ATableThatIsFullGivesTheCellBack) {
  const std::string value(100'000, 'v');
  for (int i = 0;; ++i) {
    const std::string key = absl::StrCat("v", i);
    if (table_->Put(table_->HashOf(key), key, value, kv::Condition::kAlways, 0, 1).code != Code::kOk) break;
  }
  int made = 0;
  while (made < 60 && Create(absl::StrCat(made, std::string(1000, 'k'))).code == Code::kOk) ++made;
  const CounterStats stats = counters_->stats();
  EXPECT_EQ(stats.cells_free, 63u - static_cast<uint64_t>(made));
  EXPECT_EQ(stats.counters, static_cast<uint64_t>(made));
}

TEST_F(CountersTest, EveryWorkerIsWokenOnceForNews) {
  int wakes[2] = {};
  const int first = counters_->AddWorker([&] { ++wakes[0]; });
  const int second = counters_->AddWorker([&] { ++wakes[1]; });
  Create("a");
  Delete("a");
  EXPECT_FALSE(counters_->TakeNews(first)) << "nobody holds a cell";
  counters_->Enroll();
  for (const char* key : {"a", "b"}) {
    Create(key);
    Delete(key);
  }
  EXPECT_EQ(wakes[0], 1);
  EXPECT_EQ(wakes[1], 1);
  EXPECT_TRUE(counters_->TakeNews(first));
  EXPECT_FALSE(counters_->TakeNews(first));
  EXPECT_TRUE(counters_->TakeNews(second));
}

class CountersModelTest : public CountersTest {
 protected:
  CountersModelTest() : CountersTest(/*cells=*/1000) {}
};

// Random requests and late atomics, compared with a map of numbers.
TEST_F(CountersModelTest, FollowsAModel) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::map<std::string, int64_t> model;
  std::map<std::string, uint64_t> known;  // cells that the holder received and has not dropped
  Counters::Holder holder = counters_->Enroll();
  for (int step = 0; step < 50'000; ++step) {
    const std::string key = absl::StrCat("key", random() % 40);
    const auto found = model.find(key);
    const bool present = found != model.end();
    const int64_t number = static_cast<int64_t>(random() % 1000) - 500;
    const Code expected = present ? Code::kOk : Code::kNotFound;
    Outcome outcome;
    switch (random() % 8) {
      case 0:
        outcome = Create(key, number);
        ASSERT_EQ(outcome.code, present ? Code::kExists : Code::kOk);
        if (!present) model[key] = number;
        known[key] = Cell(outcome);
        break;
      case 1:
        outcome = Delete(key);
        ASSERT_EQ(outcome.code, expected);
        if (present) {
          ASSERT_EQ(Value(outcome), found->second);
          model.erase(found);
        }
        break;
      case 2:
        outcome = Add(key, number);
        ASSERT_EQ(outcome.code, expected);
        if (present) {
          ASSERT_EQ(Value(outcome), found->second);
          found->second += number;
        }
        break;
      case 3: {
        const int64_t guess = present && random() % 2 == 0 ? found->second : number;
        outcome = Do(RequestType::kCounterSwap, key, guess, number);
        ASSERT_EQ(outcome.code, expected);
        if (present) {
          ASSERT_EQ(Value(outcome), found->second);
          if (guess == found->second) found->second = number;
        }
        break;
      }
      case 4:
        outcome = Read(key);
        ASSERT_EQ(outcome.code, expected);
        if (present) {
          ASSERT_EQ(Value(outcome), found->second);
        }
        break;
      case 5:
      case 6: {  // a client's atomic at the cell that it remembers, even if the counter was deleted or created again
        const auto cell = known.find(key);
        if (cell == known.end()) break;
        const int64_t old = AddToCell(cell->second, number);
        if (kv::StateOf(old) == kv::CellState::kDead) {
          known.erase(cell);
          break;
        }
        ASSERT_TRUE(present) << "an add to a counter that was deleted";
        ASSERT_EQ(old, found->second);
        found->second += number;
        break;
      }
      case 7:
        if (random() % 8 != 0) break;
        if (random() % 4 == 0) {
          counters_->Leave(holder);
          known.clear();
          holder = counters_->Enroll();
        }
        std::vector<uint64_t> hashes;
        const uint64_t sequence = counters_->NextNotice(holder, 1 + random() % 20, &hashes);
        if (sequence == 0) break;
        for (auto cell = known.begin(); cell != known.end();) {
          const bool told = std::find(hashes.begin(), hashes.end(), table_->HashOf(cell->first)) != hashes.end();
          cell = told ? known.erase(cell) : std::next(cell);
        }
        ASSERT_TRUE(counters_->Acknowledge(holder, sequence));
        break;
    }
  }
  for (const auto& [key, value] : model) EXPECT_EQ(Value(Read(key)), value);
}

}  // namespace
}  // namespace farlook::server
