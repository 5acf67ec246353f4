#include "client/reads/index_mirror.h"

#include <atomic>

namespace farlook::client {
namespace {

// No order is needed: every content is a hint.
void Store(char* at, uint64_t word) {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(word, std::memory_order_relaxed);
}

// Returns the number of the bucket that an image claims to be.
uint32_t NumberOf(kv::BucketInfo info) { return info.word() >> 16 & 0xff; }

}  // namespace

void IndexMirror::Attach(MirrorMemory memory, const kv::Directory* directory) {
  memory_ = std::move(memory);
  directory_ = directory;
  images_ = memory_.data();
  mask_ = memory_.bytes() - 1;
}

char* IndexMirror::PlaceFor(uint32_t segment_id, uint32_t number) const {
  if (char* const image = ImageOf(segment_id, number); image != nullptr) return image;
  char* const first = FirstPlace(segment_id, number);
  char* const second = SecondPlace(segment_id, number);
  // A place without an image has id 0.
  const uint32_t first_id = kv::BucketInfo(kv::LoadWord(first)).segment_id();
  return first_id <= kv::BucketInfo(kv::LoadWord(second)).segment_id() ? first : second;
}

void IndexMirror::Fill(absl::string_view buckets) {
  if (!enabled()) return;
  for (size_t at = 0; at < buckets.size(); at += kv::kBucketBytes) {
    const kv::BucketInfo info(kv::LoadAs<uint64_t>(buckets.data() + at));
    const uint32_t number = NumberOf(info);
    if (!info.Describes(info.segment_id(), number)) continue;  // it was retired
    char* const image = PlaceFor(info.segment_id(), number);
    for (size_t i = 0; i < kv::kBucketBytes; i += 8) {
      Store(image + i, kv::LoadAs<uint64_t>(buckets.data() + at + i));
    }
  }
}

void IndexMirror::Insert(uint64_t hash, kv::Slot slot) {
  if (char* const word = WordOf(hash); word != nullptr) return Store(word, slot.word());
  const uint32_t segment_id = directory_->Find(hash).segment_id();
  const uint32_t number = kv::BucketOf(hash);
  char* const image = PlaceFor(segment_id, number);
  if (!kv::BucketInfo(kv::LoadWord(image)).Describes(segment_id, number)) {
    for (size_t i = 1; i < kv::kWordsPerBucket; ++i) Store(image + 8 * i, 0);
    Store(image, kv::BucketInfo(segment_id, number, /*link=*/0).word());
  }
  // An empty slot, or that of another key, which then costs one more READ.
  size_t at = 1;
  while (at < kv::kWordsPerBucket && kv::LoadWord(image + 8 * at) != 0) ++at;
  if (at == kv::kWordsPerBucket) at = 1 + slot.fingerprint() % kv::kSlotsPerBucket;
  Store(image + 8 * at, slot.word());
}

void IndexMirror::Erase(uint64_t hash) {
  if (char* const word = WordOf(hash); word != nullptr) Store(word, 0);
}

}  // namespace farlook::client
