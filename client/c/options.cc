#include "client/c/options.h"

#include <iterator>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/nearest.h"
#include "client/c/error.h"
#include "farlook.h"

namespace farlook::c {
namespace {

using client::Kind;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMost32 = std::numeric_limits<uint32_t>::max();

struct Number {
  absl::string_view name;
  uint32_t bit;
  int64_t least, most;
  void (*set)(farlook_options*, int64_t);
};

// The last condition that was set applies. Clearing another one leaves it.
void SetCondition(farlook_options* options, Condition condition, bool on) {
  if (!on && options->put.condition.kind() != condition.kind()) return;
  options->put.condition = on ? condition : Condition::Always();
}

constexpr Number kNumbers[] = {
    {"timeout_ms", kFarlookTimeout, 0, kMost, [](farlook_options* o, int64_t n) { o->connect.timeout_ms = n; }},
    {"read_only", kFarlookConnect, 0, 1, [](farlook_options* o, int64_t n) { o->connect.read_only = n != 0; }},
    {"wait_for_server", kFarlookConnect, 0, 1,
     [](farlook_options* o, int64_t n) { o->connect.wait_for_server = n != 0; }},
    {"max_in_flight", kFarlookConnect, 1, kMost32,
     [](farlook_options* o, int64_t n) { o->connect.max_in_flight = static_cast<uint32_t>(n); }},
    {"mirror_bytes", kFarlookConnect, -1, kMost, [](farlook_options* o, int64_t n) { o->connect.mirror_bytes = n; }},
    {"share_mirror", kFarlookConnect, 0, 1, [](farlook_options* o, int64_t n) { o->connect.share_mirror = n != 0; }},
    {"counter_cache_bytes", kFarlookConnect, 0, kMost,
     [](farlook_options* o, int64_t n) { o->connect.counter_cache_bytes = n; }},
    {"min_backoff_ms", kFarlookConnect, 0, kMaxBackoffMs,
     [](farlook_options* o, int64_t n) { o->connect.min_backoff_ms = n; }},
    {"max_backoff_ms", kFarlookConnect, 0, kMaxBackoffMs,
     [](farlook_options* o, int64_t n) { o->connect.max_backoff_ms = n; }},
    {"spin_us", kFarlookConnect, 0, kMaxSpinUs, [](farlook_options* o, int64_t n) { o->connect.spin_us = n; }},
    {"liveness_ms", kFarlookConnect, 1, kMaxLivenessMs,
     [](farlook_options* o, int64_t n) { o->connect.liveness_ms = n; }},
    {"max_outstanding", kFarlookConnect, 1, kMost32,
     [](farlook_options* o, int64_t n) { o->connect.max_outstanding = static_cast<uint32_t>(n); }},
    {"if_absent", kFarlookCondition, 0, 1,
     [](farlook_options* o, int64_t n) { SetCondition(o, Condition::IfAbsent(), n != 0); }},
    {"if_present", kFarlookCondition, 0, 1,
     [](farlook_options* o, int64_t n) { SetCondition(o, Condition::IfPresent(), n != 0); }},
    // 0 is a version that no item has: a caller that passes it by mistake gets an error, and overwrites nothing.
    {"if_version", kFarlookCondition, 0, kMost,
     [](farlook_options* o, int64_t n) { SetCondition(o, Condition::IfVersion(static_cast<uint64_t>(n)), true); }},
    {"ttl_ms", kFarlookTtl, 0, kMost, [](farlook_options* o, int64_t n) { o->put.ttl_ms = n; }},
    {"keep_ttl", kFarlookKeepTtl, 0, 1, [](farlook_options* o, int64_t n) { o->put.keep_ttl = n != 0; }},
    {"keep", kFarlookKeep, 0, 1, [](farlook_options* o, int64_t n) { o->put.keep = n != 0; }},
    {"refill", kFarlookRefill, 0, 1, [](farlook_options* o, int64_t n) { o->put.refill = n != 0; }},
    {"exactly_once", kFarlookExactlyOnce, 0, 1, [](farlook_options* o, int64_t n) { o->exactly_once = n != 0; }},
    {"values", kFarlookScan, 0, 1, [](farlook_options* o, int64_t n) { o->scan.values = n != 0; }},
    {"limit", kFarlookScan, 0, kMost, [](farlook_options* o, int64_t n) { o->scan.limit = static_cast<uint64_t>(n); }},
    {"min_value_bytes", kFarlookScan, 0, kMost,
     [](farlook_options* o, int64_t n) { o->scan.min_value_bytes = static_cast<uint64_t>(n); }},
    {"max_value_bytes", kFarlookScan, 0, kMost,
     [](farlook_options* o, int64_t n) { o->scan.max_value_bytes = static_cast<uint64_t>(n); }},
    {"only_expiring", kFarlookScan, 0, 1, [](farlook_options* o, int64_t n) { o->scan.only_expiring = n != 0; }},
    {"batch_bytes", kFarlookScan, kMinScanBatchBytes, kMaxScanBatchBytes,
     [](farlook_options* o, int64_t n) { o->scan.batch_bytes = static_cast<size_t>(n); }},
    {"bytes_per_s", kFarlookScan, 0, kMost,
     [](farlook_options* o, int64_t n) { o->scan.bytes_per_s = static_cast<uint64_t>(n); }},
    {"create", kFarlookCreate, 0, 1, [](farlook_options* o, int64_t n) { o->create = n != 0; }},
    {"initial", kFarlookCreate, std::numeric_limits<int64_t>::min(), kMost,
     [](farlook_options* o, int64_t n) { o->initial = n; }},
};

struct Text {
  absl::string_view name;
  // Returns false for an unknown value.
  bool (*set)(farlook_options*, absl::string_view);
  uint32_t bit = kFarlookConnect;
};

bool SetLookups(farlook_options* options, absl::string_view text) {
  if (text != "auto" && text != "reads" && text != "messages") return false;
  options->connect.lookups = text == "auto" ? Lookups::kAuto : text == "reads" ? Lookups::kReads : Lookups::kMessages;
  return true;
}

bool SetFencing(farlook_options* options, absl::string_view text) {
  if (text != "lease" && text != "strict") return false;
  options->connect.fencing = text == "lease" ? Fencing::kLease : Fencing::kStrict;
  return true;
}

bool SetString(std::string* string, absl::string_view text) {
  *string = std::string(text);
  return true;
}

constexpr Text kTexts[] = {
    {"cursor", [](farlook_options* o, absl::string_view text) { return SetString(&o->scan.cursor, text); },
     kFarlookScan},
    {"lookups", SetLookups},
    {"fencing", SetFencing},
    {"user", [](farlook_options* o, absl::string_view text) { return SetString(&o->connect.user, text); }},
    {"secret", [](farlook_options* o, absl::string_view text) { return SetString(&o->connect.secret, text); }},
    {"secret_file",
     [](farlook_options* o, absl::string_view text) { return SetString(&o->connect.secret_file, text); }},
};

template <typename T, size_t n>
const T* Find(const T (&all)[n], absl::string_view name) {
  for (const T& one : all) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

int Unknown(absl::string_view name) {
  if (Find(kNumbers, name) != nullptr) return Invalid(absl::StrCat("the option ", name, " is a number"));
  if (Find(kTexts, name) != nullptr) return Invalid(absl::StrCat("the option ", name, " is text"));
  std::vector<absl::string_view> names;
  for (const Number& number : kNumbers) names.push_back(number.name);
  for (const Text& text : kTexts) names.push_back(text.name);
  const absl::string_view nearest = Nearest(name, names);
  return Invalid(absl::StrCat("there is no option ", name, nearest.empty() ? "" : ": did you mean ", nearest));
}

// Returns the options that a call for one operation has.
uint32_t AllowedFor(Kind kind) {
  switch (kind) {
    case Kind::kPut:
      return kFarlookTimeout | kFarlookCondition | kFarlookTtl | kFarlookKeepTtl | kFarlookKeep | kFarlookRefill;
    case Kind::kDelete:
      return kFarlookTimeout | kFarlookCondition;
    case Kind::kCreateCounter:
      return kFarlookTimeout | kFarlookTtl | kFarlookExactlyOnce;
    case Kind::kFetchAdd:
      return kFarlookTimeout | kFarlookExactlyOnce | kFarlookCreate | kFarlookTtl;
    case Kind::kCompareSwap:
    case Kind::kReadCounter:
    case Kind::kDeleteCounter:
      return kFarlookTimeout | kFarlookExactlyOnce;
    default:
      return kFarlookTimeout;
  }
}

}  // namespace

int CheckOptions(const farlook_options* options, uint32_t allowed) {
  if (options == nullptr || (options->set & ~allowed) == 0) [[likely]]
    return FARLOOK_OK;
  const uint32_t wrong = options->set & ~allowed;
  for (const Number& number : kNumbers) {
    if ((number.bit & wrong) != 0 && number.bit != kFarlookConnect && number.bit != kFarlookScan) {
      return Invalid(
          absl::StrCat("this call has no option ", number.bit == kFarlookCondition ? "if_..." : number.name));
    }
  }
  return Invalid((wrong & kFarlookScan) != 0 ? "these options are of farlook_scan()"
                                             : "these options are of farlook_connect()");
}

int TakeOptions(const farlook_options* options, client::Operation* operation) {
  static const farlook_options* const kDefaults = new farlook_options;
  if (const int code = CheckOptions(options, AllowedFor(operation->kind)); code != FARLOOK_OK) return code;
  if (options == nullptr) options = kDefaults;
  operation->timeout_ms = (options->set & kFarlookTimeout) != 0 ? options->connect.timeout_ms : 0;
  operation->condition = options->put.condition;
  // The ttl of these is a parameter, not an option.
  if (!IsOneOf(operation->kind, Kind::kTouch, Kind::kGetAndTouch)) operation->ttl_ms = options->put.ttl_ms;
  operation->keep_ttl = options->put.keep_ttl;
  operation->keep = options->put.keep;
  operation->refill = options->put.refill;
  operation->exactly_once = options->exactly_once;
  operation->create = options->create;
  if (operation->kind == Kind::kFetchAdd) operation->expected = options->initial;
  return FARLOOK_OK;
}

}  // namespace farlook::c

extern "C" {

farlook_options* farlook_options_new(void) {
  return farlook::c::GuardedOr<farlook_options*>(nullptr, [] { return new farlook_options; });
}
void farlook_options_free(farlook_options* options) { delete options; }

int farlook_options_set(farlook_options* options, const char* name, int64_t value) {
  using namespace farlook::c;
  return Guarded([&] {
    if (options == nullptr || name == nullptr) return Invalid("the options, or the option's name, are NULL");
    const Number* const number = Find(kNumbers, name);
    if (number == nullptr) return Unknown(name);
    if (value < number->least || value > number->most) {
      return Invalid(absl::StrCat("the option ", name, " is from ", number->least, " to ", number->most));
    }
    number->set(options, value);
    options->set |= number->bit;
    return 0;
  });
}

int farlook_options_set_text(farlook_options* options, const char* name, const char* text) {
  using namespace farlook::c;
  return Guarded([&] {
    if (options == nullptr || name == nullptr || text == nullptr) {
      return Invalid("the options, the option's name, or its text, are NULL");
    }
    const Text* const found = Find(kTexts, name);
    if (found == nullptr) return Unknown(name);
    if (!found->set(options, text)) return Invalid(absl::StrCat("the option ", name, " has no value ", text));
    options->set |= found->bit;
    return 0;
  });
}

int farlook_options_set_while_waiting(farlook_options* options, int64_t (*while_waiting)(void* context),
                                      void* context) {
  using namespace farlook::c;
  return Guarded([&] {
    if (options == nullptr || while_waiting == nullptr) return Invalid("the options, or the function, are NULL");
    options->connect.while_waiting = [while_waiting, context] { return while_waiting(context); };
    options->set |= kFarlookConnect;
    return 0;
  });
}

}  // extern "C"
