// Fields (kv/wire/fields.h) of the records in a directory. All are critical: a server that does not know one would take
// wrong decisions.
#ifndef FARLOOK_CLUSTER_RECORD_FIELDS_H_
#define FARLOOK_CLUSTER_RECORD_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kv/layout/words.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/fields.h"

namespace farlook::cluster {

inline void AppendText(uint16_t tag, absl::string_view text, std::string* bytes) {
  kv::AppendField(tag | kv::kCriticalTag, text, bytes);
}

template <typename T>
void AppendNumber(uint16_t tag, T number, std::string* bytes) {
  char raw[sizeof number];
  kv::StoreAs(raw, number);
  AppendText(tag, absl::string_view(raw, sizeof raw), bytes);
}

template <typename T>
kv::FieldUse TakeNumber(absl::string_view value, T* number) {
  if (value.size() < sizeof(T)) return kv::FieldUse::kMalformed;
  *number = kv::LoadAs<T>(value.data());
  return kv::FieldUse::kTaken;
}

// Slots are encoded as ranges {first u16, last u16}, both included: at most half as many as there are slots.
inline constexpr size_t kRangeBytes = 4;
static_assert(kv::kClusterSlots / 2 * kRangeBytes <= UINT16_MAX, "any slots fit in a field");

inline void AppendSlots(uint16_t tag, const kv::SlotSet& slots, std::string* bytes) {
  std::string ranges;
  for (const kv::SlotRange& range : kv::RangesOf(slots)) {
    char raw[kRangeBytes];
    kv::StoreAs(raw, static_cast<uint16_t>(range.first));
    kv::StoreAs(raw + 2, static_cast<uint16_t>(range.last));
    ranges.append(raw, sizeof raw);
  }
  AppendText(tag, ranges, bytes);
}

inline kv::FieldUse TakeSlots(absl::string_view value, kv::SlotSet* slots) {
  if (value.size() % kRangeBytes != 0) return kv::FieldUse::kMalformed;
  for (; !value.empty(); value.remove_prefix(kRangeBytes)) {
    const size_t first = kv::LoadAs<uint16_t>(value.data()), last = kv::LoadAs<uint16_t>(value.data() + 2);
    if (first > last || last >= kv::kClusterSlots) return kv::FieldUse::kMalformed;
    for (size_t slot = first; slot <= last; ++slot) slots->set(slot);
  }
  return kv::FieldUse::kTaken;
}

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_RECORD_FIELDS_H_
