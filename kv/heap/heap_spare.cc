// The heap's spare: see spare.h.
#include "kv/heap/heap.h"

namespace farlook::kv {

uint64_t Heap::SpareGrowth(uint64_t bytes) const {
  const uint64_t wanted = std::min(UnitsFor(bytes), most_spare_), units = spare_units_.value();
  return wanted > units ? wanted - units : 0;
}

bool Heap::ProvideSpare(uint64_t bytes) {
  const uint64_t wanted = std::min(UnitsFor(bytes), most_spare_);
  if (wanted <= spare_.units) return true;
  if (SpareStays()) return false;
  const uint64_t aside = aside_units_.value();
  if (aside > 0 && units_.free() + spare_.units < wanted + floor_ + aside) return false;
  if (spare_.units > 0) units_.Give(spare_.first, spare_.units);
  const uint64_t first = units_.TakeRun(wanted);
  if (first == 0) {
    if (spare_.units > 0) units_.Take(spare_.first, spare_.units);
    return false;
  }
  for (uint64_t i = 0; i < spare_.units; ++i) loads_[spare_.first + i].Set(0);
  for (uint64_t i = 0; i < wanted; ++i) loads_[first + i].Set(UnitLoad::kStays);
  spare_.first = first;
  spare_.units = wanted;
  spare_units_ = wanted;
  free_units_ = units_.free();
  return true;
}

bool Heap::HasUnitsFor(uint64_t units) {
  const uint64_t growth = SpareGrowth(units * kUnitBytes);
  if (units_.free() < growth + units + Leaves(Claim::kNewKey, growth)) return false;
  if (growth == 0) return units_.longest_run() >= units;
  if (SpareStays()) return false;
  // Does what ProvideSpare() would do, and undoes it.
  const uint64_t wanted = spare_.units + growth;
  if (spare_.units > 0) units_.Give(spare_.first, spare_.units);
  const uint64_t first = units_.TakeRun(wanted);
  const bool has = first != 0 && units_.longest_run() >= units;
  if (first != 0) units_.Give(first, wanted);
  if (spare_.units > 0) units_.Take(spare_.first, spare_.units);
  return has;
}

uint64_t Heap::LongestPiece(uint64_t most_bytes) {
  absl::MutexLock lock(&mutex_);
  uint64_t fits = 0, too_many = UnitsFor(most_bytes);  // units
  if (HasUnitsFor(too_many)) return most_bytes;
  while (too_many - fits > 1) {
    const uint64_t units = fits + (too_many - fits) / 2;
    (HasUnitsFor(units) ? fits : too_many) = units;
  }
  return fits * kUnitBytes;
}

uint64_t Heap::LongestCopy(uint64_t units) {
  absl::MutexLock lock(&mutex_);
  const uint64_t most = std::min(units, units_.longest_run());
  if (most <= spare_.units) return most * kUnitBytes;
  // The spare grows to the same length, up to its limit.
  const uint64_t limited = most + spare_.units - std::min(most + spare_.units, most_spare_);
  return std::max((most + spare_.units) / 2, limited) * kUnitBytes;
}

void Heap::TrimSpare() {
  if (spare_.lent()) return;
  const uint64_t wanted = std::min(UnitsFor(long_pieces_.longest_bytes()), most_spare_);
  if (wanted >= spare_.units) return;
  GiveUnits(spare_.first + wanted, spare_.units - wanted);
  spare_.units = wanted;
  spare_units_ = wanted;
}

uint64_t Heap::Lend(int partition, uint64_t bytes) {
  const uint64_t units = UnitsFor(bytes);
  absl::MutexLock lock(&mutex_);
  if (spare_.lent() || spare_.units < units) return 0;
  SetUse(spare_.first, units,
         MapWord(MapWord::Use::kItems, static_cast<uint8_t>(BlockKind::kRun), static_cast<uint8_t>(partition),
                 static_cast<uint32_t>(units)),
         UnitLoad::kStays);
  spare_.lent_bytes = bytes;
  spare_.owner = partition;
  spare_.home = spare_.copied = 0;
  lent_unit_ = spare_.first;
  return spare_.offset();
}

void Heap::KeepHome(uint64_t home) {
  Pin(home);
  absl::MutexLock lock(&mutex_);
  spare_.home = home;
  spare_.copied = 0;
  spare_homes_ = 1;
  if (block_of_[home / kUnitBytes] != nullptr || UnitsFor(spare_.lent_bytes) != spare_.units) return;
  // The home consists of separate units, as long as the spare: they become the spare, and the item stays.
  spare_.first = home / kUnitBytes;
  EndLoan();
}

// REQUIRES all of the spare's units are free and belong only to the spare.
void Heap::EndLoan() {
  SetUse(spare_.first, spare_.units, MapWord(), UnitLoad::kStays);
  spare_.lent_bytes = spare_.home = 0;
  lent_unit_ = 0;
  spare_homes_ = 0;
  TrimSpare();
}

void Heap::FreeLent(int partition, uint64_t bytes) {
  uint64_t home;
  {
    absl::MutexLock lock(&mutex_);
    home = spare_.home;
    EndLoan();
  }
  if (home == 0) return;
  Unpin(home);
  Free(partition, home, bytes);
}

}  // namespace farlook::kv
