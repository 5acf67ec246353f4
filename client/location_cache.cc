#include "client/location_cache.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace farlook::client {

void LocationCache::Resize(uint64_t max_bytes) {
  if (enabled()) munmap(lines_, memory_bytes());
  lines_ = nullptr;
  line_count_ = max_bytes / sizeof(Line);
  if (line_count_ == 0) return;
  void* memory = mmap(nullptr, memory_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    line_count_ = 0;  // no memory, no cache
    return;
  }
  lines_ = static_cast<Line*>(memory);
}

LocationCache::~LocationCache() {
  if (enabled()) munmap(lines_, memory_bytes());
}

kv::Slot LocationCache::Find(uint64_t hash) {
  if (!enabled()) return kv::Slot();
  auto& slots = LineOf(hash).slots;
  for (size_t i = 0; i < slots.size() && slots[i] != 0; ++i) {
    const kv::Slot slot(slots[i]);
    if (slot.fingerprint() != kv::FingerprintOf(hash)) continue;
    if (i > 0) std::swap(slots[i], slots[i - 1]);
    return slot;
  }
  return kv::Slot();
}

void LocationCache::Insert(uint64_t hash, kv::Slot slot) {
  if (!enabled()) return;
  auto& slots = LineOf(hash).slots;
  size_t at = 0;
  while (at < slots.size() - 1 && slots[at] != 0 && kv::Slot(slots[at]).fingerprint() != slot.fingerprint()) ++at;
  for (; at > 0; --at) slots[at] = slots[at - 1];
  slots[0] = slot.word();
}

void LocationCache::Erase(uint64_t hash) {
  if (!enabled()) return;
  auto& slots = LineOf(hash).slots;
  size_t at = 0;
  while (at < slots.size() && kv::Slot(slots[at]).fingerprint() != kv::FingerprintOf(hash)) ++at;
  if (at == slots.size()) return;
  for (; at + 1 < slots.size(); ++at) slots[at] = slots[at + 1];
  slots.back() = 0;
}

void LocationCache::Clear() {
  if (!enabled()) return;
  // Gives the pages back; they are zero when touched again. Of a process that locks its memory they cannot be given
  // back.
  if (madvise(lines_, memory_bytes(), MADV_DONTNEED) != 0) {
    std::memset(static_cast<void*>(lines_), 0, memory_bytes());
  }
}

}  // namespace farlook::client
