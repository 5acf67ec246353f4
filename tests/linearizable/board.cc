#include "tests/linearizable/board.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace farlook {
namespace {

void* MapShared(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace

Board::Board(int host) : host_(static_cast<uint64_t>(host)), shared_(static_cast<Shared*>(MapShared(sizeof(Shared)))) {}

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
  // 0 means none, so no host numbers from there.
  const uint64_t count = shared_->writes.fetch_add(1) + 1;
  const uint64_t write = (count * kHosts + host_) * kKeys + static_cast<uint64_t>(key);
  return write < kMaxWrites ? write : 0;
}

bool Board::IsOf(uint64_t write, int key) {
  return write >= kHosts * kKeys && write < kMaxWrites && write % kKeys == static_cast<uint64_t>(key);
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
  for (const Entry& entry : merged_) histories[static_cast<size_t>(entry.key)].push_back(entry.operation);
  return histories;
}

// All hosts run the same program.
bool Board::Write(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file.write(shared_->violation.data(), static_cast<std::streamsize>(shared_->violation.size()));
  for (const Lane& lane : shared_->lanes) {
    const uint32_t begun = lane.begun.load(std::memory_order_acquire);
    file.write(reinterpret_cast<const char*>(lane.entries.data()), begun * std::streamsize{sizeof(Entry)});
  }
  file.close();
  return file.good();
}

bool Board::Merge(const std::string& path, int host, const std::function<int64_t(int64_t)>& earliest,
                  const std::function<int64_t(int64_t)>& latest) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, sizeof shared_->violation> violation{};
  if (!file.read(violation.data(), violation.size())) return false;
  if (violation[0] != '\0') Violate(violation.data());
  Entry entry;
  while (file.read(reinterpret_cast<char*>(&entry), sizeof entry)) {
    entry.operation.client += host * kLanes;
    entry.operation.begin_ns = earliest(entry.operation.begin_ns);
    if (entry.operation.end_ns != history::kNever) entry.operation.end_ns = latest(entry.operation.end_ns);
    merged_.push_back(entry);
  }
  return file.eof() && file.gcount() == 0 && !merged_.empty();
}

int64_t HostNowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace farlook
