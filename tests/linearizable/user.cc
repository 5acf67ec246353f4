#include "tests/linearizable/user.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tests/history/outcome.h"
#include "tests/history/values.h"

namespace farlook {
namespace {

using history::Outcome;
using history::Type;

}  // namespace

Type DrawType(bool counter, uint64_t dice) {
  if (counter) {
    if (dice < 15) return Type::kReadCounter;
    if (dice < 63) return Type::kFetchAdd;
    if (dice < 70) return Type::kAddOrCreate;
    if (dice < 82) return Type::kCompareSwap;
    return dice < 94 ? Type::kCreateCounter : Type::kDeleteCounter;
  }
  if (dice < 45) return Type::kGet;
  if (dice < 70) return Type::kPut;
  if (dice < 78) return Type::kInsert;
  if (dice < 84) return Type::kReplace;
  return dice < 92 ? Type::kCompareAndSet : Type::kDelete;
}

// Draws the rest of an operation and records it. False: the log is full.
bool User::Ask(int key, Type type, Asked* asked) {
  const auto place = static_cast<size_t>(key);
  history::Operation record;
  record.type = type;
  record.began = ++places_;
  const std::string name = absl::StrCat("key", key);
  const int64_t timeout_ms = Below(20) == 0 ? 1 + static_cast<int64_t>(Below(5)) : 2'000;
  // Numbers are few.
  const bool makes =
      history::Writes(type) && type != Type::kDelete && type != Type::kDeleteCounter && type != Type::kFetchAdd;
  const uint64_t write = makes ? board_->NewWrite(key) : 0;
  if (makes && write == 0) return false;
  const auto put = [&](Condition condition) {
    record.write = write;
    return std::make_unique<PutOperation>(
        name, history::MakeValue(write, static_cast<uint32_t>(8 + Below(Below(20) == 0 ? 9'000 : 300))),
        PutOptions{.condition = condition, .timeout_ms = timeout_ms});
  };
  CounterOptions options{.timeout_ms = timeout_ms};
  switch (type) {
    case Type::kPut:
      asked->operation = put(Condition::Always());
      break;
    case Type::kInsert:
      asked->operation = put(Condition::IfAbsent());
      break;
    case Type::kReplace:
      asked->operation = put(Condition::IfPresent());
      break;
    case Type::kCompareAndSet:
      record.expected = versions_[place] != 0 ? versions_[place] : 1;
      asked->operation = put(Condition::IfVersion(record.expected));
      break;
    case Type::kDelete:
      asked->operation = std::make_unique<DeleteOperation>(name, DeleteOptions{.timeout_ms = timeout_ms});
      break;
    case Type::kCompareSwap:
      record.expected_counter = numbers_[place];
      record.operand = history::FirstNumberOf(write);
      asked->operation = std::make_unique<CompareSwapOperation>(name, record.expected_counter, record.operand, options);
      break;
    case Type::kCreateCounter:
      record.operand = history::FirstNumberOf(write);
      asked->operation = std::make_unique<CreateCounterOperation>(name, record.operand, options);
      break;
    case Type::kFetchAdd:
      record.operand = 1 + static_cast<int64_t>(Below(history::kMaxDelta));
      options.exactly_once = Below(4) == 0;
      asked->operation = std::make_unique<FetchAddOperation>(name, record.operand, options);
      break;
    case Type::kAddOrCreate:
      record.operand = 1 + static_cast<int64_t>(Below(history::kMaxDelta));
      record.expected_counter = options.initial = history::FirstNumberOf(write);
      options.create = true;
      options.exactly_once = Below(4) == 0;
      asked->operation = std::make_unique<FetchAddOperation>(name, record.operand, options);
      break;
    case Type::kReadCounter:
      asked->operation = std::make_unique<ReadCounterOperation>(name, options);
      break;
    case Type::kDeleteCounter:
      asked->operation = std::make_unique<DeleteCounterOperation>(name, options);
      break;
    default:
      asked->operation = std::make_unique<GetOperation>(name, GetOptions{.timeout_ms = timeout_ms});
  }
  asked->entry = board_->Begin(lane_, key, record);
  return asked->entry != nullptr;
}

void User::Ended(const Asked& asked) {
  const int64_t end_ns = HostNowNs();
  const AsyncOperation& operation = *asked.operation;
  const int key = asked.entry->key;
  const auto place = static_cast<size_t>(key);
  history::Operation record = asked.entry->operation;
  record.end_ns = end_ns;
  record.ended = ++places_;
  const auto outcome = history::OutcomeOf(record.type, operation.status(), operation.version() != 0);
  if (!outcome.has_value()) {
    board_->Violate(absl::StrCat(ToString(record), " ended with ", operation.status().ToString()));
  }
  record.outcome = outcome.value_or(Outcome::kNothing);
  const bool has_version = record.outcome != Outcome::kPending && record.outcome != Outcome::kWrongKind;
  if (has_version && !history::IsOfCounter(record.type)) record.version = operation.version();
  if (record.version != 0) versions_[place] = record.version;
  if (record.outcome == Outcome::kOk && record.type == history::Type::kGet) {
    const std::string& found = static_cast<const GetOperation&>(operation).value();
    record.found = history::WriteOfValue(found);
    if (!Board::IsOf(record.found, key) || !history::IsWhole(found, record.found)) {
      board_->Violate(absl::StrCat(ToString(record), ": that is no value of key ", key));
    }
  }
  if (HasCounterValue(record)) {
    record.counter = numbers_[place] = static_cast<const CounterOperation&>(operation).value();
    if (record.type == history::Type::kCompareSwap && record.counter != record.expected_counter) {
      record.outcome = Outcome::kMismatch;
    }
    if (!Board::IsOf(history::WriteOfNumber(record.counter), key)) {
      board_->Violate(absl::StrCat(ToString(record), ": that is no number of key ", key));
    }
  }
  Board::End(asked.entry, record);
}

bool User::Step() {
  std::array<Asked, kMostAtOnce> asked;
  const size_t count = 1 + Below(kMostAtOnce);
  size_t begun = 0;
  for (bool room = true; room && begun < count; begun += room ? 1 : 0) {
    const auto key = static_cast<int>(Below(Board::kKeys));
    const Type type = DrawType(/*counter=*/key % 2 == 1, Below(100));
    room = Ask(key, type, &asked[begun]);
  }
  std::array<AsyncOperation*, kMostAtOnce> operations;
  for (size_t i = 0; i < begun; ++i) operations[i] = asked[i].operation.get();
  client_->Start(std::span(operations).first(begun));
  std::array<AsyncOperation*, kMostAtOnce> ended;
  for (size_t left = begun; left > 0;) left -= client_->Wait(ended);
  for (size_t i = 0; i < begun; ++i) Ended(asked[i]);
  return begun == count;
}

bool User::ReadAll() {
  for (int key = 0; key < Board::kKeys; ++key) {
    Asked asked;
    if (!Ask(key, key % 2 == 1 ? Type::kReadCounter : Type::kGet, &asked)) return false;
    AsyncOperation* operation = asked.operation.get();
    client_->Start(std::span(&operation, 1));
    while (client_->Wait(std::span(&operation, 1)) == 0) {
    }
    Ended(asked);
  }
  return true;
}

namespace {

int Run(Board* board, int lane, const std::string& address, uint32_t seed, ClientOptions options,
        useconds_t most_rest_us, bool reads_all) {
  options.wait_for_server = true;  // it may be dead at this moment
  const auto client = Client::Connect(address, options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  User user(board, lane, client->get(), seed);
  std::minstd_rand random(seed);
  while (!board->stopped() && user.Step()) usleep(static_cast<useconds_t>(random() % most_rest_us));
  if (reads_all) user.ReadAll();
  return 0;
}

}  // namespace

int RunUser(Board* board, int lane, const std::string& address, uint32_t seed) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  return Run(board, lane, address, seed, options, /*most_rest_us=*/4'000, /*reads_all=*/false);
}

int RunUserUntilAllIsRead(Board* board, int lane, const std::string& address, uint32_t seed, ClientOptions options,
                          useconds_t most_rest_us) {
  return Run(board, lane, address, seed, std::move(options), most_rest_us, /*reads_all=*/true);
}

}  // namespace farlook
