// Many requests in flight whose results are taken in the order in which they were started: import and export report
// line by line, and can say up to which line all is done.
//
// Requests on one key that are in flight together may take effect in any order, so a write waits for the one before it
// on the same key. What the window holds is bounded in requests and in bytes.
#ifndef FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_
#define FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "client/cli/store.h"

namespace farlook::cli {

// Thread safety: belongs to one thread, as the store does.
class OrderedWindow {
 public:
  struct Entry : Request {
    uint64_t line = 0;  // of the input, for messages
    bool done = false;
    bool rejected = false;  // by AddRejected()
    size_t pair_bytes = 0;  // of key and value, once done
    size_t held_bytes = 0;  // of the window's memory
  };

  // Does not own `store`. `max_bytes` bounds keys and values together; one request may exceed it alone.
  OrderedWindow(Store* store, size_t max_requests, size_t max_bytes)
      : store_(store), max_requests_(max_requests), max_bytes_(max_bytes) {}
  // Waits for what is in flight, which its deadlines bound.
  ~OrderedWindow();
  OrderedWindow(const OrderedWindow&) = delete;
  OrderedWindow& operator=(const OrderedWindow&) = delete;

  // Whether `request` may be started now. If not, Wait() and take what is done.
  bool CanStart(const Request& request) const;
  // REQUIRES: CanStart(request).
  void Start(Request request, uint64_t line);
  // Adds a line that makes no request, so that it is reported in its turn. REQUIRES: CanStart(Request()).
  void AddRejected(absl::Status status, uint64_t line);

  bool empty() const { return entries_.empty(); }
  // The oldest request, or null if it is not done yet or there is none. Valid until PopFront().
  const Entry* DoneFront() const { return !entries_.empty() && entries_.front().done ? &entries_.front() : nullptr; }
  // REQUIRES: DoneFront() is not null.
  void PopFront();
  // Makes progress; sleeps if none is ready and a request is in flight.
  void Wait();

 private:
  size_t BytesToReserve(const Request& request) const;
  void TakeDone(Request* request);

  Store* const store_;
  const size_t max_requests_;
  const size_t max_bytes_;
  std::deque<Entry> entries_;  // its elements never move: the store points to them
  absl::flat_hash_set<absl::string_view> keys_being_written_;
  size_t in_flight_ = 0;
  size_t held_bytes_ = 0;
  size_t completed_ = 0;
  size_t largest_value_bytes_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_
