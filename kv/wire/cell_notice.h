// A message that the server sends by itself: these counters were deleted, drop their cells.
//
//      0 type u8, 0x80 | 1 zero u8 | 2 hashes u16, from 1 | 4 zero u32 | 8 sequence u64, not 0
//     16 hashes of the deleted counters' keys, u64 each
//
// It contains hashes of keys, not cells, since a client looks up its cached cells by key. The client answers with a
// Request of type kCellsDropped when it is done. A connection has at most one unanswered notice.
#ifndef FARLOOK_KV_WIRE_CELL_NOTICE_H_
#define FARLOOK_KV_WIRE_CELL_NOTICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"

namespace farlook::kv {

class CellNotice {
 public:
  static constexpr size_t kHeaderBytes = 16;
  static constexpr size_t kMaxHashes = (kMaxMessageBytes - kHeaderBytes) / 8;

  // Returns whether a message of the server is a notice and not a reply, whose first byte is a Code.
  static bool Is(absl::string_view message) { return !message.empty() && static_cast<uint8_t>(message[0]) == kType; }

  // REQUIRES sequence != 0, 1 to kMaxHashes hashes.
  static std::string Encode(uint64_t sequence, const std::vector<uint64_t>& hashes);
  // Decodes untrusted bytes. The result points into them.
  static absl::StatusOr<CellNotice> Decode(absl::string_view bytes);

  uint64_t sequence() const { return LoadAs<uint64_t>(bytes_.data() + 8); }
  size_t size() const { return (bytes_.size() - kHeaderBytes) / 8; }
  uint64_t hash(size_t i) const { return LoadAs<uint64_t>(bytes_.data() + kHeaderBytes + 8 * i); }

 private:
  static constexpr uint8_t kType = 0x80;

  explicit CellNotice(absl::string_view bytes) : bytes_(bytes) {}

  absl::string_view bytes_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_CELL_NOTICE_H_
