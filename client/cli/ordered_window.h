// Many operations in flight whose results are taken in the order in which they were started: import and export report
// line by line, and can say up to which line all is done.
//
// Writes of one key take effect in the order of their lines, since the store promises that of writes in the order in
// which they were started. What the window holds is bounded in operations and in bytes.
#ifndef FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_
#define FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/store.h"
#include "farlook/async.h"

namespace farlook::cli {

// Thread safety: belongs to one thread, as the store does.
class OrderedWindow {
 public:
  struct Entry {
    uint64_t line = 0;  // of the input, for messages
    // One of them; none for a line that makes no operation.
    std::optional<GetOperation> get;
    std::optional<PutOperation> put;
    absl::Status why_rejected;
    bool done = false;
    size_t pair_bytes = 0;  // of key and value, once done
    size_t held_bytes = 0;  // of the window's memory

    const absl::Status& status() const {
      return get.has_value() ? get->status() : put.has_value() ? put->status() : why_rejected;
    }
  };

  // Does not own `store`. `max_bytes` bounds keys and values together; one operation may exceed it alone.
  OrderedWindow(Store* store, size_t max_operations, size_t max_bytes)
      : store_(store), max_operations_(max_operations), max_bytes_(max_bytes) {}
  // Waits for what is in flight, which its deadlines bound.
  ~OrderedWindow();
  OrderedWindow(const OrderedWindow&) = delete;
  OrderedWindow& operator=(const OrderedWindow&) = delete;

  // Whether a line may be added now. If not, Wait() and take what is done.
  bool CanGet(const std::string& key) const;
  bool CanPut(const std::string& key, const std::string& value) const { return HasRoom(key.size() + value.size()); }
  bool CanReject() const { return HasRoom(0); }
  // Each adds a line. REQUIRES: it can.
  void Get(const std::string& key, const GetOptions& options, uint64_t line);
  void Put(const std::string& key, std::string value, const PutOptions& options, uint64_t line);
  // Of a line that makes no operation, so that it is reported in its turn.
  void Reject(absl::Status why, uint64_t line);

  bool empty() const { return entries_.empty(); }
  // The oldest line, or null if it is not done yet or there is none. Valid until PopFront().
  const Entry* DoneFront() const { return !entries_.empty() && entries_.front().done ? &entries_.front() : nullptr; }
  // REQUIRES: DoneFront() is not null.
  void PopFront();
  // Makes progress; sleeps if none is ready and one is in flight.
  void Wait();

 private:
  bool HasRoom(size_t bytes) const;
  Entry& Add(size_t bytes, uint64_t line);
  void Start(Entry* entry, AsyncOperation* operation);
  void TakeDone(Entry* entry);

  Store* const store_;
  const size_t max_operations_;
  const size_t max_bytes_;
  std::deque<Entry> entries_;  // its elements never move: the store points to them
  size_t in_flight_ = 0;
  size_t held_bytes_ = 0;
  size_t completed_ = 0;
  size_t largest_value_bytes_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_ORDERED_WINDOW_H_
