// `-db floor`: what the machine itself takes for a read and a write of this size: no store can take less.
//
// A read is two dependent loads from memory and a copy: a line of an index, found by the key's hash, names the record's
// place; the record is copied out. Nothing is compared but 31 bits of the hash, nothing checked, locked, versioned or
// freed. A batch begins the loads of all its reads before it copies the first. A write is a copy into the record's
// place; one that is longer than the record before gets another place.
//
// It is right for one thread, and for many that read or insert. A read beside a write of the same record may see half
// of each.
//
// Properties (defaults):
//     floor.keys  most records (2 x recordcount; it sizes the index)
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/record.h"
#include "kv/layout/hash.h"

namespace farlook::bench {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kWordsPerLine = kLineBytes / sizeof(uint64_t);
// Reserved, not used: memory is taken as records are written.
constexpr size_t kRecordBytes = size_t{1} << 38;

// Zeroed memory that is allocated on first touch, in huge pages if the kernel has some.
class LazyMemory {
 public:
  explicit LazyMemory(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (mapped()) madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~LazyMemory() {
    if (mapped()) munmap(data_, bytes_);
  }
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;

  bool mapped() const { return data_ != MAP_FAILED; }
  size_t size() const { return bytes_; }
  char* data() const { return data_; }

 private:
  const size_t bytes_;
  char* const data_;
};

// The index's entry for a record, 0 if there is none:
//
//     63                    33 32                     0
//     | bits 63..33 of hash    | line of the record + 1 |
struct Place {
  static constexpr int kLineBits = 33;
  static constexpr uint64_t kLineMask = (uint64_t{1} << kLineBits) - 1;
  static_assert(kRecordBytes / kLineBytes < kLineMask, "every line of the records has a number");

  static uint64_t Pack(uint64_t hash, uint64_t line) { return (hash & ~kLineMask) | (line + 1); }
  static bool Matches(uint64_t word, uint64_t hash) { return word != 0 && ((word ^ hash) & ~kLineMask) == 0; }
  static uint64_t Line(uint64_t word) { return (word & kLineMask) - 1; }
};

// A record begins with its length and the capacity of its place, both of 32 bits.
struct Header {
  uint32_t bytes;
  uint32_t room;
};

class FloorTable {
 public:
  explicit FloorTable(uint64_t keys)
      : lines_(std::bit_ceil(keys) / 2), index_(lines_ * kLineBytes), records_(kRecordBytes) {}

  bool mapped() const { return index_.mapped() && records_.mapped(); }
  uint64_t HashOf(absl::string_view key) const { return hasher_(key); }

  void PrefetchIndex(uint64_t hash) const { __builtin_prefetch(Words() + FirstWord(hash)); }
  void PrefetchRecord(const char* record, size_t bytes) const {
    for (size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(record + at);
  }

  // Null if there is none.
  char* Find(uint64_t hash) const {
    const std::atomic<uint64_t>* at = WordOf(hash);
    const uint64_t word = at == nullptr ? 0 : at->load(std::memory_order_acquire);
    return Place::Matches(word, hash) ? RecordAt(word) : nullptr;
  }

  static absl::string_view Bytes(const char* record) {
    Header header;
    std::memcpy(&header, record, sizeof(header));
    return {record + sizeof(header), header.bytes};
  }

  // Returns false if the reserved memory is full, or the index around the key's line.
  bool Put(uint64_t hash, absl::string_view bytes) {
    const uint64_t lines = (sizeof(Header) + bytes.size() + kLineBytes - 1) / kLineBytes;
    uint64_t fresh = 0;  // the place for the new record, once it is written
    while (std::atomic<uint64_t>* word = WordOf(hash)) {
      uint64_t old = word->load(std::memory_order_acquire);
      if (Place::Matches(old, hash) && Overwrite(RecordAt(old), bytes)) return true;
      if (old != 0 && !Place::Matches(old, hash)) continue;  // another thread was faster
      if (fresh == 0) {
        const uint64_t line = next_line_.fetch_add(lines, std::memory_order_relaxed);
        if ((line + lines) * kLineBytes > records_.size()) return false;
        fresh = Place::Pack(hash, line);
        Write(RecordAt(fresh), bytes, static_cast<uint32_t>(lines * kLineBytes - sizeof(Header)));
      }
      // Pairs with the acquires here and in Find(): a thread that finds the place sees the record.
      if (word->compare_exchange_strong(old, fresh, std::memory_order_release, std::memory_order_relaxed)) return true;
    }
    return false;
  }

 private:
  char* RecordAt(uint64_t word) const { return records_.data() + Place::Line(word) * kLineBytes; }

  static bool Overwrite(char* record, absl::string_view bytes) {
    Header header;
    std::memcpy(&header, record, sizeof(header));
    if (bytes.size() <= header.room) Write(record, bytes, header.room);
    return bytes.size() <= header.room;
  }

  static void Write(char* record, absl::string_view bytes, uint32_t room) {
    const Header header = {static_cast<uint32_t>(bytes.size()), room};
    std::memcpy(record, &header, sizeof(header));
    std::memcpy(record + sizeof(header), bytes.data(), bytes.size());
  }

  std::atomic<uint64_t>* Words() const { return reinterpret_cast<std::atomic<uint64_t>*>(index_.data()); }
  size_t FirstWord(uint64_t hash) const { return (hash & (lines_ - 1)) * kWordsPerLine; }

  // The word of the hash, or the first free one, from its line on; null if there is none near.
  std::atomic<uint64_t>* WordOf(uint64_t hash) const {
    constexpr size_t kMostProbes = 64;
    const size_t first = FirstWord(hash), mask = lines_ * kWordsPerLine - 1;
    for (size_t i = 0; i < kMostProbes; ++i) {
      std::atomic<uint64_t>* at = Words() + ((first + i) & mask);
      const uint64_t word = at->load(std::memory_order_relaxed);
      if (word == 0 || Place::Matches(word, hash)) return at;
    }
    return nullptr;
  }

  const kv::Hasher hasher_{7};
  const uint64_t lines_;  // of the index; a power of 2
  const LazyMemory index_;
  const LazyMemory records_;
  std::atomic<uint64_t> next_line_{0};
};

class FloorDb : public Db {
 public:
  FloorDb(FloorTable* table, size_t batch) : table_(table), hashes_(batch), found_(batch) {}

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    return result->status = Copy(table_->Find(table_->HashOf(key)), result);
  }

  void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) override {
    constexpr size_t kPrefetchBytes = 256;  // the processor fetches the rest by itself
    for (size_t i = 0; i < keys.size(); ++i) {
      hashes_[i] = table_->HashOf(keys[i]);
      table_->PrefetchIndex(hashes_[i]);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      found_[i] = table_->Find(hashes_[i]);
      if (found_[i] != nullptr) table_->PrefetchRecord(found_[i], kPrefetchBytes);
    }
    for (size_t i = 0; i < keys.size(); ++i) results[i].status = Copy(found_[i], &results[i]);
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override { return Put(table_->HashOf(key), record); }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    const uint64_t hash = table_->HashOf(key);
    return table_->Find(hash) == nullptr ? Missing() : Put(hash, record);
  }

  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult*) override {
    const uint64_t hash = table_->HashOf(key);
    const char* record = table_->Find(hash);
    if (record == nullptr) return Missing();
    if (PatchRecord(FloorTable::Bytes(record), writes, &patched_)) return Put(hash, patched_);
    error_ = absl::StrCat("the record of ", key, " has no such field");
    return DbStatus::kUnexpectedState;
  }

  std::string last_error() const override { return error_; }

 private:
  DbStatus Copy(const char* record, ReadResult* result) {
    if (record == nullptr) return Missing();
    const absl::string_view bytes = FloorTable::Bytes(record);
    result->buffer.assign(bytes.data(), bytes.size());
    result->record = result->buffer;
    return DbStatus::kOk;
  }

  DbStatus Put(uint64_t hash, absl::string_view record) {
    if (table_->Put(hash, record)) return DbStatus::kOk;
    error_ = "the floor's index is full: more floor.keys";
    return DbStatus::kNoSpace;
  }

  DbStatus Missing() {
    error_ = "no such record";
    return DbStatus::kNotFound;
  }

  FloorTable* const table_;
  std::vector<uint64_t> hashes_;
  std::vector<const char*> found_;
  std::string patched_;
  std::string error_;
};

class FloorBackend : public DbBackend {
 public:
  explicit FloorBackend(uint64_t keys) : table_(keys) {}

  bool mapped() const { return table_.mapped(); }

  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions& connect) override {
    return std::make_unique<FloorDb>(&table_, connect.batch);
  }

 private:
  FloorTable table_;
};

absl::StatusOr<std::unique_ptr<DbBackend>> Open(PropertyReader* reader) {
  const int64_t records = reader->Int("recordcount", 0, 0);
  const int64_t keys = reader->Int("floor.keys", std::max<int64_t>(int64_t{1} << 12, 2 * records), 1, int64_t{1} << 34);
  if (!reader->status().ok()) return reader->status();
  auto backend = std::make_unique<FloorBackend>(static_cast<uint64_t>(keys));
  if (!backend->mapped()) return absl::ResourceExhaustedError("cannot reserve memory for the floor");
  return backend;
}

}  // namespace

void RegisterFloorDb(DbRegistry* registry) {
  registry->Add("floor", DbEntry{.help = "bare loads and copies in this process (give -load and -t together); also\n"
                                         "                                   floor.keys (2 x recordcount)",
                                 .in_process = true,
                                 .open = Open});
}

}  // namespace farlook::bench
