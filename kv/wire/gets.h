// Several gets in one message, and several replies in one: used by a batch whose gets are sent as messages.
//
// A Request of type kGets stands for several requests of type kGet: the first has its number, each other the next one.
// Its value is their keys, one directly after the other:
//
//      0 key bytes u16 | 2 key
//
// Each is answered with a Reply with its own number. Replies that are ready at once are sent in packs:
//
//      0 type u8, 0x82 | 1 zero u8 | 2 replies u16, from 1 | 4 zero u32 | 8 replies, each with zeros up to a multiple of 8
#ifndef FARLOOK_KV_WIRE_GETS_H_
#define FARLOOK_KV_WIRE_GETS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"
#include "kv/wire/message.h"

namespace farlook::kv {

// In one message.
inline constexpr size_t kMaxGets = 64;

// Untrusted keys of a kGets.
struct GetKeys {
  size_t size = 0;
  std::array<absl::string_view, kMaxGets> keys;  // the first `size` are valid; they point into the message

  // Returns false if malformed.
  static bool Decode(absl::string_view value, GetKeys* to) {
    for (to->size = 0; !value.empty(); ++to->size) {
      if (to->size == kMaxGets || value.size() < 2) return false;
      const size_t bytes = LoadAs<uint16_t>(value.data());
      if (bytes < kMinKeyBytes || bytes > kMaxKeyBytes || value.size() - 2 < bytes) return false;
      to->keys[to->size] = value.substr(2, bytes);
      value.remove_prefix(2 + bytes);
    }
    return to->size > 0;
  }
};

// Writes the value of a kGets.
class GetsWriter {
 public:
  // Returns false, and adds nothing, if the message has no room for the key. REQUIRES fewer than kMaxGets were added.
  bool Add(absl::string_view key) {
    if (sizeof bytes_ - size_ < 2 + key.size()) return false;
    StoreAs(bytes_ + size_, static_cast<uint16_t>(key.size()));
    std::memcpy(bytes_ + size_ + 2, key.data(), key.size());
    size_ += 2 + key.size();
    return true;
  }
  absl::string_view value() const { return {bytes_, size_}; }

 private:
  char bytes_[kMaxMessageBytes - Request::kHeaderBytes];
  size_t size_ = 0;
};

// Writes a pack.
class ReplyPack {
 public:
  // Returns false, and adds nothing, if there is no room. `reply.payload` is copied.
  bool Add(const Reply& reply) {
    static_assert(Reply::kHeaderBytes % 8 == 0, "what is padded is the payload");
    const size_t payload_bytes = (reply.payload.size() + 7) / 8 * 8;
    if (sizeof bytes_ - size_ < Reply::kHeaderBytes + payload_bytes) return false;
    char* const to = bytes_ + size_;
    reply.EncodeHead(to);
    if (payload_bytes != 0) {
      StoreAs(to + Reply::kHeaderBytes + payload_bytes - 8, uint64_t{0});  // before the payload, which may overwrite it
      std::memcpy(to + Reply::kHeaderBytes, reply.payload.data(), reply.payload.size());
    }
    size_ += Reply::kHeaderBytes + payload_bytes;
    ++replies_;
    return true;
  }
  bool empty() const { return replies_ == 0; }
  // Returns the message, valid until the next call of another member. REQUIRES !empty().
  absl::string_view Finish() {
    StoreAs(bytes_, uint64_t{kType} | uint64_t{replies_} << 16);
    return {bytes_, size_};
  }
  void Clear() {
    size_ = kHeadBytes;
    replies_ = 0;
  }

  // Returns whether a message of the server is a pack.
  static bool Is(absl::string_view message) { return !message.empty() && static_cast<uint8_t>(message[0]) == kType; }

 private:
  friend class PackedReplies;
  static constexpr uint8_t kType = 0x82;
  static constexpr size_t kHeadBytes = 8;

  char bytes_[kMaxMessageBytes];
  size_t size_ = kHeadBytes;
  uint16_t replies_ = 0;
};

// Reads a pack of untrusted bytes.
class PackedReplies {
 public:
  explicit PackedReplies(absl::string_view message) {
    if (message.size() < ReplyPack::kHeadBytes) return;
    const uint64_t head = LoadAs<uint64_t>(message.data());
    left_ = head >> 16 & 0xffff;
    whole_ = head == (uint64_t{ReplyPack::kType} | uint64_t{left_} << 16) && left_ > 0;
    rest_ = message.substr(ReplyPack::kHeadBytes);
  }

  // Gives the bytes of the next reply, for Reply::Decode. Returns false if there is none; then whole() tells whether
  // the pack was well-formed.
  bool Next(absl::string_view* reply) {
    if (!whole_ || left_ == 0) {
      whole_ = whole_ && rest_.empty();
      return false;
    }
    whole_ = TakeOne(reply);
    return whole_;
  }
  bool whole() const { return whole_; }

 private:
  bool TakeOne(absl::string_view* reply) {
    if (rest_.size() < Reply::kHeaderBytes) return false;
    const uint64_t bytes = Reply::kHeaderBytes + uint64_t{LoadAs<uint32_t>(rest_.data() + 4)};
    const uint64_t padded = (bytes + 7) / 8 * 8;
    if (rest_.size() < padded) return false;
    const absl::string_view padding = rest_.substr(bytes, padded - bytes);
    if (!std::all_of(padding.begin(), padding.end(), [](char c) { return c == 0; })) return false;
    *reply = rest_.substr(0, bytes);
    rest_.remove_prefix(padded);
    --left_;
    return true;
  }

  absl::string_view rest_;
  uint16_t left_ = 0;
  bool whole_ = false;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_GETS_H_
