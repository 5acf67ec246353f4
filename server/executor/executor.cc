#include "server/executor/executor.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"

namespace farlook::server {

// Returns the server's figures. "@N" instead of a prefix skips the first N lines, since a reply may be too short for
// all of them. The version is the number of lines that follow those of the reply. "map" and "map@N" request the
// cluster's map in the same way.
Outcome Executor::Stat(absl::string_view what, absl::string_view* payload) {
  uint64_t skipped = 0;
  const bool is_map = what == "map" || absl::StartsWith(what, "map@");
  if (is_map) what.remove_prefix(3);
  const bool is_page = absl::ConsumePrefix(&what, "@") && absl::SimpleAtoi(what, &skipped);
  if (is_map) {
    std::optional<std::string> map = shared_.map ? shared_.map() : std::nullopt;
    if (!map.has_value()) return Outcome(kv::Code::kUnsupported);
    stat_ = *std::move(map);
  } else {
    stat_ = shared_.stat(is_page ? absl::string_view() : what);
  }
  absl::string_view rest = stat_;
  for (; skipped > 0 && !rest.empty(); --skipped) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  *payload = rest.substr(0, kv::kMaxReplyPayloadBytes);
  // The last line of a reply is whole, unless it is longer than that.
  if (payload->size() < rest.size()) *payload = payload->substr(0, payload->rfind('\n') + 1);
  rest.remove_prefix(payload->size());
  return Outcome(kv::Code::kOk, static_cast<uint64_t>(std::count(rest.begin(), rest.end(), '\n')));
}

Outcome Executor::ExecuteOther(const kv::Request& request, uint64_t hash, bool with_cell, int64_t now_ns,
                               absl::string_view* payload, bool may_step) {
  Outcome outcome;
  switch (request.type) {
    case kv::RequestType::kDelete:
      return Delete(request, hash, now_ns);
    case kv::RequestType::kGet:
      return Get(request, hash, payload);
    case kv::RequestType::kStat:
      return Stat(request.key, payload);
    case kv::RequestType::kCounterCreate:
    case kv::RequestType::kCounterAdd:
    case kv::RequestType::kCounterSwap:
    case kv::RequestType::kCounterRead:
    case kv::RequestType::kCounterDelete:
      if (shared_.counters == nullptr) return Outcome(kv::Code::kNoMemory);
      outcome = shared_.counters->Execute(request, hash, with_cell, times_);
      // Sweeping expired counters may free cells.
      if (outcome.code == kv::Code::kNoMemory && !may_step &&
          !shared_.table->Swept(shared_.time.At(shared_.clock->NowNs()))) {
        outcome.code = kv::Code::kMakingRoom;
      }
      *payload = PayloadOf(request.type, outcome);
      return outcome;
    case kv::RequestType::kTouch:
      return Touch(request, hash);
    case kv::RequestType::kGetAndTouch:
      return GetAndTouch(request, hash, payload);
    case kv::RequestType::kTtl:
      return Ttl(request, hash, payload);
    case kv::RequestType::kPing:
    case kv::RequestType::kPut:
    case kv::RequestType::kPutPulled:
    case kv::RequestType::kCellsDropped:
    case kv::RequestType::kTouched:
    case kv::RequestType::kFigures:
    case kv::RequestType::kAdmin:
    case kv::RequestType::kGets:
    case kv::RequestType::kPuts:
    case kv::RequestType::kGoodbye:
      break;
  }
  return outcome;
}

absl::string_view Executor::PayloadOf(kv::RequestType type, const Outcome& outcome) {
  if (!HasCounterValue(type, outcome.code)) return {};
  outcome.counter.Encode(value_.data());
  return {value_.data(), kv::CounterResult::kBytes};
}

Outcome Executor::Delete(const kv::Request& request, uint64_t hash, int64_t now_ns) {
  TimedLock lock(shared_.locks->of(hash), times_);
  now_ns = TimeOfWrite(request, now_ns);
  const kv::WriteResult result = shared_.table->Delete(hash, request.key, request.condition, request.version, now_ns);
  return {result.code, result.version, result.slot};
}

Outcome Executor::Get(const kv::Request& request, uint64_t hash, absl::string_view* payload) {
  TimedLock lock(shared_.locks->of(hash), times_);
  return Read(request, hash, payload);
}

// REQUIRES the lock, which keeps the value from being freed while it is copied.
Outcome Executor::Read(const kv::Request& request, uint64_t hash, absl::string_view* payload, bool even_over) {
  kv::ItemView item;
  const kv::WriteResult result = shared_.table->Get(hash, request.key, &item);
  if (result.code == kv::Code::kOk) {
    if (!even_over && IsOver(item)) return Outcome(kv::Code::kTimeIsOver);
    if (item.kind != kv::ItemKind::kValue) return Outcome(kv::Code::kWrongKind);
    if (item.value.size() <= value_.size()) {
      std::memcpy(value_.data(), item.value.data(), item.value.size());
      *payload = {value_.data(), item.value.size()};
    }
  }
  return {result.code, result.version, result.slot};
}

// Returns whether the item has expired although the table still returns it, as it does in a group.
bool Executor::IsOver(const kv::ItemView& item) const {
  return shared_.gate != nullptr && item.expiry_ms != 0 &&
         kv::HasExpired(item.expiry_ms, shared_.time.At(shared_.clock->NowNs()));
}

Outcome Executor::Touch(const kv::Request& request, uint64_t hash) {
  TimedLock lock(shared_.locks->of(hash), times_);
  const int64_t now_ns = shared_.clock->NowNs();
  const uint64_t expiry_ms = shared_.time.ExpiryMs(request.option.ttl_us, now_ns);
  const kv::WriteResult result = shared_.table->Touch(hash, request.key, expiry_ms, now_ns);
  return {result.code, result.version, result.slot};
}

Outcome Executor::GetAndTouch(const kv::Request& request, uint64_t hash, absl::string_view* payload) {
  TimedLock lock(shared_.locks->of(hash), times_);
  const bool in_group = shared_.gate != nullptr;
  const Outcome read = Read(request, hash, payload, /*even_over=*/in_group);
  if (read.code != kv::Code::kOk || in_group) return read;  // the gate touches
  const int64_t now_ns = shared_.clock->NowNs();
  const uint64_t expiry_ms = shared_.time.ExpiryMs(request.option.ttl_us, now_ns);
  const kv::WriteResult touched = shared_.table->Touch(hash, request.key, expiry_ms, now_ns);
  if (touched.code == kv::Code::kOk) return read;
  *payload = {};
  return Outcome(touched.code);
}

Outcome Executor::Ttl(const kv::Request& request, uint64_t hash, absl::string_view* payload) {
  kv::ItemView item;
  TimedLock lock(shared_.locks->of(hash), times_);
  const kv::WriteResult result = shared_.table->Get(hash, request.key, &item);
  if (result.code == kv::Code::kOk) {
    if (IsOver(item)) return Outcome(kv::Code::kTimeIsOver);
    kv::TtlResult{item.expiry_ms, item.flags}.Encode(value_.data());
    *payload = {value_.data(), kv::TtlResult::kBytes};
  }
  return {result.code, result.version, result.slot};
}

}  // namespace farlook::server
