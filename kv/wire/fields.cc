#include "kv/wire/fields.h"

#include <algorithm>
#include <bitset>

#include "absl/strings/str_cat.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

absl::Status Malformed(absl::string_view what, absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: ", what, ": ", how));
}

}  // namespace

absl::Status ReadFields(absl::string_view what, absl::string_view bytes,
                        absl::FunctionRef<FieldUse(uint16_t, absl::string_view)> take) {
  std::bitset<kCriticalTag> seen;
  while (!bytes.empty()) {
    if (bytes.size() < kFieldHeadBytes) return Malformed(what, "a field is cut short");
    const uint16_t tag_word = LoadAs<uint16_t>(bytes.data());
    const uint16_t tag = tag_word & (kCriticalTag - 1);
    const size_t length = LoadAs<uint16_t>(bytes.data() + 2);
    if (Padded(length) > bytes.size() - kFieldHeadBytes) return Malformed(what, "a field is cut short");
    const absl::string_view value = bytes.substr(kFieldHeadBytes, length);
    const absl::string_view padding = bytes.substr(kFieldHeadBytes + length, Padded(length) - length);
    if (std::any_of(padding.begin(), padding.end(), [](char c) { return c != 0; })) {
      return Malformed(what, "padding is not zero");
    }
    bytes.remove_prefix(kFieldHeadBytes + Padded(length));
    if (tag == 0) {
      if (tag_word != 0 || length != 0) return Malformed(what, "a field without a tag");
      continue;
    }
    if (seen[tag]) return Malformed(what, absl::StrCat("field ", tag, " is there twice"));
    seen[tag] = true;
    switch (take(tag, value)) {
      case FieldUse::kTaken:
        break;
      case FieldUse::kMalformed:
        return Malformed(what, absl::StrCat("field ", tag, " is too short or invalid"));
      case FieldUse::kUnknown:
        if ((tag_word & kCriticalTag) == 0) break;
        return absl::FailedPreconditionError(absl::StrCat(
            "the ", what, " needs something that this release does not know (field ", tag, "): use the later release"));
    }
  }
  return absl::OkStatus();
}

void AppendField(uint16_t tag, absl::string_view value, std::string* bytes) {
  char head[kFieldHeadBytes];
  StoreAs(head, tag);
  StoreAs(head + 2, static_cast<uint16_t>(value.size()));
  absl::StrAppend(bytes, absl::string_view(head, sizeof head), value);
  bytes->append(Padded(value.size()) - value.size(), '\0');
}

}  // namespace farlook::kv
