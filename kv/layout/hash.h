// XXH3-64, seeded by the incarnation: the hash of keys and the checksum of items.
//
// Source: https://xxhash.com, XXH3_64bits_withSeed. For inputs above 240 bytes that function first derives a secret
// from the seed; a Hasher does so once. For 17 to 240 bytes that function mixes the seed into each word of the secret
// that it uses; a Hasher also does this once. Long inputs are hashed with wider vectors where the processor has them
// (hash_avx2.h). The results are the same.
#ifndef FARLOOK_KV_LAYOUT_HASH_H_
#define FARLOOK_KV_LAYOUT_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include "absl/strings/string_view.h"
#include "kv/layout/hash_avx2.h"
#include "kv/layout/words.h"
#include "xxhash.h"

namespace farlook::kv {

// Immutable, so safe for any number of threads.
class Hasher {
 public:
  explicit Hasher(uint64_t seed) : seed_(seed) {
    XXH3_generateSecret_fromSeed(secret_.data(), seed);
    unsigned char plain[XXH3_SECRET_DEFAULT_SIZE];
    XXH3_generateSecret_fromSeed(plain, 0);
    const auto mixed_at = [&plain, seed](size_t offset) {
      return Mixed{LoadAs<uint64_t>(plain + offset) + seed, LoadAs<uint64_t>(plain + offset + 8) - seed};
    };
    for (size_t i = 0; i < kFirstRounds; ++i) mixed_[i] = mixed_at(16 * i);
    for (size_t i = kFirstRounds; i < kLastRound; ++i) mixed_[i] = mixed_at(16 * (i - kFirstRounds) + 3);
    mixed_[kLastRound] = mixed_at(119);
  }

  uint64_t seed() const { return seed_; }

  uint64_t operator()(const void* data, size_t bytes) const {
    if (bytes - 17 <= 32 - 17) {  // most keys
      const char* const from = static_cast<const char*>(data);
      return Avalanche(bytes * kPrime + Mix(from, mixed_[0]) + Mix(from + bytes - 16, mixed_[1]));
    }
    if (bytes - 17 <= 240 - 17) return HashMiddling(static_cast<const char*>(data), bytes);
    if (bytes >= kLongBytes && HasAvx2()) return LongHashAvx2(data, bytes, secret_.data());
    return XXH3_64bits_withSecretandSeed(data, bytes, secret_.data(), secret_.size(), seed_);
  }
  uint64_t operator()(absl::string_view bytes) const { return (*this)(bytes.data(), bytes.size()); }

  // The same, with `first` in place of the first word of the data. REQUIRES TakesFirstWord(bytes).
  uint64_t operator()(uint64_t first, const char* data, size_t bytes) const { return HashMiddling(data, bytes, first); }
  // Up to 32 bytes the formula is another one, and up to 39 bytes two rounds include bytes of the first word.
  static constexpr bool TakesFirstWord(size_t bytes) { return bytes - 40 <= 240 - 40; }

  // The hash of the concatenation of two pieces.
  uint64_t operator()(absl::string_view head, absl::string_view tail) const {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed_);
    XXH3_64bits_update(&state, head.data(), head.size());
    Update(&state, tail);
    return XXH3_64bits_digest(&state);
  }

  // The hash of data that arrives in pieces.
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
  // From this length on, the cost of a function call is small compared with the gain of wider vectors.
  static constexpr size_t kLongBytes = 512;

  // Inputs of 17 to 240 bytes have a round for each 16 bytes, with two words of the secret that include the seed. From
  // 129 bytes on there is an avalanche after the eighth round, and a separate round for the last 16 bytes.
  struct Mixed {
    uint64_t low, high;
  };
  static constexpr size_t kFirstRounds = 8, kLastRound = 240 / 16;
  static constexpr uint64_t kPrime = 0x9e37'79b1'85eb'ca87;

  static uint64_t Mix(const char* from, const Mixed& mixed) { return Mix(LoadAs<uint64_t>(from), from, mixed); }
  static uint64_t Mix(uint64_t first, const char* from, const Mixed& mixed) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(first ^ mixed.low) * (LoadAs<uint64_t>(from + 8) ^ mixed.high);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  static uint64_t Avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 37) * 0x1656'6791'9e37'79f9;
    return hash ^ hash >> 32;
  }
  // `first`: nothing, or the word that replaces the one at `from`.
  template <typename... First>
  [[gnu::noinline]] uint64_t HashMiddling(const char* from, size_t bytes, First... first) const {
    const auto round = [&](size_t i, size_t mixed) {
      uint64_t word = LoadAs<uint64_t>(from + 16 * i);
      if constexpr (sizeof...(first) == 1) word = i == 0 ? (first, ...) : word;
      return Mix(word, from + 16 * i, mixed_[mixed]);
    };
    uint64_t sum = bytes * kPrime;
    if (bytes <= 128) {
      const char* const end = from + bytes;
#pragma GCC unroll 4
      for (size_t i = 0; i < kFirstRounds / 2; ++i) {
        sum += round(i, 2 * i) + Mix(end - 16 * (i + 1), mixed_[2 * i + 1]);
        if (bytes <= 32 * (i + 1)) break;
      }
      return Avalanche(sum);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < kFirstRounds; ++i) sum += round(i, i);
    sum = Avalanche(sum);
    for (size_t i = kFirstRounds; i < bytes / 16; ++i) sum += Mix(from + 16 * i, mixed_[i]);
    return Avalanche(sum + Mix(from + bytes - 16, mixed_[kLastRound]));
  }

  static void Update(XXH3_state_t* state, absl::string_view piece) {
    if (piece.size() >= kLongBytes && HasAvx2()) {
      UpdateHashAvx2(state, piece.data(), piece.size());
    } else {
      XXH3_64bits_update(state, piece.data(), piece.size());
    }
  }

  uint64_t seed_;
  std::array<Mixed, kLastRound + 1> mixed_;
  alignas(64) std::array<unsigned char, XXH3_SECRET_DEFAULT_SIZE> secret_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_HASH_H_
