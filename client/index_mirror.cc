#include "client/index_mirror.h"

#include <atomic>

namespace farlook::client {
namespace {

// Nobody relies on an order: what is found is a hint, whatever was stored before it.
void Store(char* at, uint64_t word) {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(word, std::memory_order_relaxed);
}

}  // namespace

void IndexMirror::Attach(MirrorMemory memory, const kv::Directory* directory) {
  memory_ = std::move(memory);
  directory_ = directory;
  images_ = memory_.data();
  mask_ = memory_.bytes() - 1;
}

void IndexMirror::Fill(uint64_t offset, absl::string_view buckets) {
  if (!enabled()) return;
  for (size_t at = 0; at < buckets.size(); at += kv::kBucketBytes) {
    char* const image = ImageAt(offset + at);
    for (size_t i = 0; i < kv::kBucketBytes; i += 8) {
      Store(image + i, kv::LoadAs<uint64_t>(buckets.data() + at + i));
    }
  }
}

void IndexMirror::Insert(uint64_t hash, kv::Slot slot) {
  if (char* const word = WordOf(hash); word != nullptr) return Store(word, slot.word());
  const kv::DirectoryEntry entry = directory_->Find(hash);
  const uint32_t number = kv::BucketOf(hash);
  char* const image = ImageOf(entry, number);
  if (!kv::BucketInfo(kv::LoadWord(image)).Describes(entry.segment_id(), number)) {
    for (size_t i = 1; i < kv::kWordsPerBucket; ++i) Store(image + 8 * i, 0);
    Store(image, kv::BucketInfo(entry.segment_id(), number, /*link=*/0).word());
  }
  // An empty place, or that of another key, which then costs a READ more.
  size_t at = 1;
  while (at < kv::kWordsPerBucket && kv::LoadWord(image + 8 * at) != 0) ++at;
  if (at == kv::kWordsPerBucket) at = 1 + slot.fingerprint() % kv::kSlotsPerBucket;
  Store(image + 8 * at, slot.word());
}

void IndexMirror::Erase(uint64_t hash) {
  if (char* const word = WordOf(hash); word != nullptr) Store(word, 0);
}

}  // namespace farlook::client
