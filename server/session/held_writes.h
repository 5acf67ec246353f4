// Writes of one session that wait for earlier ones to the same key.
//
// A pulled value takes time, and so does a write for which room must be made. A later write to the same key would
// overtake it, and the older of the two values would remain. Therefore later writes to that key wait here. Writes to
// other keys do not.
//
// In a group (commit_gate.h) a write to a key that another session is writing waits here too, and so do all requests
// while members are too far behind.
//
// Keys are distinguished by their hashes only: two keys with one hash wait for each other, which is harmless.
//
// Thread safety: none; belongs to its worker. Holds at most the session's window, since each write has a number.
#ifndef FARLOOK_SERVER_SESSION_HELD_WRITES_H_
#define FARLOOK_SERVER_SESSION_HELD_WRITES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace farlook::server {

class HeldWrites {
 public:
  struct Held {
    uint64_t number;
    uint64_t hash;
    std::string message;  // the whole request
  };

  void Add(uint64_t number, uint64_t hash, absl::string_view message) {
    held_.push_back({number, hash, std::string(message)});
    bytes_ += BytesOf(held_.back());
  }

  // Adds one that came before all waiting writes of its hash.
  void AddFirst(Held held) {
    bytes_ += BytesOf(held);
    held_.push_front(std::move(held));
  }

  bool empty() const { return held_.empty(); }
  // Bytes of memory in use.
  size_t bytes() const { return bytes_; }
  // Returns whether a write to a key with this hash waits.
  bool Has(uint64_t hash) const;

  // Removes the first write for whose hash `busy` is false; returns false if there is none. Writes to one key come out
  // in the order in which they were added, provided that a hash stays `busy` until the write has taken effect.
  bool TakeReady(absl::FunctionRef<bool(uint64_t hash)> busy, Held* held);

  // Removes all waiting writes and returns their numbers.
  std::vector<uint64_t> Clear();

 private:
  static size_t BytesOf(const Held& held) { return sizeof(held) + held.message.size(); }

  std::deque<Held> held_;
  size_t bytes_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_HELD_WRITES_H_
