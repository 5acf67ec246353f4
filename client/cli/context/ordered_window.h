// Many pairs in flight whose results are taken in the order of their lines. So import and export report line by line,
// and can say up to which line all is finished.
//
// Writes of one key take effect in the order of their lines. The store guarantees that for writes in the order of their
// start. A further write of a pair is started when all lines before it are taken. The window is bounded in pairs and
// bytes.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_ORDERED_WINDOW_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_ORDERED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/cli/context/pair_steps.h"
#include "client/cli/context/store.h"
#include "farlook/async.h"

namespace farlook::cli {

// Thread safety: belongs to one thread, like the store.
class OrderedWindow {
 public:
  struct Entry {
    uint64_t line = 0;  // of the input, for messages
    // One of these is set; none for a line without an operation.
    std::unique_ptr<ReadPair> read;
    std::unique_ptr<WritePair> write;
    absl::Status why_rejected;
    AsyncOperation* next = nullptr;  // waits until this entry is the oldest
    bool done = false;
    size_t pair_bytes = 0;  // of key and value, once done
    size_t held_bytes = 0;  // of the window's memory

    const absl::Status& status() const { return read ? read->status() : write ? write->status() : why_rejected; }
  };

  // Does not own `store`. `max_bytes` bounds keys and values together; a single pair may exceed it.
  OrderedWindow(Store* store, size_t max_pairs, size_t max_bytes)
      : store_(store), max_pairs_(max_pairs), max_bytes_(max_bytes) {}
  // Waits for operations in flight, whose deadlines bound the time.
  ~OrderedWindow();
  OrderedWindow(const OrderedWindow&) = delete;
  OrderedWindow& operator=(const OrderedWindow&) = delete;

  // Return whether a line may be added now. If not, call Wait() and take finished lines.
  bool CanRead(const std::string& key) const;
  bool CanWrite(const Pair& pair) const { return HasRoom(pair.key.size() + pair.value.size()); }
  bool CanReject() const { return HasRoom(0); }
  // Each adds a line. REQUIRES: there is room.
  void Read(const std::string& key, int64_t timeout_ms, uint64_t line);
  void Write(Pair pair, bool insert_only, int64_t timeout_ms, uint64_t line);
  // Adds a line without an operation, so that it is reported in its turn.
  void Reject(absl::Status why, uint64_t line);

  bool empty() const { return entries_.empty(); }
  // Returns the oldest line, or null if it is not finished or there is none. Valid until PopFront().
  const Entry* DoneFront() const { return !entries_.empty() && entries_.front().done ? &entries_.front() : nullptr; }
  // REQUIRES: DoneFront() is not null.
  void PopFront();
  // Makes progress; sleeps if no operation has ended and one is in flight.
  void Wait();

 private:
  bool HasRoom(size_t bytes) const;
  Entry& Add(size_t bytes, uint64_t line);
  void Start(Entry* entry, AsyncOperation* operation);
  void Continue(Entry* entry, AsyncOperation* ended);
  void TakeDone(Entry* entry);

  Store* const store_;
  const size_t max_pairs_;
  const size_t max_bytes_;
  std::deque<Entry> entries_;  // its elements never move: the store points to them
  size_t in_flight_ = 0;
  size_t held_bytes_ = 0;
  size_t completed_ = 0;
  size_t largest_value_bytes_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_ORDERED_WINDOW_H_
