// Messages that stand for several requests. Each request is executed like one of its own, with the same overlap of
// cache misses as between the messages of a batch; their replies are sent in packs.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kv/wire/gets.h"
#include "kv/wire/puts.h"
#include "server/worker/request_apply.h"
#include "server/worker/request_handler.h"

namespace farlook::server {

void RequestHandler::ApplyGets(Link& link, const kv::Request& gets) {
  if (!kv::GetKeys::Decode(gets.value, &gets_)) return context_.closer->Drop(link, "malformed message: gets");
  ApplyEach<kv::RequestType::kGet>(
      link, gets, gets_.size, [this](size_t i) { return gets_.keys[i]; },
      [](const kv::Request&, size_t) { return size_t{0}; }, [](size_t, kv::Request*) {});
}

void RequestHandler::ApplyPuts(Link& link, const kv::Request& puts) {
  if (!kv::Puts::Decode(puts.value, &puts_)) return context_.closer->Drop(link, "malformed message: puts");
  ApplyEach<kv::RequestType::kPut>(
      link, puts, puts_.size, [this](size_t i) { return puts_.all[i].key; },
      [this, &link](const kv::Request& put, size_t i) { return PutTogether(link, put, i); },
      [this](size_t i, kv::Request* put) {
        put->value = puts_.all[i].value;
        put->value_bytes = static_cast<uint32_t>(put->value.size());
      });
}

// Executes `count` requests. `key_of(i)` returns the key of the i-th. `together(request, i)` executes as many as go
// together, from the i-th on, which has the request's number, and returns how many these were. If it returns 0,
// `fill(i, request)` sets the other fields of the i-th, which is then executed by itself.
template <kv::RequestType kType, typename KeyOf, typename Together, typename Fill>
void RequestHandler::ApplyEach(Link& link, const kv::Request& several, size_t count, KeyOf key_of, Together together,
                               Fill fill) {
  kv::Request request = several;
  request.type = kType;
  request.value = {};
  request.value_bytes = 0;
  for (size_t i = 0; i < count; ++i) places_[i].hash = context_.shared.table->HashOf(key_of(i));
  context_.shared.table->Prefetch(absl::MakeSpan(places_.data(), count));
  context_.stats.requests[static_cast<size_t>(kType)].Add(count);
  outbox_.BeginPacks(link);
  for (size_t i = 0; i < count && !link.closing;) {
    request.number = several.number + i;
    if (const size_t done = together(request, i); done != 0) {
      i += done;
      continue;
    }
    request.key = key_of(i);
    fill(i, &request);
    ApplyNumberedHere(kType, link, request, places_[i], /*message=*/{});
    ++i;
  }
  outbox_.EndPacks(link);
}

// Executes puts of the message in hand, from the `first` on, which is `put` except for its key and value. What can be
// checked and done once for all of them is. It stops at the first put that must wait, and executes none if a request of
// the connection waits. Returns how many it executed and answered; the next one is to be applied by itself.
size_t RequestHandler::PutTogether(Link& link, const kv::Request& put, size_t first) {
  if (context_.shared.gate != nullptr || put.flags != 0 || HasWaiting(link)) return 0;
  if (Executor::Admit(kv::RequestType::kPut, put, AskerOf(link), context_.now_us) != kv::Code::kOk) return 0;
  Session& session = *link.session;
  const auto begin = [&](size_t i) { return session.IsNext(put.number + i); };
  const auto end = [&](size_t i, const kv::WriteResult& result) {
    if (result.code >= kv::Code::kLater) return false;
    outcomes_[i] = {result.code, result.version, result.slot};
    session.BeginAndFinish(put.number + i, kv::RequestType::kPut, outcomes_[i]);
    if (outbox_.times().Due()) [[unlikely]]
      outbox_.times().Begin(put.number + i, kv::RequestType::kPut, context_.now_ns, &link.open);
    return true;
  };
  const absl::Span<const kv::KeyValue> puts(puts_.all.data() + first, puts_.size - first);
  const size_t done = context_.executor.PutTogether(put, puts, &places_[first], context_.now_ns, begin, end);
  if (put.option.has_ttl) [[unlikely]]
    context_.sweep.Noted();
  context_.tidy.Noted();
  for (size_t i = 0; i < done; ++i) outbox_.AnswerHere(link, put.number + i, outcomes_[i], {});
  return done;
}

// Returns the message of a request that must wait; `message` is empty if it arrived together with others.
std::string RequestHandler::Kept(const kv::Request& request, absl::string_view message) {
  if (!message.empty()) return std::string(message);
  char head[kv::kMaxRequestHeadBytes];
  return absl::StrCat(absl::string_view(head, request.EncodeHead(head)), request.value);
}

}  // namespace farlook::server
