// A client's report of its gets, which the server does not see: their number, and how long they took. It is the value
// of a Request of type kFigures, which has no number and no reply. A client sends it if the Welcome asked for it.
//
//      0 gets u64 | 8 hits u64, since the last report | 16 milliseconds u32, from 1: that time | 20 buckets u16
//     22 zero u16 | 24 counts u32, one for each bucket: timed gets with such a duration
//
// The buckets are those of DurationBuckets; those after the last that is sent are empty.
#ifndef FARLOOK_KV_WIRE_CLIENT_FIGURES_H_
#define FARLOOK_KV_WIRE_CLIENT_FIGURES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/layout/words.h"
#include "kv/wire/duration_buckets.h"

namespace farlook::kv {

struct ClientFigures {
  static constexpr size_t kHeadBytes = 24;
  static constexpr size_t kMaxBytes = kHeadBytes + 4 * DurationBuckets::kBuckets;

  uint64_t gets = 0, hits = 0;
  uint32_t interval_ms = 0;
  std::array<uint32_t, DurationBuckets::kBuckets> counts = {};

  // `to` has room for kMaxBytes. Returns the length.
  size_t Encode(char* to) const {
    size_t buckets = counts.size();
    while (buckets > 0 && counts[buckets - 1] == 0) --buckets;
    StoreAs(to, gets);
    StoreAs(to + 8, hits);
    StoreAs(to + 16, uint64_t{interval_ms} | uint64_t{buckets} << 32);
    for (size_t i = 0; i < buckets; ++i) StoreAs(to + kHeadBytes + 4 * i, counts[i]);
    return kHeadBytes + 4 * buckets;
  }
  // Decodes untrusted bytes. Returns false if malformed. The figures themselves are not verified.
  static bool Decode(absl::string_view value, ClientFigures* figures) {
    if (value.size() < kHeadBytes || value.size() > kMaxBytes) return false;
    const size_t buckets = LoadAs<uint16_t>(value.data() + 20);
    if (value.size() != kHeadBytes + 4 * buckets || LoadAs<uint16_t>(value.data() + 22) != 0) return false;
    figures->gets = LoadAs<uint64_t>(value.data());
    figures->hits = LoadAs<uint64_t>(value.data() + 8);
    figures->interval_ms = LoadAs<uint32_t>(value.data() + 16);
    figures->counts = {};
    for (size_t i = 0; i < buckets; ++i) figures->counts[i] = LoadAs<uint32_t>(value.data() + kHeadBytes + 4 * i);
    return figures->hits <= figures->gets && figures->interval_ms != 0;
  }
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_CLIENT_FIGURES_H_
