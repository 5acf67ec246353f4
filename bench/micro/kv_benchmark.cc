// The cost of kv/'s algorithms over plain memory, without a transport: hash, checksum, lookup, put.
//
//     bazel run --config=opt //bench/micro:kv_benchmark
//
// Lookups are measured with a table that fits the cache (4,096 keys) and one that does not (2^20 keys). Compare the
// latter with the D that speed prints: a lookup has two dependent loads.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/common/key_name.h"
#include "bench/common/random.h"
#include "bench/micro/floor_memory.h"
#include "benchmark/benchmark.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/read/directory.h"
#include "kv/read/lookup.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::bench {
namespace {

constexpr size_t kValueBytes = 100;

std::string Key(int64_t number) {
  std::string key;
  BuildKeyName(number, &key);
  return key;
}

// A table of `keys` keys in plain memory.
class Store {
 public:
  explicit Store(int64_t keys)
      : keys_(keys), memory_(*FloorMemory::Map((size_t{32} << 20) + static_cast<size_t>(keys) * 320, PageSize::k2MiB)) {
    std::memset(memory_.data(), 0, memory_.size());
    kv::TableOptions options;
    options.incarnation = 1;
    options.hash_seed = 2;
    table_ = *kv::Table::Create(absl::MakeSpan(memory_.data(), memory_.size()), options);
    const std::string value(kValueBytes, 'v');
    for (int64_t i = 0; i < keys; ++i) Put(Key(i), value);
  }

  void Put(absl::string_view key, absl::string_view value) {
    const kv::WriteResult result =
        table_->Put(table_->HashOf(key), key, value, kv::Condition::kAlways, 0, /*now_ns=*/0);
    if (result.code != kv::Code::kOk) std::abort();
  }

  int64_t keys() const { return keys_; }
  kv::Table* table() { return table_.get(); }
  absl::string_view region() const { return {memory_.data(), memory_.size()}; }

 private:
  const int64_t keys_;
  FloorMemory memory_;
  std::unique_ptr<kv::Table> table_;
};

// Reads in place, without a copy: there are no concurrent writes.
class Reader {
 public:
  explicit Reader(Store* store) : region_(store->region()), directory_(region_.size(), 1 << 20) {
    kv::Directory::Step step = directory_.Load();
    while (step == kv::Directory::Step::kRead) step = *directory_.Feed(Bytes(directory_.wanted()));
    hasher_ = std::make_unique<kv::Hasher>(directory_.header().hash_seed);
  }

  bool Find(absl::string_view key) {
    const kv::ReaderContext context{hasher_.get(), &directory_, region_.size()};
    kv::Lookup::Step step = lookup_.Start(context, key, (*hasher_)(key));
    while (step == kv::Lookup::Step::kRead) step = lookup_.Feed(Bytes(lookup_.wanted()), /*late=*/false);
    return step == kv::Lookup::Step::kFound;
  }

 private:
  template <class Range>
  absl::string_view Bytes(const Range& range) const {
    return region_.substr(range.offset, range.bytes);
  }

  const absl::string_view region_;
  kv::Directory directory_;
  std::unique_ptr<kv::Hasher> hasher_;
  kv::Lookup lookup_;
};

void BM_HashOfKey(benchmark::State& state) {
  const kv::Hasher hasher(7);
  const std::string key(static_cast<size_t>(state.range(0)), 'k');
  for (auto _ : state) benchmark::DoNotOptimize(hasher(key));
}
BENCHMARK(BM_HashOfKey)->Arg(8)->Arg(23)->Arg(1024);

void BM_Checksum(benchmark::State& state) {
  const kv::Hasher hasher(7);
  const size_t bytes = kv::ItemBytes(23, static_cast<size_t>(state.range(0)));
  const std::vector<char> item(bytes, 'i');
  for (auto _ : state) benchmark::DoNotOptimize(kv::ItemChecksum(hasher, item.data(), bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
BENCHMARK(BM_Checksum)->Arg(100)->Arg(1000)->Arg(1 << 20);

void BM_LookupHit(benchmark::State& state) {
  Store store(state.range(0));
  Reader reader(&store);
  Random random(1);
  std::string key;
  for (auto _ : state) {
    BuildKeyName(static_cast<int64_t>(random.Below(static_cast<uint64_t>(store.keys()))), &key);
    if (!reader.Find(key)) state.SkipWithError("not found");
  }
}
BENCHMARK(BM_LookupHit)->Arg(4096)->Arg(1 << 20);

void BM_LookupMiss(benchmark::State& state) {
  Store store(state.range(0));
  Reader reader(&store);
  Random random(1);
  std::string key;
  for (auto _ : state) {
    BuildKeyName(store.keys() + static_cast<int64_t>(random.Below(1 << 30)), &key);
    if (reader.Find(key)) state.SkipWithError("found");
  }
}
BENCHMARK(BM_LookupMiss)->Arg(4096)->Arg(1 << 20);

void BM_PutOverOld(benchmark::State& state) {
  Store store(state.range(0));
  Random random(1);
  std::string key;
  const std::string value(kValueBytes, 'w');
  for (auto _ : state) {
    BuildKeyName(static_cast<int64_t>(random.Below(static_cast<uint64_t>(store.keys()))), &key);
    store.Put(key, value);
  }
}
BENCHMARK(BM_PutOverOld)->Arg(4096)->Arg(1 << 20);

}  // namespace
}  // namespace farlook::bench
