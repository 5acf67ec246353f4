#include "tests/linearizable/user.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tests/history/outcome.h"
#include "tests/history/values.h"

namespace farlook {
namespace {

using history::Outcome;
using Type = Operation::Type;

}  // namespace

Type User::DrawType(bool counter) {
  const uint64_t dice = Below(100);
  if (counter) {
    if (dice < 15) return Type::kReadCounter;
    if (dice < 70) return Type::kFetchAdd;
    if (dice < 82) return Type::kCompareSwap;
    return dice < 94 ? Type::kCreateCounter : Type::kDeleteCounter;
  }
  if (dice < 45) return Type::kGet;
  if (dice < 70) return Type::kPut;
  if (dice < 78) return Type::kInsert;
  if (dice < 84) return Type::kReplace;
  return dice < 92 ? Type::kCompareAndSet : Type::kDelete;
}

// Draws an operation and writes it down. False: the log is full.
bool User::Ask(Asked* asked) {
  const auto key = static_cast<int>(Below(Board::kKeys));
  const auto place = static_cast<size_t>(key);
  Operation& operation = asked->operation = Operation();
  history::Operation record;
  operation.type = DrawType(/*counter=*/key % 2 == 1);
  record.type = history::TypeOf(operation.type);
  record.began = ++places_;
  asked->key = absl::StrCat("key", key);
  operation.key = asked->key;
  operation.string = &asked->found;
  operation.timeout_ms = Below(20) == 0 ? 1 + static_cast<int64_t>(Below(5)) : 2'000;
  // Numbers are few.
  const bool makes = history::Writes(record.type) && operation.type != Type::kDelete &&
                     operation.type != Type::kDeleteCounter && operation.type != Type::kFetchAdd;
  const uint64_t write = makes ? board_->NewWrite(key) : 0;
  if (makes && write == 0) return false;
  switch (operation.type) {
    case Type::kCompareAndSet:
      operation.version = record.expected = versions_[place] != 0 ? versions_[place] : 1;
      [[fallthrough]];
    case Type::kPut:
    case Type::kInsert:
    case Type::kReplace:
      record.write = write;
      asked->value = history::MakeValue(write, static_cast<uint32_t>(8 + Below(Below(20) == 0 ? 9'000 : 300)));
      operation.value = asked->value;
      break;
    case Type::kCompareSwap:
      operation.expected = record.expected_counter = numbers_[place];
      [[fallthrough]];
    case Type::kCreateCounter:
      operation.operand = record.operand = history::FirstNumberOf(write);
      break;
    case Type::kFetchAdd:
      operation.operand = record.operand = 1 + static_cast<int64_t>(Below(history::kMaxDelta));
      operation.exactly_once = Below(4) == 0;
      break;
    default:
      break;
  }
  asked->entry = board_->Begin(lane_, key, record);
  return asked->entry != nullptr;
}

void User::Ended(const Asked& asked) {
  const int64_t end_ns = HostNowNs();
  const Operation& operation = asked.operation;
  const int key = asked.entry->key;
  const auto place = static_cast<size_t>(key);
  history::Operation record = asked.entry->operation;
  record.end_ns = end_ns;
  record.ended = ++places_;
  const auto outcome = history::OutcomeOf(record.type, operation.status, operation.version != 0);
  if (!outcome.has_value()) {
    board_->Violate(absl::StrCat(ToString(record), " ended with ", operation.status.ToString()));
  }
  record.outcome = outcome.value_or(Outcome::kNothing);
  const bool says_version = record.outcome != Outcome::kPending && record.outcome != Outcome::kWrongKind;
  if (says_version && !history::IsOfCounter(record.type)) record.version = operation.version;
  if (record.version != 0) versions_[place] = record.version;
  if (record.outcome == Outcome::kOk && record.type == history::Type::kGet) {
    record.found = history::WriteOfValue(asked.found);
    if (!Board::IsOf(record.found, key) || !history::IsWhole(asked.found, record.found)) {
      board_->Violate(absl::StrCat(ToString(record), ": that is no value of key ", key));
    }
  }
  if (TellsCounter(record)) {
    record.counter = numbers_[place] = operation.counter;
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
  std::array<Operation, kMostAtOnce> operations;
  size_t begun = 0;
  for (; begun < count; ++begun) {
    if (!Ask(&asked[begun])) break;
    operations[begun] = asked[begun].operation;
  }
  client_->RunAll(absl::MakeSpan(operations).first(begun));
  for (size_t i = 0; i < begun; ++i) {
    asked[i].operation = operations[i];
    Ended(asked[i]);
  }
  return begun == count;
}

int RunUser(Board* board, int lane, const std::string& address, uint32_t seed) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  // The server may be dead just now.
  const int64_t end_ns = HostNowNs() + 60'000'000'000;
  auto client = Client::Connect(address, options);
  while (!client.ok() && HostNowNs() < end_ns) {
    usleep(10'000);
    client = Client::Connect(address, options);
  }
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  User user(board, lane, client->get(), seed);
  std::minstd_rand random(seed);
  while (!board->stopped() && user.Step()) usleep(static_cast<useconds_t>(random() % 4'000));
  return 0;
}

}  // namespace farlook
