// A sequence of operations on a table in a tiny region, compared with a std::map.
//
// Input, 4 bytes for each operation: which, key, value's size, its contents.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kv/layout/limits.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// Short and long keys, of which many are prefixes of others.
std::string KeyOf(uint8_t n) {
  const size_t bytes = n % 8 == 7 ? 1 + size_t{n} * 4 : 1 + n % 8;
  return std::string(bytes, static_cast<char>('a' + n / 32));
}

size_t BytesOf(uint8_t n) {
  if (n < 128) return n;
  if (n < 240) return size_t{n} * 37;  // above and below the length that is assembled in private memory
  return size_t{n - 239u} * 300'000;
}

void Fuzz(const uint8_t* data, size_t size) {
  TestMemory memory(kMinRegionBytes);
  TableOptions options;
  options.incarnation = 7;
  options.hash_seed = 42;
  options.partitions = size % 2 == 0 ? 1 : 4;
  options.max_value_bytes = 4'000'000;
  const auto table = *Table::Create(memory.span(), options);
  TestReader reader(memory.span());
  struct Held {
    std::string value;
    uint64_t version;
  };
  std::map<std::string, Held> model;
  int64_t now = 1;
  for (size_t at = 0; at + 4 <= size && at < 4'000; at += 4) {
    const uint8_t what = data[at];
    const std::string key = KeyOf(data[at + 1]);
    const uint64_t hash = table->HashOf(key);
    const std::string value(BytesOf(data[at + 2]), static_cast<char>(data[at + 3]));
    const auto held = model.find(key);
    const uint64_t version = held == model.end() ? 99 : held->second.version ^ (what >= 128 ? 1 : 0);
    const Condition condition = static_cast<Condition>(what % 4);
    Code expected = Code::kOk;
    if (held == model.end()) {
      if (condition >= Condition::kPresent) expected = Code::kNotFound;
    } else if (condition == Condition::kAbsent) {
      expected = Code::kExists;
    } else if (condition == Condition::kVersion && version != held->second.version) {
      expected = Code::kVersionMismatch;
    }
    now += 1'000'000;
    WriteResult result;
    switch (what / 4 % 4) {
      case 0:
      case 1:
        do {
          result = table->Put(hash, key, value, condition, version, now);
        } while (result.code == Code::kMakingRoom);
        break;
      case 2: {
        Reservation reservation;
        do {
          result.code = table->Reserve(hash, key, value.size(), &reservation, now);
        } while (result.code == Code::kMakingRoom);
        if (result.code != Code::kOk) break;
        StoreBytes(reservation.value.data(), value.data(), value.size());
        if (data[at + 3] % 8 == 0) {
          table->Abandon(reservation);
          continue;
        }
        do {
          result = table->Publish(reservation, condition, version, now);
        } while (result.code == Code::kMakingRoom);
        break;
      }
      case 3:
        if (held == model.end()) expected = Code::kNotFound;
        if (held != model.end() && condition == Condition::kAbsent) expected = Code::kOk;
        result = table->Delete(hash, key, condition, version, now);
        Check(result.code == expected);
        if (result.code == Code::kOk) model.erase(key);
        break;
    }
    if (what / 4 % 4 != 3) {
      if (result.code == Code::kOk) {
        Check(expected == Code::kOk);
        if (held != model.end()) Check(result.version > held->second.version);
        model[key] = {value, result.version};
      } else {
        const bool too_large = value.size() > options.max_value_bytes;
        Check(result.code == expected || result.code == (too_large ? Code::kTooLarge : Code::kNoMemory));
      }
    }
    const auto now_held = model.find(key);
    const auto read = reader.Get(key, result.slot);
    Check(read.has_value() == (now_held != model.end()));
    if (read) Check(*read == now_held->second.value && reader.lookup().item().version == now_held->second.version);
  }
  uint64_t bytes = 0;
  for (const auto& [key, held] : model) {
    Check(reader.Get(key) == held.value);
    bytes += held.value.size();
  }
  const TableStats stats = table->stats();
  Check(stats.keys == model.size() && stats.value_bytes == bytes);
  Check(reader.gave_up() == 0);
  // All memory is freed.
  for (const auto& [key, held] : model) {
    Check(table->Delete(table->HashOf(key), key, Condition::kAlways, 0, now).code == Code::kOk);
  }
  const TableStats empty = table->stats();
  Check(empty.keys == 0 && empty.key_bytes == 0 && empty.value_bytes == 0);
  Check(empty.used_bytes == 0);
  Check(empty.free_bytes + empty.index_bytes + empty.overhead_bytes >= empty.region_bytes);
}

}  // namespace
}  // namespace farlook::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farlook::kv::Fuzz(data, size);
  return 0;
}
