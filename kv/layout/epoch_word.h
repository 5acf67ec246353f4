// The word by which a member of a group announces to readers the epoch that its memory belongs to. See
// docs/cluster-design.md, "Epoch words".
//
//       63                             1   0
//       | epoch                          | open |
#ifndef FARLOOK_KV_LAYOUT_EPOCH_WORD_H_
#define FARLOOK_KV_LAYOUT_EPOCH_WORD_H_

#include <cstdint>

namespace farlook::kv {

class EpochWord {
 public:
  static constexpr uint64_t kMaxEpoch = ~uint64_t{0} >> 1;

  // SHUT(0): the member is closed to all readers.
  constexpr EpochWord() = default;
  // REQUIRES epoch <= kMaxEpoch.
  static constexpr EpochWord Open(uint64_t epoch) { return EpochWord(epoch << 1 | 1); }
  static constexpr EpochWord Shut(uint64_t epoch) { return EpochWord(epoch << 1); }
  static constexpr EpochWord FromBits(uint64_t bits) { return EpochWord(bits); }

  constexpr uint64_t bits() const { return bits_; }
  constexpr uint64_t epoch() const { return bits_ >> 1; }
  constexpr bool is_open() const { return (bits_ & 1) != 0; }
  constexpr bool operator==(const EpochWord&) const = default;

 private:
  explicit constexpr EpochWord(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_EPOCH_WORD_H_
