// `kv_cli bigkeys` and `kv_cli histogram`: what a scan tells of lengths and times to live.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/walk.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "farlook/scan.h"

namespace farlook::cli {
namespace {

constexpr int64_t kDefaultLimit = 20;

// Calls `take` for each item whose key has the prefix of the first operand.
ExitCode ForEachItem(const Context& context, const std::function<void(const ScannedItem&)>& take) {
  ScanOptions scan;
  if (!TakeScanOptions(context, context.operands.empty() ? "" : context.operands[0].text, &scan)) {
    return ExitCode::kUsage;
  }
  const absl::Status status = Walk(context, scan, [&take](const ScannedItem& item) {
    take(item);
    return true;
  });
  if (!status.ok()) return context.Fail(status);
  return Interrupted() ? ExitCode::kInterrupted : ExitCode::kOk;
}

// Keys by an upper bound of a property.
struct Bucket {
  uint64_t most;
  absl::string_view text;
  uint64_t keys = 0;
};

void Add(uint64_t property, absl::Span<Bucket> buckets) {
  for (Bucket& bucket : buckets) {
    if (property > bucket.most) continue;
    ++bucket.keys;
    return;
  }
}

void Print(const Context& context, absl::string_view name, absl::Span<const Bucket> buckets, uint64_t all) {
  for (const Bucket& bucket : buckets) {
    if (bucket.keys == 0) continue;
    if (context.options.json) {
      JsonLine line;
      if (bucket.most == UINT64_MAX) {
        line.Bool(name, false);
      } else {
        line.Number(absl::StrCat(name, "_up_to"), bucket.most);
      }
      context.console.out().WriteLine(line.Number("keys", bucket.keys).ToString());
    } else {
      context.console.out().WriteLine(
          absl::StrFormat("%-22s%12d%7.1f %%", bucket.text, bucket.keys,
                          100.0 * static_cast<double>(bucket.keys) / static_cast<double>(std::max<uint64_t>(all, 1))));
    }
  }
}

}  // namespace

ExitCode RunBigKeys(Context& context) {
  const auto limit = static_cast<size_t>(context.options.scan.limit > 0 ? context.options.scan.limit : kDefaultLimit);
  using Entry = std::pair<uint64_t, std::string>;
  std::vector<Entry> longest;  // a heap, whose first is the shortest
  const ExitCode code = ForEachItem(context, [&](const ScannedItem& item) {
    if (item.counter || (longest.size() == limit && item.value_bytes <= longest.front().first)) return;
    // A scan may return a key twice.
    const std::string_view key = item.key;
    if (std::any_of(longest.begin(), longest.end(), [key](const Entry& entry) { return entry.second == key; })) return;
    longest.emplace_back(item.value_bytes, key);
    std::push_heap(longest.begin(), longest.end(), std::greater<>());
    if (longest.size() <= limit) return;
    std::pop_heap(longest.begin(), longest.end(), std::greater<>());
    longest.pop_back();
  });
  std::sort(longest.begin(), longest.end(), [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (const Entry& entry : longest) {
    context.console.out().WriteLine(
        context.options.json ? JsonLine().Bytes("key", entry.second).Number("value_bytes", entry.first).ToString()
                             : absl::StrCat(entry.first, "\t", Escape(entry.second)));
  }
  return code;
}

ExitCode RunHistogram(Context& context) {
  constexpr uint64_t kMinuteMs = 60'000, kHourMs = 60 * kMinuteMs, kDayMs = 24 * kHourMs;
  std::array lengths = {Bucket{0, "no bytes"},
                        Bucket{64, "up to 64 bytes"},
                        Bucket{256, "up to 256 bytes"},
                        Bucket{1 << 10, "up to 1 KiB"},
                        Bucket{4 << 10, "up to 4 KiB"},
                        Bucket{16 << 10, "up to 16 KiB"},
                        Bucket{64 << 10, "up to 64 KiB"},
                        Bucket{256 << 10, "up to 256 KiB"},
                        Bucket{1 << 20, "up to 1 MiB"},
                        Bucket{16 << 20, "up to 16 MiB"},
                        Bucket{UINT64_MAX - 1, "longer"}};
  std::array ttls = {Bucket{kMinuteMs, "within a minute"}, Bucket{kHourMs, "within an hour"},
                     Bucket{kDayMs, "within a day"},       Bucket{30 * kDayMs, "within 30 days"},
                     Bucket{UINT64_MAX - 1, "later"},      Bucket{UINT64_MAX, "never"}};
  uint64_t keys = 0, counters = 0, key_bytes = 0, value_bytes = 0;
  const ExitCode code = ForEachItem(context, [&](const ScannedItem& item) {
    ++keys;
    key_bytes += item.key.size();
    value_bytes += item.value_bytes;
    if (item.counter) {
      ++counters;
    } else {
      Add(item.value_bytes, absl::MakeSpan(lengths));
    }
    Add(item.left_ms == kForever ? UINT64_MAX : static_cast<uint64_t>(item.left_ms), absl::MakeSpan(ttls));
  });
  if (code != ExitCode::kOk) return code;
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(JsonLine()
                      .Number("keys", keys)
                      .Number("counters", counters)
                      .Number("key_bytes", key_bytes)
                      .Number("value_bytes", value_bytes)
                      .ToString());
  } else {
    out.WriteLine(absl::StrCat(keys, " keys of ", key_bytes, " bytes, ", counters, " of them counters, with ",
                               value_bytes, " bytes of values"));
    if (keys > counters) out.WriteLine("\nlengths of values");
  }
  Print(context, "value_bytes", lengths, keys - counters);
  if (!context.options.json && keys > 0) out.WriteLine("\nexpire");
  Print(context, "ttl_ms", ttls, keys);
  return ExitCode::kOk;
}

}  // namespace farlook::cli
