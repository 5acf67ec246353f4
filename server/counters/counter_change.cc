#include "server/counters/counter_change.h"

#include "kv/layout/counter_value.h"

namespace farlook::server {
namespace {

using kv::CellState;
using kv::Code;
using kv::RequestType;

Outcome WithValue(Code code, int64_t value) { return {code, 0, {}, {value, 0}}; }

bool IsLive(int64_t value) { return kv::StateOf(value) == CellState::kLive; }

CounterChange Create(int64_t first) {
  if (!IsLive(first)) return {WithValue(Code::kOutOfRange, first)};
  return {WithValue(Code::kOk, first), first};
}

CounterChange Add(int64_t delta, int64_t present) {
  if (kv::StateOfAdd(present, delta) != CellState::kLive) return {WithValue(Code::kOutOfRange, present)};
  return {WithValue(Code::kOk, present), kv::AddedTo(present, delta)};
}

CounterChange Swap(const kv::CounterOperands& operands, int64_t present) {
  if (present != operands.operand) return {WithValue(Code::kOk, present)};
  if (!IsLive(operands.desired)) return {WithValue(Code::kOutOfRange, present)};
  return {WithValue(Code::kOk, present), operands.desired};
}

}  // namespace

CounterChange ChangeOf(const kv::Request& request, std::optional<int64_t> present) {
  if (!present.has_value()) {
    if (request.type == RequestType::kCounterCreate) return Create(request.operands.operand);
    if (request.option.create) return Add(request.operands.operand, request.option.initial);
    return {Outcome(Code::kNotFound)};
  }
  switch (request.type) {
    case RequestType::kCounterCreate:
      return {WithValue(Code::kExists, *present)};
    case RequestType::kCounterAdd:
      return Add(request.operands.operand, *present);
    case RequestType::kCounterSwap:
      return Swap(request.operands, *present);
    case RequestType::kCounterDelete:
      return {WithValue(Code::kOk, *present), {}, /*deletes=*/true};
    default:
      return {WithValue(Code::kOk, *present)};
  }
}

}  // namespace farlook::server
