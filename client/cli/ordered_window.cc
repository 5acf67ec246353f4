#include "client/cli/ordered_window.h"

#include <algorithm>
#include <utility>

namespace farlook::cli {
namespace {

// The length of a value is not known before it was read. So the first few gets go alone; after them the largest value
// seen stands for those that follow.
constexpr size_t kFirstGets = 8;

bool IsGet(const Request& request) { return request.type == Request::Type::kGet; }

}  // namespace

OrderedWindow::~OrderedWindow() {
  while (in_flight_ > 0) Wait();
}

size_t OrderedWindow::BytesToReserve(const Request& request) const {
  return request.key.size() + (IsGet(request) ? largest_value_bytes_ : request.value.size());
}

bool OrderedWindow::CanStart(const Request& request) const {
  if (entries_.empty()) return true;
  if (entries_.size() >= max_requests_) return false;
  if (held_bytes_ + BytesToReserve(request) > max_bytes_) return false;
  if (IsGet(request)) return entries_.size() < kFirstGets + completed_;
  return !keys_being_written_.contains(request.key);
}

void OrderedWindow::Start(Request request, uint64_t line) {
  Entry& entry = entries_.emplace_back();
  static_cast<Request&>(entry) = std::move(request);
  entry.line = line;
  entry.held_bytes = BytesToReserve(entry);
  held_bytes_ += entry.held_bytes;
  if (!IsGet(entry)) keys_being_written_.insert(entry.key);
  ++in_flight_;
  store_->Start(&entry);
}

void OrderedWindow::AddRejected(absl::Status status, uint64_t line) {
  Entry& entry = entries_.emplace_back();
  entry.status = std::move(status);
  entry.line = line;
  entry.done = true;
  entry.rejected = true;
}

void OrderedWindow::PopFront() {
  held_bytes_ -= entries_.front().held_bytes;
  entries_.pop_front();
}

void OrderedWindow::Wait() {
  if (in_flight_ == 0) return;
  Request* request = store_->Poll();
  if (request == nullptr) {
    store_->Wait();
    request = store_->Poll();
  }
  for (; request != nullptr; request = store_->Poll()) TakeDone(request);
}

void OrderedWindow::TakeDone(Request* request) {
  Entry& entry = *static_cast<Entry*>(request);
  entry.done = true;
  --in_flight_;
  ++completed_;
  held_bytes_ -= entry.held_bytes;
  entry.pair_bytes = entry.key.size() + entry.value.size();
  if (IsGet(entry)) {
    largest_value_bytes_ = std::max(largest_value_bytes_, entry.value.size());
  } else {
    keys_being_written_.erase(entry.key);
    entry.value = std::string();  // written: its memory is of no more use
  }
  entry.held_bytes = entry.key.size() + entry.value.size();
  held_bytes_ += entry.held_bytes;
}

}  // namespace farlook::cli
