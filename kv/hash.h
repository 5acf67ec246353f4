// XXH3-64, seeded by the incarnation: the hash of keys and the checksum of items.
//
// Source: https://xxhash.com, XXH3_64bits_withSeed. For inputs above 240 bytes that function first derives a secret
// from the seed; a Hasher does it once. What is long is hashed by wider vectors where the processor has them
// (hash_avx2.h). The results are the same.
#ifndef FARLOOK_KV_HASH_H_
#define FARLOOK_KV_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include "absl/strings/string_view.h"
#include "kv/hash_avx2.h"
#include "xxhash.h"

namespace farlook::kv {

// Immutable, so safe for any number of threads.
class Hasher {
 public:
  explicit Hasher(uint64_t seed) : seed_(seed) { XXH3_generateSecret_fromSeed(secret_.data(), seed); }

  uint64_t seed() const { return seed_; }

  uint64_t operator()(const void* data, size_t bytes) const {
    if (bytes >= kLongBytes && HasAvx2()) return LongHashAvx2(data, bytes, secret_.data());
    return XXH3_64bits_withSecretandSeed(data, bytes, secret_.data(), secret_.size(), seed_);
  }
  uint64_t operator()(absl::string_view bytes) const { return (*this)(bytes.data(), bytes.size()); }

  // The hash of two pieces of memory as if they were one.
  uint64_t operator()(absl::string_view head, absl::string_view tail) const {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed_);
    XXH3_64bits_update(&state, head.data(), head.size());
    Update(&state, tail);
    return XXH3_64bits_digest(&state);
  }

  // The hash of what comes in pieces.
  class Stream {
   public:
    explicit Stream(const Hasher& hasher) {
      XXH3_INITSTATE(&state_);
      XXH3_64bits_reset_withSeed(&state_, hasher.seed_);
    }
    void Update(absl::string_view piece) { Hasher::Update(&state_, piece); }
    uint64_t Digest() const { return XXH3_64bits_digest(&state_); }

   private:
    XXH3_state_t state_;
  };

 private:
  // From here on a call is little beside what it saves.
  static constexpr size_t kLongBytes = 512;

  static void Update(XXH3_state_t* state, absl::string_view piece) {
    if (piece.size() >= kLongBytes && HasAvx2()) {
      UpdateHashAvx2(state, piece.data(), piece.size());
    } else {
      XXH3_64bits_update(state, piece.data(), piece.size());
    }
  }

  uint64_t seed_;
  alignas(64) std::array<unsigned char, XXH3_SECRET_DEFAULT_SIZE> secret_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HASH_H_
