// Consecutive operations of the queue, as one message (kv/wire/gets.h, kv/wire/puts.h).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "client/writes/request_parts.h"
#include "client/writes/session.h"
#include "kv/wire/gets.h"
#include "kv/wire/puts.h"

namespace farlook::client {
namespace {

bool IsPlainGet(const Operation& operation) { return IsOneOf(operation.kind, Kind::kGet, Kind::kExists); }

// Returns whether two puts differ only in keys and values. A message has one deadline, the latest of its puts: none of
// them may be begun much later than its own.
bool AreAlike(const Operation& a, const Operation& b) {
  constexpr int64_t kMostApartNs = 1'000'000;
  return a.condition.kind() == b.condition.kind() && a.condition.version() == b.condition.version() &&
         a.ttl_ms == b.ttl_ms && a.keep_ttl == b.keep_ttl && a.keep == b.keep && a.refill == b.refill &&
         std::abs(a.deadline_ns - b.deadline_ns) <= kMostApartNs;
}

}  // namespace

bool Session::MayGoTogether(const Operation& first, const Operation& second) const {
  if (next_ + 1 >= floor_ + window_) return false;
  if (IsPlainGet(first)) return gets_at_once_ > 1 && IsPlainGet(second);
  if (puts_at_once_ <= 1 || !IsShortPut(first) || !IsShortPut(second) || !AreAlike(first, second)) return false;
  const size_t keys = first.key.size() + second.key.size(), values = first.value.size() + second.value.size();
  return kv::FitsInMessage(keys, values, kv::RequestOptions::kMaxBytes + 2 * kv::Puts::kHeadBytes);
}

// Returns whether it is a put whose value may be in its message, and without special fields.
bool Session::IsShortPut(const Operation& operation) const {
  return operation.kind == Kind::kPut && operation.value.size() <= max_value_bytes_ && !operation.after_moved;
}

// Posts as many operations from the front of the queue as fit in a message. Returns their number; 0: no room. REQUIRES
// that the first two may share a message.
size_t Session::PostTogether() {
  const Operation& first = *queue_.front();
  return IsPlainGet(first) ? PostGets() : PostPuts(first);
}

size_t Session::PostGets() {
  const size_t most = std::min<uint64_t>(gets_at_once_, floor_ + window_ - next_);
  kv::GetsWriter keys;
  size_t count = 0;
  int64_t deadline_ns = 0;
  for (const Operation* get = queue_.front(); get != nullptr && count < most; get = queue_.Next(get)) {
    if (!IsPlainGet(*get) || !keys.Add(get->key)) break;
    deadline_ns = std::max(deadline_ns, get->deadline_ns);
    ++count;
  }
  kv::Request request;
  request.type = kv::RequestType::kGets;
  request.value = keys.value();
  return PostSeveral(&request, deadline_ns) ? count : 0;
}

size_t Session::PostPuts(const Operation& first) {
  const size_t most = std::min<uint64_t>(puts_at_once_, floor_ + window_ - next_);
  char options[kv::RequestOptions::kMaxBytes];
  kv::Request request;
  request.type = kv::RequestType::kPuts;
  request.condition = OnWire(first.condition.kind());
  request.version = first.condition.version();
  if (HasOptions(first)) request.options = {options, OptionsOf(first).Encode(options)};
  kv::PutsWriter puts(request.options.size());
  size_t count = 0;
  int64_t deadline_ns = 0;
  for (const Operation* put = &first; put != nullptr && count < most; put = queue_.Next(put)) {
    if (!IsShortPut(*put) || !AreAlike(first, *put) || !puts.Add(put->key, put->value)) break;
    deadline_ns = std::max(deadline_ns, put->deadline_ns);
    ++count;
  }
  request.value = puts.value();
  return PostSeveral(&request, deadline_ns) ? count : 0;
}

// Posts a message for several requests, from the number next_ on.
bool Session::PostSeveral(kv::Request* request, int64_t deadline_ns) {
  request->number = next_;
  request->deadline_us = clock_.DeadlineAt(deadline_ns);
  request->value_bytes = static_cast<uint32_t>(request->value.size());
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request->EncodeHead(head);
  return PostMessage({head, head_bytes}, request->value, next_);
}

}  // namespace farlook::client
