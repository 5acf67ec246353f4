#include "kv/wire/request_options.h"

#include "absl/strings/str_cat.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/words.h"
#include "kv/wire/fields.h"

namespace farlook::kv {
namespace {

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: request: ", why));
}

// Writes a field with up to four bytes of value, or of padding.
size_t Append(char* to, uint16_t tag, uint16_t length, uint32_t value) {
  StoreAs(to, uint64_t{tag} | uint64_t{length} << 16 | uint64_t{value} << 32);
  return 8;
}

// Writes a field with eight bytes of value, padded with a field of tag 0.
size_t AppendLong(char* to, uint16_t tag, uint64_t value) {
  const size_t bytes = Append(to, tag, sizeof value, static_cast<uint32_t>(value));
  StoreAs(to + bytes, value >> 32);
  return bytes + 8;
}

}  // namespace

size_t RequestOptions::Encode(char* to) const {
  size_t bytes = 0;
  if (create) bytes += AppendLong(to, kCriticalTag | kCreate, static_cast<uint64_t>(initial));
  if (has_ttl) bytes += AppendLong(to + bytes, kCriticalTag | kTtl, ttl_us);
  if (keep_ttl) bytes += Append(to + bytes, kCriticalTag | kKeepTtl, 0, 0);
  if (item_flags != 0) bytes += Append(to + bytes, kItemFlags, sizeof item_flags, item_flags);
  if (refill) bytes += Append(to + bytes, kRefill, 0, 0);
  return bytes;
}

absl::Status RequestOptions::Decode(absl::string_view bytes, RequestOptions* options) {
  bool unknown_flag = false;
  absl::Status status = ReadFields("request", bytes, [&](uint16_t tag, absl::string_view value) {
    switch (tag) {
      case kTtl:
        if (value.size() < sizeof options->ttl_us) return FieldUse::kMalformed;
        options->ttl_us = LoadAs<uint64_t>(value.data());
        options->has_ttl = true;
        return FieldUse::kTaken;
      case kKeepTtl:
        options->keep_ttl = true;
        return FieldUse::kTaken;
      case kItemFlags:
        if (value.empty()) return FieldUse::kMalformed;
        options->item_flags = static_cast<uint8_t>(value[0]);
        unknown_flag = (options->item_flags & ~kKeep) != 0;
        return FieldUse::kTaken;
      case kRefill:
        options->refill = true;
        return FieldUse::kTaken;
      case kCreate:
        if (value.size() < sizeof options->initial) return FieldUse::kMalformed;
        options->initial = LoadAs<int64_t>(value.data());
        options->create = true;
        return FieldUse::kTaken;
      default:
        return FieldUse::kUnknown;
    }
  });
  if (!status.ok()) return status;
  if (options->ttl_us != 0 && !ValidTtl(options->ttl_us)) {
    return Refused(absl::StrCat("a ttl of ", options->ttl_us, " us: an item lives for 1 ms to 10 years"));
  }
  if (options->has_ttl && options->keep_ttl) return Refused("a ttl, and the one to be kept");
  if (StateOf(options->initial) != CellState::kLive)
    return Refused("a counter to be created with an impossible number");
  if (unknown_flag) return absl::FailedPreconditionError("the request has a flag for its item that is not known");
  return absl::OkStatus();
}

}  // namespace farlook::kv
