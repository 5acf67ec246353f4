// Writes of one session that wait for earlier ones to the same key.
//
// A value that is pulled takes its time, and so does a write for which room must be made; a write to the same key that
// came after it would overtake it, and the client would find the older of its two values in the end. So meanwhile later
// writes to its key wait here. Writes to other keys do not.
//
// In a group (commit_gate.h) a write to a key that another session is writing waits here too, and so do all requests
// while members are too far behind.
//
// Keys are told apart by their hashes: two keys of one hash wait for each other, which does no harm.
//
// Thread safety: none; belongs to its worker. At most the session's window of them: each has a number.
#ifndef FARLOOK_SERVER_HELD_WRITES_H_
#define FARLOOK_SERVER_HELD_WRITES_H_

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

  // One that came before all others of its hash that wait.
  void AddFirst(Held held) {
    bytes_ += BytesOf(held);
    held_.push_front(std::move(held));
  }

  bool empty() const { return held_.empty(); }
  // Of memory that they take.
  size_t bytes() const { return bytes_; }
  // Whether a write to a key of this hash waits.
  bool Has(uint64_t hash) const;

  // Takes out the first write for whose hash `busy` is false; false if there is none. So writes to one key come out in
  // the order in which they were added, provided that what came out is `busy` until it has taken effect.
  bool TakeReady(absl::FunctionRef<bool(uint64_t hash)> busy, Held* held);

  // The numbers of all that wait, which are forgotten.
  std::vector<uint64_t> Clear();

 private:
  static size_t BytesOf(const Held& held) { return sizeof(held) + held.message.size(); }

  std::deque<Held> held_;
  size_t bytes_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_HELD_WRITES_H_
