#include "kv/wire/cell_notice.h"

#include "absl/status/status.h"

namespace farlook::kv {

std::string CellNotice::Encode(uint64_t sequence, const std::vector<uint64_t>& hashes) {
  std::string bytes(kHeaderBytes + 8 * hashes.size(), '\0');
  StoreAs(bytes.data(), uint64_t{kType} | uint64_t{hashes.size()} << 16);
  StoreAs(bytes.data() + 8, sequence);
  for (size_t i = 0; i < hashes.size(); ++i) StoreAs(bytes.data() + kHeaderBytes + 8 * i, hashes[i]);
  return bytes;
}

absl::StatusOr<CellNotice> CellNotice::Decode(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes + 8) return absl::InvalidArgumentError("malformed notice: too short");
  const size_t hashes = LoadAs<uint16_t>(bytes.data() + 2);
  if (LoadAs<uint64_t>(bytes.data()) != (uint64_t{kType} | uint64_t{hashes} << 16)) {
    return absl::InvalidArgumentError("malformed notice: reserved bytes are not zero");
  }
  if (hashes == 0 || hashes > kMaxHashes || bytes.size() != kHeaderBytes + 8 * hashes) {
    return absl::InvalidArgumentError("malformed notice: wrong length");
  }
  if (LoadAs<uint64_t>(bytes.data() + 8) == 0) return absl::InvalidArgumentError("malformed notice: sequence 0");
  return CellNotice(bytes);
}

}  // namespace farlook::kv
