// Lists linked through their members: any number may be in one, none of it allocates, and who is in one is taken out
// without a search.
#ifndef FARLOOK_CLIENT_LINKED_LIST_H_
#define FARLOOK_CLIENT_LINKED_LIST_H_

namespace farlook::client {

template <typename T, typename Tag>
class LinkedList;

// What can be in one list of each Tag derives from this.
template <typename Tag>
class Linked {
 public:
  bool linked() const { return next_ != nullptr; }
  // REQUIRES linked(). Its list need not be known.
  void Unlink() {
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = nullptr;
  }
  // Of a member whose list is gone.
  void Forget() { next_ = nullptr; }

 private:
  template <typename T, typename U>
  friend class LinkedList;
  Linked* next_ = nullptr;  // null: in no list
  Linked* prev_ = nullptr;
};

// First in, first out. Thread safety: one thread.
template <typename T, typename Tag>
class LinkedList {
 public:
  LinkedList() { Clear(); }
  LinkedList(const LinkedList&) = delete;
  LinkedList& operator=(const LinkedList&) = delete;

  bool empty() const { return ends_.next_ == &ends_; }
  // Null if there is none.
  T* front() const { return empty() ? nullptr : static_cast<T*>(ends_.next_); }
  // The one behind `member`, which is in this list; null if there is none.
  T* Next(const T* member) const {
    Link* const next = member->Linked<Tag>::next_;
    return next == &ends_ ? nullptr : static_cast<T*>(next);
  }

  // REQUIRES: it is in no list of this Tag.
  void Push(T* member) { Insert(ends_.prev_, member); }
  void PushFront(T* member) { Insert(&ends_, member); }
  // Before `at`, which is in this list.
  void PushBefore(T* at, T* member) { Insert(at->Linked<Tag>::prev_, member); }
  // The first, or null.
  T* Pop() {
    T* const member = front();
    if (member != nullptr) member->Linked<Tag>::Unlink();
    return member;
  }
  // Takes all of `other`, behind its own.
  void Append(LinkedList* other) {
    if (other->empty()) return;
    Link* const first = other->ends_.next_;
    Link* const last = other->ends_.prev_;
    first->prev_ = ends_.prev_;
    ends_.prev_->next_ = first;
    last->next_ = &ends_;
    ends_.prev_ = last;
    other->Clear();
  }

  // Whether `which(const T&)` is true for one of them.
  template <typename Which>
  bool Any(Which which) const {
    for (const Link* at = ends_.next_; at != &ends_; at = at->next_) {
      if (which(static_cast<const T&>(*at))) return true;
    }
    return false;
  }
  // Takes out those for which `which(T*)` is true and hands each to `take(T*)`; the order of the others stays.
  template <typename Which, typename Take>
  void Extract(Which which, Take take) {
    LinkedList all;
    all.Append(this);
    while (T* const member = all.Pop()) {
      if (which(member)) {
        take(member);
      } else {
        Push(member);
      }
    }
  }

 private:
  using Link = Linked<Tag>;

  void Clear() { ends_.next_ = ends_.prev_ = &ends_; }
  static void Insert(Link* before, Link* member) {
    member->prev_ = before;
    member->next_ = before->next_;
    before->next_->prev_ = member;
    before->next_ = member;
  }

  Link ends_;  // before the first and behind the last
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LINKED_LIST_H_
