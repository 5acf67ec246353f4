// Any bytes through every decoder; what decodes is encoded again and must be the same message.
#include <cstdlib>
#include <string>
#include <vector>

#include "kv/cell_notice.h"
#include "kv/message.h"

namespace farlook::kv {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void FuzzRequest(absl::string_view bytes) {
  const auto request = Request::Decode(bytes);
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
  return 0;
}
