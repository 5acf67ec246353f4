// Operations that have ended and wait for Poll() to return them.
#ifndef FARLOOK_CLIENT_FINISHED_H_
#define FARLOOK_CLIENT_FINISHED_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/operation_queue.h"

namespace farlook::client {

// Thread safety: one thread.
class Finished {
 public:
  // An operation was handed in.
  void Begun(Operation* operation) {
    operation->internal.done = false;
    operation->value_bytes = 0;
    ++in_flight_;
  }

  // Every operation ends here, once. Nothing of the client refers to it afterwards.
  void End(Operation* operation, absl::Status status) {
    if (!status.ok() && !news_.empty()) [[unlikely]] {
      status = absl::Status(status.code(), absl::StrCat(status.message(), status.message().empty() ? "" : "; ", news_));
      news_.clear();
    }
    operation->status = std::move(status);
    Close(operation);
  }
  // The same, with success.
  void End(Operation* operation) {
    if (!operation->status.ok()) operation->status = absl::OkStatus();
    Close(operation);
  }

  // What the user ought to hear: it is added to the next error.
  void Announce(absl::string_view news) { news_ = std::string(news); }

  size_t Take(absl::Span<Operation*> to) {
    size_t count = 0;
    while (count < to.size() && !queue_.empty()) to[count++] = queue_.Pop();
    return count;
  }

  // Begun and not ended, or ended and not taken.
  size_t in_flight() const { return in_flight_ + queue_.size(); }
  bool empty() const { return queue_.empty(); }

 private:
  void Close(Operation* operation) {
    operation->internal.done = true;
    --in_flight_;
    if (!operation->internal.blocking) queue_.Push(operation);
  }

  OperationQueue queue_;
  size_t in_flight_ = 0;
  std::string news_;
};

// Gives a value to the operation's buffer or string. False, and nothing is copied: it is longer than the buffer.
inline bool Copy(absl::string_view value, Operation* operation) {
  operation->value_bytes = value.size();
  char* to = operation->buffer.data();
  if (std::string* const string = operation->string; string != nullptr) {
    // What was read last into the same string often had the same length, and then there is less to do.
    if (string->size() != value.size()) string->resize(value.size());
    to = string->data();
  } else if (value.size() > operation->buffer.size()) {
    return false;
  }
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  return true;
}

// The same. OUT_OF_RANGE when it is longer than the buffer.
inline absl::Status Deliver(absl::string_view value, Operation* operation) {
  if (Copy(value, operation)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("the value has ", value.size(), " bytes, the buffer ", operation->buffer.size()));
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_FINISHED_H_
