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
      link, gets, gets_.size, [this](size_t i) { return gets_.keys[i]; }, [](size_t, kv::Request*) {});
}

void Worker::ApplyPuts(Link& link, const kv::Request& puts) {
  if (!kv::Puts::Decode(puts.value, &puts_)) return Drop(link, "malformed message: puts");
  ApplyEach<kv::RequestType::kPut>(
      link, puts, puts_.size, [this](size_t i) { return puts_.all[i].key; },
      [this](size_t i, kv::Request* put) {
        put->value = puts_.all[i].value;
        put->value_bytes = static_cast<uint32_t>(put->value.size());
      });
}

// Of `count`: `key_of(i)` is the key of the i-th, `fill(i, request)` says what else is of its own.
template <kv::RequestType kType, typename KeyOf, typename Fill>
void Worker::ApplyEach(Link& link, const kv::Request& several, size_t count, KeyOf key_of, Fill fill) {
  kv::Request request = several;
  request.type = kType;
  request.value = {};
  request.value_bytes = 0;
  for (size_t i = 0; i < count; ++i) places_[i].hash = shared_.table->HashOf(key_of(i));
  shared_.table->Prefetch(absl::MakeSpan(places_.data(), count));
  stats_.requests[static_cast<size_t>(kType)].Add(count);
  packing_ = &link;
  for (size_t i = 0; i < count && !link.closing; ++i) {
    request.key = key_of(i);
    fill(i, &request);
    request.number = several.number + i;
    ApplyNumberedHere(kType, link, request, places_[i], /*message=*/{});
  }
  packing_ = nullptr;
  if (!pack_.empty()) Send(link, pack_.Finish(), {});
  pack_.Clear();
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
