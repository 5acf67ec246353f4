// What a worker does with a message that stands for several requests: each is carried out as one of its own, with the
// same overlap of cache misses as between the messages of a batch, and their answers go in packs.
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "kv/gets.h"
#include "kv/puts.h"
#include "server/worker.h"

namespace farlook::server {

void Worker::ApplyGets(Link& link, const kv::Request& gets) {
  kv::GetKeys asked;
  if (!kv::GetKeys::Decode(gets.value, &asked)) return Drop(link, "malformed message: gets");
  ApplyEach<kv::kMaxGets>(link, gets, kv::RequestType::kGet, asked.size,
                          [&asked](size_t i, kv::Request* get) { get->key = asked.keys[i]; });
}

void Worker::ApplyPuts(Link& link, const kv::Request& puts) {
  kv::Puts all;
  if (!kv::Puts::Decode(puts.value, &all)) return Drop(link, "malformed message: puts");
  ApplyEach<kv::kMaxPuts>(link, puts, kv::RequestType::kPut, all.size, [&all](size_t i, kv::Request* put) {
    put->key = all.all[i].key;
    put->value = all.all[i].value;
    put->value_bytes = static_cast<uint32_t>(put->value.size());
  });
}

// Of `count`, at most kMost: `fill(i, request)` says what the i-th is of its own: key and value.
template <size_t kMost, typename Fill>
void Worker::ApplyEach(Link& link, const kv::Request& several, kv::RequestType type, size_t count, Fill fill) {
  kv::Request request = several;
  request.type = type;
  request.value = {};
  request.value_bytes = 0;
  std::array<kv::KeyPlace, kMost> places;
  for (size_t i = 0; i < count; ++i) {
    fill(i, &request);
    places[i].hash = shared_.table->HashOf(request.key);
    shared_.table->PrefetchBucket(&places[i]);
  }
  for (size_t i = 0; i < count; ++i) shared_.table->PrefetchItem(&places[i]);
  stats_.requests[static_cast<size_t>(type)].Add(count);
  packing_ = &link;
  for (size_t i = 0; i < count && !link.closing; ++i) {
    fill(i, &request);
    request.number = several.number + i;
    ApplyNumbered(link, request, places[i], /*message=*/{});
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
