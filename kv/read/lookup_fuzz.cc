// Lookups over a small table whose memory is damaged, before and between the fetches. They must stay inside the region,
// end after a bounded number of steps, and never find another value than the key's.
//
// Input, 4 bytes each: what to store (see Damage), where, which value, when. The damage is undone afterwards.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kv/layout/item.h"
#include "kv/layout/region.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/read/lookup.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kBytes = 16 << 20;
constexpr int kKeys = 40;

void Check(bool holds) {
  if (!holds) std::abort();
}

std::string KeyOf(int i) { return absl::StrCat("key", i); }
std::string ValueOf(int i) { return std::string(static_cast<size_t>(i) * 7, static_cast<char>('a' + i % 26)); }

class Fuzzer {
 public:
  Fuzzer() : memory_(kBytes) {
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    table_ = *Table::Create(memory_.span(), options);
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = KeyOf(i);
      slots_.push_back(table_->Put(table_->HashOf(key), key, ValueOf(i), Condition::kAlways, 0, 0).slot);
    }
  }

  void Run(absl::string_view input) {
    input_ = input;
    Directory directory(kBytes, 256);
    if (!Refresh(&directory, directory.Load())) return;
    for (int i = 0; i < kKeys; i += 3) Get(&directory, i);
    Get(&directory, kKeys);  // absent
    while (!undo_.empty()) {
      StoreWord(region() + undo_.back().first, undo_.back().second);
      undo_.pop_back();
    }
  }

 private:
  char* region() { return memory_.span().data(); }

  uint8_t Next() {
    if (input_.empty()) return 0;
    const uint8_t byte = static_cast<uint8_t>(input_[0]);
    input_.remove_prefix(1);
    return byte;
  }

  void Store(uint64_t offset, uint64_t word) {
    offset = offset % kBytes / 8 * 8;
    undo_.emplace_back(offset, LoadWord(region() + offset));
    StoreWord(region() + offset, word);
  }

  // Damages memory that the lookup of key `i` is about to READ.
  void Damage(int i) {
    if (input_.size() < 4 || undo_.size() > 200) return;
    const uint8_t what = Next(), where = Next(), value = Next(), when = Next();
    if (when % 4 == 3) return;
    const std::string key = KeyOf(i);
    const uint64_t hash = table_->HashOf(key);
    RegionHeader header;
    const uint64_t entry_at = header.DirectoryArray(3) + 8 * (PositionOf(hash) >> 61);
    const DirectoryEntry entry(LoadWord(region() + entry_at));
    const uint64_t bucket = entry.offset() + BucketOf(hash) * kBucketBytes;
    const Slot slot = slots_[static_cast<size_t>(i) % slots_.size()];
    const uint64_t old = LoadWord(region() + (bucket + where % 16 * 8) % kBytes / 8 * 8);
    switch (what % 12) {
      case 0:  // the header
        return Store(where % 8 * 8, LoadWord(region() + where % 8 * 8) ^ 1ull << value % 64);
      case 1:  // the level
        return Store(kIndexStateOffset, value % 16);
      case 2:
        return Store(entry_at, entry.word() ^ 1ull << value % 64);
      case 3:
        return Store(entry_at, value < 128 ? 0 : ~0ull << where % 64);
      case 4:  // a description or a slot
        return Store(bucket + where % 16 * 8, old ^ 1ull << value % 64);
      case 5:  // a link
        return Store(bucket, BucketInfo(entry.segment_id(), BucketOf(hash), value % 32).word());
      case 6:  // an overflow bucket that describes itself
        return Store(entry.offset() + LinkedBucket(1 + where % 16) * kBucketBytes,
                     BucketInfo(entry.segment_id(), LinkedBucket(1 + where % 16), value % 32).word());
      case 7:  // a slot that matches and leads anywhere
        return Store(
            bucket + (1 + where % 15) * 8,
            Slot(FingerprintOf(hash), value, uint64_t{value} * 65537 * kGranuleBytes % kMaxRegionBytes).word());
      case 8:  // a slot that leads to another key's item
        return Store(bucket + (1 + where % 15) * 8,
                     uint64_t{FingerprintOf(hash)} << 48 | (slots_[value % slots_.size()].word() & ~0ull >> 16));
      case 9:  // the item
        return Store(slot.offset() + where % 16 * 8,
                     LoadWord(region() + slot.offset() + where % 16 * 8) ^ 1ull << value % 64);
      case 10:  // its lengths
        return Store(slot.offset() + kLengthsOffset, uint64_t{where} << 8 | uint64_t{value} << 24);
      default:  // anywhere
        return Store(uint64_t{where} * 65'536 + uint64_t{value} * 256, ~0ull / 255 * value);
    }
  }

  absl::string_view Fetch(const Range& range) {
    Check(range.bytes > 0 && range.bytes <= kBytes && range.offset <= kBytes - range.bytes);
    // Exactly this size, so that asan sees each overrun.
    buffer_ = std::make_unique<char[]>(range.bytes);
    std::memcpy(buffer_.get(), region() + range.offset, range.bytes);
    return {buffer_.get(), range.bytes};
  }

  bool Refresh(Directory* directory, Directory::Step step) {
    for (int steps = 0; step == Directory::Step::kRead; ++steps) {
      Check(steps < 2 + (8 << kMaxLevel) / 256);
      auto next = directory->Feed(Fetch(directory->wanted()));
      if (!next.ok()) return false;
      step = *next;
    }
    return true;
  }

  void Get(Directory* directory, int i) {
    const std::string key = KeyOf(i);
    const ReaderContext context{&table_->hasher(), directory, kBytes};
    const uint8_t hint = Next();
    const Slot cached = hint % 4 == 0   ? slots_[hint % slots_.size()]
                        : hint % 4 == 1 ? Slot(~0ull / 255 * hint << hint % 8)
                                        : Slot();
    Lookup::Step step = lookup_.Start(context, key, table_->HashOf(key), cached);
    for (int steps = 0;; ++steps) {
      Check(steps < 2 + Lookup::kMaxRounds * 2 * static_cast<int>(kWordsPerBucket + 1));
      switch (step) {
        case Lookup::Step::kRead: {
          Damage(i);
          const bool late = lookup_.wants_item() ? false : Next() % 16 == 1;
          const absl::string_view bytes = Fetch(lookup_.wanted());
          const size_t head = lookup_.item_head_bytes();
          const bool split = hint % 8 < 4 && lookup_.wants_item() && bytes.size() > head;
          step = split ? lookup_.Feed(bytes.substr(0, head), late, bytes.substr(head)) : lookup_.Feed(bytes, late);
          break;
        }
        case Lookup::Step::kRefresh:
          if (!Refresh(directory, directory->Refresh(lookup_.hash(), lookup_.stale_entry()))) return;
          step = lookup_.Resume();
          break;
        case Lookup::Step::kFound:
          Check(i < kKeys && lookup_.item().value == ValueOf(i));
          return;
        default:
          return;
      }
    }
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
  std::vector<Slot> slots_;
  absl::string_view input_;
  std::vector<std::pair<uint64_t, uint64_t>> undo_;
  std::unique_ptr<char[]> buffer_;
  Lookup lookup_;
};

}  // namespace
}  // namespace farlook::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& fuzzer = *new farlook::kv::Fuzzer;
  fuzzer.Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
