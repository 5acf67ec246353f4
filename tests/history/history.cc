#include "tests/history/history.h"

#include "absl/strings/str_cat.h"

namespace farlook::history {
namespace {

const char* NameOf(Type type) {
  switch (type) {
    case Type::kGet:
      return "get";
    case Type::kPut:
      return "put";
    case Type::kInsert:
      return "insert";
    case Type::kReplace:
      return "replace";
    case Type::kCompareAndSet:
      return "compare-and-set";
    case Type::kDelete:
      return "delete";
    case Type::kWipe:
      return "the table begins anew";
    case Type::kExpire:
      return "expires";
    case Type::kCreateCounter:
      return "create counter";
    case Type::kFetchAdd:
      return "add";
    case Type::kAddOrCreate:
      return "add or create";
    case Type::kCompareSwap:
      return "swap";
    case Type::kReadCounter:
      return "read counter";
    case Type::kDeleteCounter:
      return "delete counter";
  }
  return "?";
}

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPending:
      return "unknown";
    case Outcome::kOk:
      return "ok";
    case Outcome::kNotFound:
      return "not found";
    case Outcome::kExists:
      return "exists";
    case Outcome::kMismatch:
      return "other version or value";
    case Outcome::kWrongKind:
      return "of the other kind";
    case Outcome::kNothing:
      return "nothing done";
  }
  return "?";
}

}  // namespace

std::string ToString(const Operation& operation) {
  std::string text = absl::StrCat("client ", operation.client, " [", operation.begin_ns, ", ");
  absl::StrAppend(&text, operation.end_ns == kNever ? "never" : absl::StrCat(operation.end_ns), "] ",
                  NameOf(operation.type));
  if (operation.write != 0) absl::StrAppend(&text, " #", operation.write);
  if (operation.expected != 0) absl::StrAppend(&text, " if version ", operation.expected);
  const bool adds = operation.type == Type::kFetchAdd || operation.type == Type::kAddOrCreate;
  if (operation.type == Type::kCompareSwap || operation.type == Type::kAddOrCreate) {
    absl::StrAppend(&text, " from ", operation.expected_counter);
  }
  if (operation.operand != 0) absl::StrAppend(&text, adds ? " of " : " to ", operation.operand);
  absl::StrAppend(&text, " -> ", NameOf(operation.outcome));
  if (operation.found != 0) absl::StrAppend(&text, " #", operation.found);
  if (operation.version != 0) absl::StrAppend(&text, " version ", operation.version);
  if (HasCounterValue(operation)) absl::StrAppend(&text, " was ", operation.counter);
  return text;
}

}  // namespace farlook::history
