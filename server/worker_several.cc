// What a worker does with a message that stands for several requests: each is carried out as one of its own, with the
// same overlap of cache misses as between the messages of a batch, and their answers go in packs.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kv/gets.h"
#include "kv/puts.h"
#include "server/worker.h"
#include "server/worker_apply.h"

namespace farlook::server {

void Worker::ApplyGets(Link& link, const kv::Request& gets) {
  if (!kv::GetKeys::Decode(gets.value, &gets_)) return Drop(link, "malformed message: gets");
  ApplyEach<kv::RequestType::kGet>(
      link, gets, gets_.size, [this](size_t i) { return gets_.keys[i]; },
      [](const kv::Request&, size_t) { return size_t{0}; }, [](size_t, kv::Request*) {});
}

void Worker::ApplyPuts(Link& link, const kv::Request& puts) {
  if (!kv::Puts::Decode(puts.value, &puts_)) return Drop(link, "malformed message: puts");
  ApplyEach<kv::RequestType::kPut>(
      link, puts, puts_.size, [this](size_t i) { return puts_.all[i].key; },
      [this, &link](const kv::Request& put, size_t i) { return PutTogether(link, put, i); },
      [this](size_t i, kv::Request* put) {
        put->value = puts_.all[i].value;
        put->value_bytes = static_cast<uint32_t>(put->value.size());
      });
}

// Of `count`: `key_of(i)` is the key of the i-th. `together(request, i)` carries out, from the i-th on, which has the
// request's number, as many as go together; where those are none, `fill(i, request)` says what else is of its own.
template <kv::RequestType kType, typename KeyOf, typename Together, typename Fill>
void Worker::ApplyEach(Link& link, const kv::Request& several, size_t count, KeyOf key_of, Together together,
                       Fill fill) {
  kv::Request request = several;
  request.type = kType;
  request.value = {};
  request.value_bytes = 0;
  for (size_t i = 0; i < count; ++i) places_[i].hash = shared_.table->HashOf(key_of(i));
  shared_.table->Prefetch(absl::MakeSpan(places_.data(), count));
  stats_.requests[static_cast<size_t>(kType)].Add(count);
  packing_ = &link;
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
  packing_ = nullptr;
  if (!pack_.empty()) Send(link, pack_.Finish(), {});
  pack_.Clear();
}

// Carries out puts of the message in hand from the `first` on, which `put` is but for its key and value, with what can
// be asked, and done, once for all of them: while nothing is in their way, nor in that of the connection's others.
// Returns how many it carried out and answered; the next one is to be applied by itself.
size_t Worker::PutTogether(Link& link, const kv::Request& put, size_t first) {
  if (shared_.gate != nullptr || put.flags != 0 || HasWaiting(link)) return 0;
  if (Executor::Admit(kv::RequestType::kPut, put, AskerOf(link), now_us_) != kv::Code::kOk) return 0;
  Session& session = *link.session;
  const auto begin = [&](size_t i) { return session.IsNext(put.number + i); };
  const auto end = [&](size_t i, const kv::WriteResult& result) {
    if (result.code >= kv::Code::kLater) return false;
    outcomes_[i] = {result.code, result.version, result.slot};
    session.BeginAndFinish(put.number + i, kv::RequestType::kPut, outcomes_[i]);
    if (times_.Due()) [[unlikely]]
      times_.Begin(put.number + i, kv::RequestType::kPut, now_ns_, &link.open);
    return true;
  };
  const absl::Span<const kv::KeyValue> puts(puts_.all.data() + first, puts_.size - first);
  const size_t done = executor_.PutTogether(put, puts, &places_[first], now_ns_, begin, end);
  if (put.option.has_ttl) [[unlikely]]
    sweep_.Noted();
  tidy_.Noted();
  for (size_t i = 0; i < done; ++i) AnswerHere(link, put.number + i, outcomes_[i], {});
  return done;
}

// The pack has no room for it.
void Worker::PackAnew(Link& link, const kv::Reply& reply) {
  if (!pack_.empty()) Send(link, pack_.Finish(), {});
  pack_.Clear();
  if (pack_.Add(reply)) return;
  // As long as a message can be: it goes without a pack.
  char head[kv::Reply::kHeaderBytes];
  reply.EncodeHead(head);
  Send(link, {head, sizeof head}, reply.payload);
}

std::string Worker::Kept(const kv::Request& request, absl::string_view message) {
  if (!message.empty()) return std::string(message);
  char head[kv::kMaxRequestHeadBytes];
  return absl::StrCat(absl::string_view(head, request.EncodeHead(head)), request.value);
}

}  // namespace farlook::server
