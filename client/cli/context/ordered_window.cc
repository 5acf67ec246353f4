#include "client/cli/context/ordered_window.h"

#include <algorithm>
#include <utility>

namespace farlook::cli {
namespace {

// The length of a value is unknown until it is read. So the first few gets are limited in number; afterwards the
// largest value seen is assumed for the next ones.
constexpr size_t kFirstGets = 8;

}  // namespace

OrderedWindow::~OrderedWindow() {
  while (in_flight_ > 0) Wait();
}

bool OrderedWindow::HasRoom(size_t bytes) const {
  if (entries_.empty()) return true;
  return entries_.size() < max_pairs_ && held_bytes_ + bytes <= max_bytes_;
}

bool OrderedWindow::CanRead(const std::string& key) const {
  return HasRoom(key.size() + largest_value_bytes_) && (entries_.empty() || entries_.size() < kFirstGets + completed_);
}

OrderedWindow::Entry& OrderedWindow::Add(size_t bytes, uint64_t line) {
  Entry& entry = entries_.emplace_back();
  entry.line = line;
  entry.held_bytes = bytes;
  held_bytes_ += bytes;
  return entry;
}

void OrderedWindow::Start(Entry* entry, AsyncOperation* operation) {
  operation->set_tag(entry);
  ++in_flight_;
  store_->Start(operation);
}

void OrderedWindow::Read(const std::string& key, int64_t timeout_ms, uint64_t line) {
  Entry& entry = Add(key.size() + largest_value_bytes_, line);
  entry.read = std::make_unique<ReadPair>(key, timeout_ms);
  Start(&entry, entry.read->Next(nullptr));
}

void OrderedWindow::Write(Pair pair, bool insert_only, int64_t timeout_ms, uint64_t line) {
  Entry& entry = Add(pair.key.size() + pair.value.size(), line);
  entry.write = std::make_unique<WritePair>(std::move(pair), insert_only, timeout_ms);
  Start(&entry, entry.write->Next(nullptr));
}

void OrderedWindow::Reject(absl::Status why, uint64_t line) {
  Entry& entry = Add(0, line);
  entry.why_rejected = std::move(why);
  entry.done = true;
}

void OrderedWindow::PopFront() {
  held_bytes_ -= entries_.front().held_bytes;
  entries_.pop_front();
  if (entries_.empty() || entries_.front().next == nullptr) return;
  Start(&entries_.front(), std::exchange(entries_.front().next, nullptr));
}

void OrderedWindow::Wait() {
  if (in_flight_ == 0) return;
  AsyncOperation* ended = store_->Poll();
  if (ended == nullptr) {
    store_->Wait();
    ended = store_->Poll();
  }
  for (; ended != nullptr; ended = store_->Poll()) Continue(static_cast<Entry*>(ended->tag()), ended);
}

void OrderedWindow::Continue(Entry* entry, AsyncOperation* ended) {
  --in_flight_;
  if (entry->read != nullptr) {
    AsyncOperation* const next = entry->read->Next(ended);
    return next != nullptr ? Start(entry, next) : TakeDone(entry);
  }
  AsyncOperation* const next = entry->write->Next(ended);
  if (next == nullptr) return TakeDone(entry);
  if (entry == &entries_.front()) return Start(entry, next);
  entry->next = next;
}

void OrderedWindow::TakeDone(Entry* entry) {
  entry->done = true;
  ++completed_;
  held_bytes_ -= entry->held_bytes;
  if (entry->read != nullptr) {
    entry->pair_bytes = entry->held_bytes = entry->read->pair_bytes();
    largest_value_bytes_ = std::max(largest_value_bytes_, entry->read->value_bytes());
  } else {
    entry->pair_bytes = entry->write->pair_bytes();
    entry->held_bytes = 0;
    entry->write->ForgetValue();  // it is written
  }
  held_bytes_ += entry->held_bytes;
}

}  // namespace farlook::cli
