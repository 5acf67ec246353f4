// Runs any bytes through every decoder; decoded messages are encoded again and must be equal.
#include <cstdlib>
#include <string>
#include <vector>

#include "kv/wire/cell_notice.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"

namespace farlook::kv {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void FuzzRequest(absl::string_view bytes) {
  const auto request = Request::Decode(bytes);
  PlainPut plain;
  if (PlainPut::Decode(bytes, &plain)) {
    Check(request.ok() && request->type == RequestType::kPut && request->condition == Condition::kAlways);
    Check(plain.item.key == request->key && plain.item.value == request->value && plain.number == request->number);
    Check(plain.deadline_us == request->deadline_us && request->flags == 0 && request->options.empty());
  }
  if (!request.ok()) {
    Check(!request.status().message().empty());
    return;
  }
  Check(request->key.size() <= kMaxKeyBytes);
  char head[kMaxRequestHeadBytes];
  const size_t head_bytes = request->EncodeHead(head);
  Check(std::string(head, head_bytes) + std::string(request->value) == bytes);
}

void FuzzReply(absl::string_view bytes) {
  const auto reply = Reply::Decode(bytes);
  if (!reply.ok()) return;
  char head[Reply::kHeaderBytes];
  reply->EncodeHead(head);
  Check(std::string(head, sizeof head) + std::string(reply->payload) == bytes);
  Check(CodeName(reply->code) != "unknown");
}

void FuzzGets(absl::string_view bytes) {
  GetKeys asked;
  if (!GetKeys::Decode(bytes, &asked)) return;
  GetsWriter keys;
  for (size_t i = 0; i < asked.size; ++i) {
    if (!keys.Add(asked.keys[i])) return;  // longer than a message
  }
  Check(keys.value() == bytes);
}

void FuzzPuts(absl::string_view bytes) {
  Puts puts;
  if (!Puts::Decode(bytes, &puts)) return;
  PutsWriter writer(/*option_bytes=*/0);
  for (size_t i = 0; i < puts.size; ++i) {
    if (!writer.Add(puts.all[i].key, puts.all[i].value)) return;  // longer than a message
  }
  Check(writer.value() == bytes);
}

void FuzzPack(absl::string_view bytes) {
  PackedReplies packed(bytes);
  ReplyPack pack;
  for (absl::string_view reply; packed.Next(&reply);) {
    const auto decoded = Reply::Decode(reply);
    if (!decoded.ok() || !pack.Add(*decoded)) return;
  }
  if (packed.whole()) Check(pack.Finish() == bytes);
}

void FuzzNotice(absl::string_view bytes) {
  const auto notice = CellNotice::Decode(bytes);
  if (!notice.ok()) return;
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < notice->size(); ++i) hashes.push_back(notice->hash(i));
  Check(CellNotice::Is(bytes) && CellNotice::Encode(notice->sequence(), hashes) == bytes);
}

}  // namespace
}  // namespace farlook::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  farlook::kv::FuzzRequest(bytes);
  farlook::kv::FuzzReply(bytes);
  farlook::kv::FuzzNotice(bytes);
  farlook::kv::FuzzGets(bytes);
  farlook::kv::FuzzPuts(bytes);
  farlook::kv::FuzzPack(bytes);
  return 0;
}
