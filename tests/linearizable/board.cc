#include "tests/linearizable/board.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace farlook {
namespace {

void* MapShared(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace

Board::Board() : shared_(static_cast<Shared*>(MapShared(sizeof(Shared)))) {}

Board::~Board() { munmap(shared_, sizeof(Shared)); }

Board::Entry* Board::Begin(int lane, int key, const history::Operation& operation) {
  Lane& mine = shared_->lanes[static_cast<size_t>(lane)];
  const uint32_t place = mine.begun.load(std::memory_order_relaxed);
  if (place == kEntries) return nullptr;
  Entry& entry = mine.entries[place];
  entry.operation = operation;
  entry.operation.client = lane;
  entry.operation.begin_ns = HostNowNs();
  entry.key = key;
  mine.begun.store(place + 1, std::memory_order_release);
  return &entry;
}

void Board::End(Entry* entry, const history::Operation& operation) {
  history::Operation ended = operation;
  ended.outcome = history::Outcome::kPending;
  entry->operation = ended;
  std::atomic_ref<history::Outcome>(entry->operation.outcome).store(operation.outcome, std::memory_order_release);
}

uint64_t Board::NewWrite(int key) {
  const uint64_t write = shared_->writes.fetch_add(1) + 1;
  if (write >= kMaxWrites) return 0;
  shared_->key_of[write] = static_cast<int8_t>(key + 1);
  return write;
}

bool Board::IsOf(uint64_t write, int key) const {
  return write > 0 && write < kMaxWrites && shared_->key_of[write] == key + 1;
}

void Board::Violate(const std::string& what) {
  if (!shared_->violated.exchange(true)) std::snprintf(shared_->violation.data(), 500, "%s", what.c_str());
}

std::string Board::violation() const { return shared_->violation.data(); }

size_t Board::begun() const {
  size_t count = 0;
  for (const Lane& lane : shared_->lanes) count += lane.begun.load(std::memory_order_relaxed);
  return count;
}

std::vector<history::KeyHistory> Board::Histories() const {
  std::vector<history::KeyHistory> histories(kKeys);
  for (const Lane& lane : shared_->lanes) {
    const uint32_t begun = lane.begun.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < begun; ++i) {
      histories[static_cast<size_t>(lane.entries[i].key)].push_back(lane.entries[i].operation);
    }
  }
  return histories;
}

int64_t HostNowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace farlook
