#include "client/cli/ordered_window.h"

#include <algorithm>
#include <utility>

namespace farlook::cli {
namespace {

// The length of a value is not known before it was read. So the first few gets go alone; after them the largest value
// seen stands for those that follow.
constexpr size_t kFirstGets = 8;

}  // namespace

OrderedWindow::~OrderedWindow() {
  while (in_flight_ > 0) Wait();
}

bool OrderedWindow::HasRoom(size_t bytes) const {
  if (entries_.empty()) return true;
  return entries_.size() < max_operations_ && held_bytes_ + bytes <= max_bytes_;
}

bool OrderedWindow::CanGet(const std::string& key) const {
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

void OrderedWindow::Get(const std::string& key, const GetOptions& options, uint64_t line) {
  Entry& entry = Add(key.size() + largest_value_bytes_, line);
  Start(&entry, &entry.get.emplace(key, options));
}

void OrderedWindow::Put(const std::string& key, std::string value, const PutOptions& options, uint64_t line) {
  Entry& entry = Add(key.size() + value.size(), line);
  entry.put.emplace(key, std::move(value), options);
  Start(&entry, &*entry.put);
}

void OrderedWindow::Reject(absl::Status why, uint64_t line) {
  Entry& entry = Add(0, line);
  entry.why_rejected = std::move(why);
  entry.done = true;
}

void OrderedWindow::PopFront() {
  held_bytes_ -= entries_.front().held_bytes;
  entries_.pop_front();
}

void OrderedWindow::Wait() {
  if (in_flight_ == 0) return;
  AsyncOperation* ended = store_->Poll();
  if (ended == nullptr) {
    store_->Wait();
    ended = store_->Poll();
  }
  for (; ended != nullptr; ended = store_->Poll()) TakeDone(static_cast<Entry*>(ended->tag()));
}

void OrderedWindow::TakeDone(Entry* entry) {
  entry->done = true;
  --in_flight_;
  ++completed_;
  held_bytes_ -= entry->held_bytes;
  if (entry->get.has_value()) {
    entry->pair_bytes = entry->held_bytes = entry->get->key().size() + entry->get->value().size();
    largest_value_bytes_ = std::max(largest_value_bytes_, entry->get->value().size());
  } else {
    entry->pair_bytes = entry->held_bytes;
    entry->put->set_value(std::string());  // written: its memory is of no more use
    entry->held_bytes = entry->put->key().size();
  }
  held_bytes_ += entry->held_bytes;
}

}  // namespace farlook::cli
