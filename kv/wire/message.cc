#include "kv/wire/message.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: ", what));
}

bool AllZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

// Returns whether the operands are possible for such a request.
bool Possible(RequestType type, const CounterOperands& operands) {
  const auto live = [](int64_t value) { return StateOf(value) == CellState::kLive; };
  if (type != RequestType::kCounterSwap && operands.desired != 0) return false;
  switch (type) {
    case RequestType::kCounterCreate:
      return live(operands.operand);
    case RequestType::kCounterAdd:
      return ValidDelta(operands.operand);
    case RequestType::kCounterSwap:  // the expected value may be out of range: such a swap resets it
      return StateOf(operands.operand) != CellState::kDead && live(operands.desired);
    case RequestType::kCellsDropped:
      return operands.operand != 0;
    default:
      return false;
  }
}

// The trailer after the key, from the next multiple of 8 on; empty unless it has exactly this length.
absl::string_view Trailer(absl::string_view bytes, size_t at, size_t trailer_bytes) {
  const size_t padding = (8 - at % 8) % 8;
  if (bytes.size() != at + padding + trailer_bytes || !AllZero(bytes.substr(at, padding))) return {};
  return bytes.substr(at + padding);
}

absl::Status DecodeSource(absl::string_view bytes, ValueSource* source) {
  if (bytes.empty()) return Malformed("request: where to pull the value from is cut short");
  source->address = LoadAs<uint64_t>(bytes.data());
  source->hash = LoadAs<uint64_t>(bytes.data() + 8);
  source->rkey = LoadAs<uint32_t>(bytes.data() + 16);
  if (LoadAs<uint32_t>(bytes.data() + 20) != 0) return Malformed("request: reserved bytes are not zero");
  if (source->address % 8 != 0) return Malformed("request: the value to pull is not aligned");
  return absl::OkStatus();
}

absl::Status DecodeOperands(absl::string_view bytes, RequestType type, CounterOperands* operands) {
  if (bytes.empty()) return Malformed("request: what to do to the counter is cut short");
  *operands = {LoadAs<int64_t>(bytes.data()), LoadAs<int64_t>(bytes.data() + 8)};
  return Possible(type, *operands) ? absl::OkStatus() : Malformed("request: an impossible number for a counter");
}

// Checks the options of a request whose type and condition are known.
absl::Status DecodeOptions(Request* request) {
  if (request->options.size() % 8 != 0) return Malformed("request: options of a length that is no multiple of 8");
  RequestOptions& option = request->option;
  absl::Status status = RequestOptions::Decode(request->options, &option);
  if (absl::IsFailedPrecondition(status)) {
    request->unsupported = true;
  } else if (!status.ok()) {
    return status;
  }
  const bool put = PutsValues(request->type);
  if (option.has_ttl && !MayHaveTtl(request->type)) return Malformed("request: a ttl where none belongs");
  if (!put && option.keep_ttl) return Malformed("request: a ttl to be kept where none belongs");
  if (!put && option.item_flags != 0) return Malformed("request: flags of an item where none belong");
  if (!put && option.refill) return Malformed("request: a refill that puts nothing");
  const bool adds = request->type == RequestType::kCounterAdd;
  if (option.create && !adds) return Malformed("request: a counter is to be created where none belongs");
  if (option.has_ttl && adds && !option.create) return Malformed("request: a ttl of an add that creates no counter");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Request> Request::Decode(absl::string_view bytes) {
  Request request;
  if (absl::Status status = Decode(bytes, &request); !status.ok()) return status;
  return request;
}

absl::Status Request::Decode(absl::string_view bytes, Request* to) {
  if (bytes.size() < kHeaderBytes) return Malformed("request: shorter than its header");
  const char* at = bytes.data();
  Request& request = *to;
  const uint64_t first = LoadAs<uint64_t>(at), last = LoadAs<uint64_t>(at + 32);
  const uint8_t type = first & 0xff, condition = first >> 8 & 0xff;
  const size_t key_bytes = first >> 16 & 0xffff, option_bytes = last & 0xffff;
  if (!IsRequestType(type)) return Malformed(absl::StrCat("request: unknown type ", type));
  request.type = static_cast<RequestType>(type);
  if (condition > static_cast<uint8_t>(Condition::kVersion)) {
    return Malformed(absl::StrCat("request: unknown condition ", condition));
  }
  request.condition = static_cast<Condition>(condition);
  request.value_bytes = static_cast<uint32_t>(first >> 32);
  request.number = LoadAs<uint64_t>(at + 8);
  request.version = LoadAs<uint64_t>(at + 16);
  request.deadline_us = LoadAs<uint64_t>(at + 24);
  request.flags = last >> 16 & 0xffff;
  request.unsupported = (request.flags & ~(kAfterMoved | kOnlyAsked)) != 0;
  request.options = request.value = {};
  request.option = RequestOptions();
  if (request.type != RequestType::kPut) [[unlikely]] {
    request.source = ValueSource();
    request.operands = CounterOperands();
  }
  if (last >> 32 != 0) return Malformed("request: reserved bytes are not zero");
  const bool numbered = IsNumbered(request.type);
  if (numbered && request.number == 0) return Malformed("request: number 0");
  if (!numbered && request.number != 0) return Malformed("request: a number where none belongs");
  if (key_bytes > kMaxKeyBytes) return Malformed("request: key above 1,024 bytes");
  if (bytes.size() - kHeaderBytes < option_bytes) return Malformed("request: options are cut short");
  const size_t key_end = kHeaderBytes + option_bytes + key_bytes;
  if (bytes.size() < key_end) return Malformed("request: key is cut short");
  if (option_bytes != 0) [[unlikely]] {
    if (option_bytes > kMaxOptionBytes) return Malformed("request: options above 256 bytes");
    request.options = bytes.substr(kHeaderBytes, option_bytes);
    if (absl::Status status = DecodeOptions(&request); !status.ok()) return status;
  }
  request.key = bytes.substr(kHeaderBytes + option_bytes, key_bytes);

  if (HasKey(request.type) && key_bytes < kMinKeyBytes) return Malformed("request: empty key");
  if (!numbered && key_bytes != 0) return Malformed("request: a key where none belongs");
  if (!MayHaveCondition(request.type) && request.condition != Condition::kAlways) {
    return Malformed("request: a condition where none belongs");
  }
  if (request.condition != Condition::kVersion && request.version != 0) {
    return Malformed("request: a version where none belongs");
  }
  if (HasValue(request.type)) {
    request.value = bytes.substr(key_end);
    if (request.value.size() != request.value_bytes) return Malformed("request: value length does not match");
    return absl::OkStatus();
  }
  if (request.type == RequestType::kPutPulled) {
    return DecodeSource(Trailer(bytes, key_end, ValueSource::kBytes), &request.source);
  }
  if (request.value_bytes != 0) return Malformed("request: a value where none belongs");
  if (HasOperands(request.type)) {
    const absl::string_view trailer = Trailer(bytes, key_end, CounterOperands::kBytes);
    return DecodeOperands(trailer, request.type, &request.operands);
  }
  if (bytes.size() != key_end) return Malformed("request: a value where none belongs");
  return absl::OkStatus();
}

absl::string_view CodeName(Code code) {
  static constexpr absl::string_view kNames[kCodes] = {
      "ok",           "not_found", "exists",      "version_mismatch", "no_memory",  "index_full",
      "too_large",    "read_only", "bad_value",   "outcome_unknown",  "wrong_kind", "shutting_down",
      "out_of_range", "expired",   "unsupported", "not_allowed",      "moved"};
  const size_t i = static_cast<size_t>(code);
  if (code == Code::kLater) return "later";
  if (code == Code::kBusy) return "busy";
  if (code == Code::kMakingRoom) return "making_room";
  return i < kCodes ? kNames[i] : "unknown";
}

void CounterResult::Encode(char* to) const {
  StoreAs(to, value);
  StoreAs(to + 8, cell);
}

bool CounterResult::Decode(absl::string_view payload, CounterResult* result) {
  if (payload.size() < kBytes) return false;
  *result = {LoadAs<int64_t>(payload.data()), LoadAs<uint64_t>(payload.data() + 8)};
  return true;
}

absl::StatusOr<Reply> Reply::Decode(absl::string_view bytes) {
  absl::StatusOr<Reply> reply(absl::in_place);
  if (!reply->DecodeFrom(bytes)) return WhyNot(bytes);
  return reply;
}

absl::Status Reply::WhyNot(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return Malformed("reply: shorter than its header");
  const uint64_t head = LoadAs<uint64_t>(bytes.data());
  const uint8_t code = head & 0xff;
  if (code >= kCodes) return Malformed(absl::StrCat("reply: unknown code ", code));
  if ((head >> 16 & 0xffff) != 0) return Malformed("reply: reserved bytes are not zero");
  return Malformed("reply: payload length does not match");
}

}  // namespace farlook::kv
