#include "kv/table/room_probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "kv/layout/limits.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kKeyBytes = 8;
// Number of places in the pattern at which values may begin.
constexpr uint64_t kPlaces = 4096;

// Longer values would make the probe move more than it measures.
constexpr uint64_t kMostProbedBytes = uint64_t{64} << 20;

uint64_t MostValueBytes(uint64_t region_bytes) { return std::min(region_bytes / 16, kMostProbedBytes); }

uint64_t ItemBytesOf(uint64_t value_bytes) { return kItemHeaderBytes + kKeyBytes + value_bytes; }

uint64_t LogUniform(std::mt19937_64* random, double least, double most) {
  const double at = std::generate_canonical<double, 53>(*random);
  return static_cast<uint64_t>(least * std::exp(at * std::log(most / least)));
}

uint64_t Draw(Mix mix, uint64_t region_bytes, std::mt19937_64* random) {
  const auto below = [random](uint64_t bound) { return (*random)() % bound; };
  const double most = static_cast<double>(MostValueBytes(region_bytes));
  switch (mix) {
    case Mix::kOneSize:
      return 1000;
    case Mix::kTiny:
      return 8;
    case Mix::kSizes46:
      return 8 + 32 * below(46);
    case Mix::kUniform:
      return 1 + below(4096);
    case Mix::kLogUniform:
      return LogUniform(random, 1, 65'537);
    case Mix::kLarge:
      return LogUniform(random, most / 16, most);
  }
  return 0;
}

}  // namespace

absl::string_view MixName(Mix mix) {
  static constexpr absl::string_view kNames[kMixes] = {"1,000 bytes",      "8 bytes",       "46 sizes to 1,448",
                                                       "uniform to 4 KiB", "log to 64 KiB", "log to a 16th"};
  return kNames[static_cast<size_t>(mix)];
}

double PromisedShare(Mix mix, uint64_t region_bytes) {
  if (region_bytes < 128 << 20 || mix == Mix::kLarge) return 0.70;
  // In a piece of 64 bytes an item with a key and a value of 8 takes 48. The index adds some 11 bytes for each. So even
  // with no memory held back at most 59 of 75, or 0.79, could be used: more would need pieces that are no multiples of
  // 64 bytes.
  if (mix == Mix::kTiny) return 0.75;
  return mix == Mix::kOneSize ? 0.85 : 0.80;
}

int PartitionsFor(uint64_t region_bytes, int workers) {
  if (workers == 1) return 1;
  const uint64_t wanted = 2 * std::bit_ceil(static_cast<uint64_t>(workers));
  const uint64_t room = std::bit_floor(std::max<uint64_t>(region_bytes >> 21, 2));
  return static_cast<int>(std::min<uint64_t>({wanted, kMaxPartitions, room}));
}

absl::StatusOr<std::unique_ptr<RoomProbe>> RoomProbe::Create(absl::Span<char> region, const RoomProbeOptions& options) {
  TableOptions table_options;
  table_options.incarnation = 1;
  table_options.hash_seed = options.seed;
  table_options.partitions = options.partitions;
  table_options.max_value_bytes = kMaxValueBytes;
  absl::StatusOr<std::unique_ptr<Table>> table = Table::Create(region, table_options);
  if (!table.ok()) return table.status();
  return std::unique_ptr<RoomProbe>(new RoomProbe(region, *std::move(table), options.seed));
}

RoomProbe::RoomProbe(absl::Span<char> region, std::unique_ptr<Table> table, uint64_t seed)
    : region_bytes_(region.size()), table_(std::move(table)), random_(seed) {
  pattern_.resize(std::max<uint64_t>(MostValueBytes(region.size()), 128 << 10) + kPlaces);
  for (size_t i = 0; i + 8 <= pattern_.size(); i += 8) {
    const uint64_t word = random_();
    std::memcpy(&pattern_[i], &word, sizeof word);
  }
}

template <class Write>
WriteResult RoomProbe::Repeat(Write write) {
  for (uint64_t steps = 0; steps < kMostSteps; ++steps) {
    now_ns_ += kNsPerWrite;
    const WriteResult result = write();
    if (result.code == Code::kMakingRoom) continue;
    steps_ += steps;
    most_steps_ = std::max(most_steps_, steps);
    return result;
  }
  most_steps_ = kMostSteps;
  return {Code::kMakingRoom, 0, Slot()};
}

absl::string_view RoomProbe::ValueOf(uint64_t number, uint64_t value_bytes) const {
  return {pattern_.data() + (number * 0x9e3779b97f4a7c15) % kPlaces, value_bytes};
}

Code RoomProbe::Put(uint64_t number, uint64_t value_bytes, Condition condition, uint64_t version) {
  const absl::string_view key(reinterpret_cast<const char*>(&number), kKeyBytes);
  const uint64_t hash = table_->HashOf(key);
  const absl::string_view value = ValueOf(number, value_bytes);
  return Repeat([&] { return table_->Put(hash, key, value, condition, version, now_ns_); }).code;
}

Code RoomProbe::PutNew(uint64_t value_bytes) {
  const uint64_t number = lengths_.size();
  const Code code = Put(number, value_bytes, Condition::kAbsent, 0);
  if (code != Code::kOk) return code;
  lengths_.push_back(static_cast<uint32_t>(value_bytes));
  ++alive_;
  item_bytes_ += ItemBytesOf(value_bytes);
  return code;
}

Code RoomProbe::PutKey(absl::string_view key) {
  const uint64_t hash = table_->HashOf(key);
  return Repeat([&] { return table_->Put(hash, key, "", Condition::kAlways, 0, now_ns_); }).code;
}

Code RoomProbe::DeleteKey(absl::string_view key) {
  return Repeat([&] { return table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_ns_); }).code;
}

uint64_t RoomProbe::Fill(Mix mix) {
  const uint64_t before = item_bytes_;
  while (PutNew(Draw(mix, region_bytes_, &random_)) == Code::kOk) {
  }
  return item_bytes_ - before;
}

uint64_t RoomProbe::Choose() {
  while (true) {
    const uint64_t number = oldest_ + random_() % (lengths_.size() - oldest_);
    if (lengths_[number] != kDead) return number;
  }
}

uint64_t RoomProbe::Overwrite(uint64_t count) {
  uint64_t succeeded = 0;
  for (uint64_t i = 0; i < count && alive_ > 0; ++i) {
    const uint64_t number = Choose();
    Condition condition = Condition::kAlways;
    uint64_t version = 0;
    if (i % 2 == 1) {
      const absl::string_view key(reinterpret_cast<const char*>(&number), kKeyBytes);
      ItemView item;
      version = table_->Get(table_->HashOf(key), key, &item).version;
      condition = Condition::kVersion;
    }
    if (Put(number, lengths_[number], condition, version) == Code::kOk) ++succeeded;
  }
  return succeeded;
}

uint64_t RoomProbe::OverwriteShorter(uint64_t count) {
  uint64_t succeeded = 0;
  for (uint64_t i = 0; i < count && alive_ > 0; ++i) {
    const uint64_t number = Choose(), old_bytes = lengths_[number], bytes = old_bytes - old_bytes / 8;
    if (Put(number, bytes, Condition::kAlways, 0) != Code::kOk) continue;
    ++succeeded;
    lengths_[number] = static_cast<uint32_t>(bytes);
    item_bytes_ -= old_bytes - bytes;
  }
  return succeeded;
}

uint64_t RoomProbe::Forget(uint64_t number) {
  const absl::string_view key(reinterpret_cast<const char*>(&number), kKeyBytes);
  if (DeleteKey(key) != Code::kOk) return 0;
  const uint64_t bytes = ItemBytesOf(lengths_[number]);
  lengths_[number] = kDead;
  --alive_;
  item_bytes_ -= bytes;
  return bytes;
}

uint64_t RoomProbe::Delete(double share) {
  uint64_t bytes = 0;
  const auto bound = static_cast<uint64_t>(std::ldexp(share, 32));
  for (uint64_t number = oldest_; number < lengths_.size(); ++number) {
    if (lengths_[number] != kDead && (random_() >> 32) < bound) bytes += Forget(number);
  }
  return bytes;
}

uint64_t RoomProbe::DeleteOldest() {
  while (oldest_ < lengths_.size() && lengths_[oldest_] == kDead) ++oldest_;
  return oldest_ == lengths_.size() ? 0 : Forget(oldest_);
}

void RoomProbe::Rest(int64_t ns) {
  for (int64_t end_ns = now_ns_ + ns; now_ns_ < end_ns; now_ns_ += 10'000'000) {
    for (uint64_t i = 0; i < uint64_t{8} * static_cast<uint64_t>(table_->partitions()); ++i) {
      const uint64_t key = ~random_();
      const absl::string_view absent(reinterpret_cast<const char*>(&key), sizeof key);
      if (PutKey(absent) == Code::kOk) DeleteKey(absent);
    }
  }
}

uint64_t RoomProbe::Damaged() const {
  uint64_t damaged = 0;
  for (uint64_t number = 0; number < lengths_.size(); ++number) {
    const absl::string_view key(reinterpret_cast<const char*>(&number), kKeyBytes);
    ItemView item;
    const Code code = table_->Get(table_->HashOf(key), key, &item).code;
    const bool good = lengths_[number] == kDead ? code == Code::kNotFound
                                                : code == Code::kOk && item.value == ValueOf(number, lengths_[number]);
    if (!good) ++damaged;
  }
  return damaged;
}

double RoomProbe::Share() const {
  return static_cast<double>(item_bytes_ + table_->stats().index_bytes) / static_cast<double>(region_bytes_);
}

absl::StatusOr<RoomFigures> MeasureRoom(absl::Span<char> region, const RoomProbeOptions& options, Mix mix,
                                        uint64_t overwrites) {
  absl::StatusOr<std::unique_ptr<RoomProbe>> created = RoomProbe::Create(region, options);
  if (!created.ok()) return created.status();
  RoomProbe& probe = **created;
  RoomFigures figures;
  probe.Fill(mix);
  figures.items = probe.keys();
  figures.full = probe.Share();
  const auto overwrite = [&](uint64_t count) {
    count = std::min(count, 20 * probe.keys());  // long values are few and slow
    figures.overwrites += count;
    figures.overwritten += probe.Overwrite(count);
  };
  overwrite(overwrites);
  const Mix others[3] = {Mix::kUniform, Mix::kLogUniform, mix};
  for (size_t i = 0; i < 3; ++i) {
    const uint64_t deleted = probe.Delete(0.3);
    figures.refilled[i] =
        static_cast<double>(probe.Fill(others[i])) / static_cast<double>(std::max<uint64_t>(deleted, 1));
    overwrite(overwrites / 4);
  }
  figures.damaged = probe.Damaged();
  while (probe.keys() > figures.items / 1000) probe.DeleteOldest();
  probe.Rest(1'000'000'000);
  figures.nearly_empty = static_cast<double>(probe.table().stats().free_bytes) / static_cast<double>(region.size());
  probe.Fill(mix);
  figures.full_again = probe.Share();
  overwrite(overwrites / 4);
  const uint64_t shorter = std::min(overwrites / 4, 20 * probe.keys());
  figures.overwrites += shorter;
  figures.overwritten += probe.OverwriteShorter(shorter);
  figures.damaged += probe.Damaged();
  figures.most_steps = probe.most_steps();
  const TableStats stats = probe.table().stats();
  figures.moved_per_item =
      static_cast<double>(stats.moved_items) / static_cast<double>(std::max<uint64_t>(stats.puts, 1));
  return figures;
}

double Drift(RoomProbe* probe, double share) {
  constexpr uint64_t kLeast = 64, kMost = 16 << 10;
  const auto most_bytes = static_cast<uint64_t>(share * static_cast<double>(probe->region_bytes()));
  for (int turn = 0; turn < 2; ++turn) {
    for (uint64_t size = kLeast; size <= kMost; size += size / 5) {
      const uint64_t bytes = turn % 2 == 0 ? size : kMost * kLeast / size;
      // A fifth of the memory becomes items of this size and a little less.
      for (uint64_t put = 0; put < most_bytes / 5; put += ItemBytesOf(bytes)) {
        while (probe->item_bytes() + probe->table().stats().index_bytes + ItemBytesOf(bytes) > most_bytes) {
          if (probe->DeleteOldest() == 0) break;
        }
        if (probe->PutNew(bytes - put % 16) != Code::kOk) return probe->Share();
      }
    }
  }
  return 1;
}

}  // namespace farlook::kv
