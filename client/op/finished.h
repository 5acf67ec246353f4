// Operations that have ended and wait for Poll() to return them.
#ifndef FARLOOK_CLIENT_OP_FINISHED_H_
#define FARLOOK_CLIENT_OP_FINISHED_H_

#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/op/latencies.h"
#include "client/op/operation.h"
#include "client/op/status.h"

namespace farlook::client {

// Thread safety: one thread.
class Finished {
 public:
  explicit Finished(Latencies* latencies) : latencies_(latencies) {}

  // An operation was started.
  void Begun(Operation* operation) {
    operation->done = false;
    operation->value_bytes = 0;
    operation->timing.calls = 0;
    // The operation may have been in flight with a client that no longer exists.
    operation->Linked<QueueTag>::Forget();
    operation->Linked<DeadlineTag>::Forget();
    ++in_flight_;
  }

  // Left(): the operation continues at another core, with its deadline. Came(): it comes from another core.
  void Left(Operation* operation) {
    if (operation->Linked<DeadlineTag>::linked()) operation->Linked<DeadlineTag>::Unlink();
    --in_flight_;
  }
  void Came() { ++in_flight_; }

  // Every operation ends here, once. Afterwards nothing of the client refers to it. REQUIRES: it is in no queue.
  void End(Operation* operation, absl::Status status) {
    if (!status.ok()) [[unlikely]] {
      if (!place_.empty() && !IsOfTheKey(status)) status = WithPlace(status);
      if (!news_.empty()) status = WithNews(status);
    }
    operation->status = std::move(status);
    Close(operation);
  }
  // The same, with success.
  void End(Operation* operation) {
    if (!operation->status.ok()) operation->status = absl::OkStatus();
    Close(operation);
  }

  // The same, for a get whose key is absent.
  void EndAbsent(Operation* operation) {
    operation->status = Absent();
    Close(operation);
  }

  // Returns the status of a get whose key is absent.
  absl::Status Absent() {
    if (!news_.empty()) [[unlikely]]
      return WithNews(absent_);
    return absent_;
  }

  // Clusters: sets the place of an error, which is prefixed to all errors that are not about the key itself.
  void SetPlace(std::string place) { place_ = std::move(place); }

  // Adds `news`, which the user should know, to the next error.
  void Announce(absl::string_view news) { news_ = std::string(news); }

  size_t Take(absl::Span<Operation*> to) {
    size_t count = 0;
    while (count < to.size() && !queue_.empty()) to[count++] = queue_.Pop();
    in_flight_ -= count;
    return count;
  }

  // Returns the number of operations that were started and not taken.
  size_t in_flight() const { return in_flight_; }
  bool empty() const { return queue_.empty(); }

 private:
  static bool IsOfTheKey(const absl::Status& status) {
    return absl::IsNotFound(status) || absl::IsAlreadyExists(status) || absl::IsAborted(status) ||
           absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
  }
  [[gnu::noinline]] absl::Status WithPlace(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat(place_, ": ", status.message()));
  }
  [[gnu::noinline]] absl::Status WithNews(const absl::Status& status) {
    const std::string news = std::exchange(news_, {});
    return absl::Status(status.code(), absl::StrCat(status.message(), status.message().empty() ? "" : "; ", news));
  }

  void Close(Operation* operation) {
    operation->done = true;
    if (operation->timing.calls != 0) [[unlikely]]
      latencies_->End(*operation);
    if (operation->Linked<DeadlineTag>::linked()) operation->Linked<DeadlineTag>::Unlink();
    if (operation->blocking) {
      --in_flight_;
    } else {
      queue_.Push(operation);
    }
  }

  Latencies* const latencies_;
  // One for each client, so that the reference count of its copies is not shared with other threads.
  const absl::Status absent_ = absl::NotFoundError(kAbsent);
  OperationQueue queue_;
  size_t in_flight_ = 0;
  std::string news_;
  std::string place_;
};

// Returns false if there is no memory. Values may be long, so that does not end the process.
inline bool Resize(std::string* string, size_t bytes) {
  try {
    string->resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

inline absl::Status NoMemoryForValue(size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a value of ", bytes, " bytes"));
}

// Copies a value to the operation's buffer or string. Returns false, without a copy, if it is longer than the buffer or
// there is no memory for the string; then NotCopied() returns the error.
inline bool Copy(absl::string_view value, Operation* operation) {
  operation->value_bytes = value.size();
  char* to = operation->to.buffer.data();
  if (std::string* const string = operation->to.string; string != nullptr) {
    // Consecutive values in one string often have the same length, which saves work.
    if (string->size() != value.size() && !Resize(string, value.size())) return false;
    to = string->data();
  } else if (value.size() > operation->to.buffer.size()) {
    return false;
  }
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  return true;
}

// Returns the error after Copy() returned false.
inline absl::Status NotCopied(absl::string_view value, const Operation& operation) {
  if (operation.to.string != nullptr) return NoMemoryForValue(value.size());
  return absl::OutOfRangeError(
      absl::StrCat("the value has ", value.size(), " bytes, the buffer ", operation.to.buffer.size()));
}

// Copy() with a status: OUT_OF_RANGE if the value is longer than the buffer, RESOURCE_EXHAUSTED if there is no memory.
inline absl::Status Deliver(absl::string_view value, Operation* operation) {
  return Copy(value, operation) ? absl::OkStatus() : NotCopied(value, *operation);
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_FINISHED_H_
