#include "client/reads/read_buffer.h"

#include <algorithm>
#include <utility>

#include "client/op/finished.h"
#include "kv/layout/item.h"
#include "kv/layout/words.h"

namespace farlook::client {

absl::StatusOr<bool> ReadBuffer::PlaceLarge(const kv::Lookup& lookup, Operation* operation, char* own,
                                            const rdma::Capabilities& capabilities, const UserMemory& user_memory,
                                            BufferPool* pool) {
  const uint32_t bytes = lookup.wanted().bytes;
  const uint32_t head_bytes = lookup.item_head_bytes();
  posted_bytes_ = 0;
  large_ = true;
  direct_ = false;
  to_[1] = {nullptr, 0};
  registered_ = nullptr;
  if (!whole_ && WantsValue(operation->kind) && lookup.wants_item() && bytes >= head_bytes + kMinDirectBytes) {
    absl::StatusOr<bool> direct =
        PlaceDirect(bytes - head_bytes, operation, capabilities.any_local_memory ? nullptr : &user_memory);
    if (!direct.ok()) return direct;
    direct_ = *direct;
  }
  const uint32_t staged_bytes = direct_ ? head_bytes : bytes;
  to_[0] = {own, staged_bytes};
  if (staged_bytes <= kOwnBytes) return true;
  if (piece_bytes_ < staged_bytes) {
    // Released first: gets that wait must not hold memory that other waiting gets need.
    piece_.Release();
    piece_bytes_ = 0;
    // More concurrent pieces would be no faster, and separate memory for each costs system calls. Only flights use this
    // pool.
    if (pool->UsedUpFor(staged_bytes)) return false;
    auto piece = pool->Take(staged_bytes);
    if (!piece.ok()) return piece.status();
    piece_ = *std::move(piece);
    piece_bytes_ = staged_bytes;
  }
  to_[0].data = piece_.data();
  return true;
}

// Returns whether the value is read into the caller's memory, which must be registered unless `user_memory` is null.
absl::StatusOr<bool> ReadBuffer::PlaceDirect(uint32_t rest_bytes, Operation* operation, const UserMemory* user_memory) {
  if (operation->to.string == nullptr && !operation->to.buffer.empty()) {
    // Bytes behind the value in the item's memory are not needed, so a buffer of the value's length suffices.
    const uint64_t room = std::min<uint64_t>(rest_bytes, operation->to.buffer.size());
    if (user_memory != nullptr && (registered_ = user_memory->Find(operation->to.buffer.data(), room)) == nullptr) {
      return false;
    }
    to_[1] = {operation->to.buffer.data(), static_cast<uint32_t>(room)};
    return true;
  }
  if (user_memory != nullptr || operation->to.string == nullptr || rest_bytes < kMinStringBytes) return false;
  if (!Resize(operation->to.string, rest_bytes)) return NoMemoryForValue(rest_bytes);
  to_[1] = {operation->to.string->data(), rest_bytes};
  return true;
}

bool ReadBuffer::PostLarge(rdma::Connection* connection, uint64_t wr_id, uint64_t address, uint32_t rkey,
                           uint32_t* pending) {
  const rdma::Capabilities& capabilities = connection->capabilities();
  const uint64_t limit = capabilities.max_read_bytes / 8 * 8;
  const rdma::Sge head = to_[0], rest = to_[1];
  while (!whole_posted()) {
    rdma::Sge pieces[2];
    size_t count = 0;
    uint32_t at = posted_bytes_, bytes = 0;
    const auto add = [&](char* data, uint64_t available) {
      pieces[count++] = {data, static_cast<uint32_t>(std::min(available, limit - bytes))};
      bytes += pieces[count - 1].bytes;
    };
    if (at < head.bytes) add(head.data + at, head.bytes - at);
    if (at + bytes >= head.bytes && rest.bytes != 0 && bytes < limit && count < capabilities.max_read_sges) {
      const uint32_t from = at + bytes - head.bytes;
      add(rest.data + from, rest.bytes - from);
    }
    if (!connection->PostRead(wr_id, {pieces, count}, address + at, rkey)) return false;
    posted_bytes_ += bytes;
    ++*pending;
  }
  return true;
}

bool ReadBuffer::CutShort(uint32_t wanted_bytes) const {
  if (bytes() == wanted_bytes) return false;
  const kv::ItemLengths lengths = kv::ItemLengths::From(kv::LoadAs<uint64_t>(to_[0].data + kv::kLengthsOffset));
  return kv::ItemBytes(lengths.key_bytes, lengths.value_bytes) > bytes();
}

void ReadBuffer::Release() {
  large_ = false;
  direct_ = false;
  whole_ = false;
  to_[1] = {nullptr, 0};
  piece_.Release();
  piece_bytes_ = 0;
  registered_ = nullptr;
}

}  // namespace farlook::client
