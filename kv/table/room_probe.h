// Measures the capacity of a table's memory: fills it with items of a mix of sizes to the first refusal, overwrites,
// deletes, fills again. The proof (room_test) and the benchmark (bench/micro/space) use the same probe.
#ifndef FARLOOK_KV_TABLE_ROOM_PROBE_H_
#define FARLOOK_KV_TABLE_ROOM_PROBE_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/layout/item.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {

// Distributions of the sizes of values.
enum class Mix : uint8_t {
  kOneSize,     // 1,000 bytes
  kTiny,        // 8 bytes
  kSizes46,     // 46 lengths from 8 to 1,448 bytes
  kUniform,     // 1 to 4,096 bytes
  kLogUniform,  // 1 byte to 64 KiB, each doubling as likely
  kLarge,       // the same from 1/256 to 1/16 of the region
};
inline constexpr int kMixes = 6;
absl::string_view MixName(Mix mix);
// The minimum share of the region that items and index take at the first refusal.
double PromisedShare(Mix mix, uint64_t region_bytes);

// The number of partitions that a server with this number of workers uses.
int PartitionsFor(uint64_t region_bytes, int workers);

struct RoomProbeOptions {
  int partitions = 1;
  uint64_t seed = 1;
};

// Thread safety: one thread.
class RoomProbe {
 public:
  // `region` is zero and outlives the probe. The error is the table's: the region may be too small for the partitions.
  static absl::StatusOr<std::unique_ptr<RoomProbe>> Create(absl::Span<char> region, const RoomProbeOptions& options);

  // Puts items with new keys until one is refused. Returns the bytes of the items (header, key, value) that it put.
  uint64_t Fill(Mix mix);
  // Puts one item with a new key.
  Code PutNew(uint64_t value_bytes);
  // Puts an item without a value under the caller's key; the probe does not overwrite or delete such items.
  Code PutKey(absl::string_view key);
  Code DeleteKey(absl::string_view key);
  // Overwrites `count` keys, chosen at random, with values of the same length; every second with Condition::kVersion
  // and the present version. Returns how many succeeded.
  uint64_t Overwrite(uint64_t count);
  // The same with values of seven eighths of the length.
  uint64_t OverwriteShorter(uint64_t count);
  // Deletes each key with this probability; returns the bytes of the items.
  uint64_t Delete(double share);
  // Deletes the oldest live key; returns the item's bytes.
  uint64_t DeleteOldest();
  // Lets time pass so that quarantines end: one write every 10 ms for this long.
  void Rest(int64_t ns);
  // Number of keys with wrong values.
  uint64_t Damaged() const;

  uint64_t keys() const { return alive_; }
  uint64_t item_bytes() const { return item_bytes_; }  // of the probe's items
  const Table& table() const { return *table_; }
  uint64_t region_bytes() const { return region_bytes_; }
  // The share of the region that items and index take.
  double Share() const;

  // Number of kMakingRoom results, and the most that one write got.
  uint64_t steps() const { return steps_; }
  uint64_t most_steps() const { return most_steps_; }

  // Maximum number of kMakingRoom results for one write. A write with more counts as refused.
  static constexpr uint64_t kMostSteps = 10'000'000;

 private:
  static constexpr uint32_t kDead = ~0u;
  static constexpr int64_t kNsPerWrite = 1000;

  RoomProbe(absl::Span<char> region, std::unique_ptr<Table> table, uint64_t seed);

  // Calls `write` until it returns another code than kMakingRoom.
  template <class Write>
  WriteResult Repeat(Write write);
  Code Put(uint64_t number, uint64_t value_bytes, Condition condition, uint64_t version);
  absl::string_view ValueOf(uint64_t number, uint64_t value_bytes) const;
  uint64_t Forget(uint64_t number);
  uint64_t Choose();

  const uint64_t region_bytes_;
  const std::unique_ptr<Table> table_;
  std::mt19937_64 random_;
  std::string pattern_;            // values are pieces of it
  std::vector<uint32_t> lengths_;  // of values, by number; kDead: deleted
  uint64_t oldest_ = 0;            // no lower number is alive
  uint64_t alive_ = 0;
  uint64_t item_bytes_ = 0;
  uint64_t steps_ = 0, most_steps_ = 0;
  int64_t now_ns_ = 0;
};

// One row of the table that bench/micro/space prints. Shares are of the region, unless stated otherwise.
struct RoomFigures {
  uint64_t items = 0;         // at the first refusal
  double full = 0;            // items and index, at the first refusal
  uint64_t overwrites = 0;    // tried: of the same length whenever it was full, and finally of less
  uint64_t overwritten = 0;   // and succeeded
  double refilled[3] = {};    // share of the deleted 30 % that fits again: uniform, log-uniform, the same mix
  double nearly_empty = 0;    // free, when all but a thousandth of the keys are deleted
  double full_again = 0;      // items and index, filled from there
  uint64_t damaged = 0;       // wrong values
  uint64_t most_steps = 0;    // calls that one write needed beyond its first
  double moved_per_item = 0;  // moved items for each item that was put
};
absl::StatusOr<RoomFigures> MeasureRoom(absl::Span<char> region, const RoomProbeOptions& options, Mix mix,
                                        uint64_t overwrites);

// Lets sizes of values drift from 64 bytes to 16 KiB and back. Deletes the oldest keys, so that items and index take no
// more than this share of the region. Returns the share at the first refusal; more than `share` if nothing was refused.
double Drift(RoomProbe* probe, double share);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_ROOM_PROBE_H_
