// A first-in first-out queue of operations, linked through the operations themselves: any number may wait, and none of
// it allocates.
#ifndef FARLOOK_CLIENT_OPERATION_QUEUE_H_
#define FARLOOK_CLIENT_OPERATION_QUEUE_H_

#include <cstddef>

#include "client/operation.h"

namespace farlook::client {

// An operation is in at most one queue. Thread safety: one thread.
class OperationQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  size_t size() const { return size_; }
  Operation* front() const { return head_; }

  void Push(Operation* operation) {
    operation->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = operation;
    tail_ = operation;
    ++size_;
  }

  // The oldest, or null.
  Operation* Pop() {
    Operation* operation = head_;
    if (operation == nullptr) return nullptr;
    head_ = operation->next;
    --size_;
    return operation;
  }

  // Takes out those for which `which(Operation*)` is true and hands each to `take(Operation*)`; the order of the others
  // stays.
  template <typename Which, typename Take>
  void Extract(Which which, Take take) {
    OperationQueue kept;
    while (Operation* operation = Pop()) {
      if (which(operation)) {
        take(operation);
      } else {
        kept.Push(operation);
      }
    }
    *this = kept;
  }

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;  // undefined while empty
  size_t size_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OPERATION_QUEUE_H_
