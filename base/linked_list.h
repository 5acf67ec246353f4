// Lists that are linked through their members: nothing allocates, and a member is removed without a search.
//
// Thread safety: none.
#ifndef FARLOOK_BASE_LINKED_LIST_H_
#define FARLOOK_BASE_LINKED_LIST_H_

#include <cstddef>

namespace farlook {

template <typename T, typename Tag>
class LinkedList;

// Base of a type that can be in one list of each Tag.
template <typename Tag>
class Linked {
 public:
  bool linked() const { return next_ != nullptr; }
  // Removes it from its list, which need not be known. REQUIRES linked(), and that the list is no LinkedQueue.
  void Unlink() {
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = nullptr;
  }
  // Marks a member of a list that no longer exists as unlinked.
  void Forget() { next_ = nullptr; }

 private:
  template <typename T, typename U>
  friend class LinkedList;
  Linked* next_ = nullptr;  // null: in no list
  Linked* prev_ = nullptr;
};

// A list: first in, first out.
template <typename T, typename Tag>
class LinkedList {
 public:
  LinkedList() { Clear(); }
  LinkedList(const LinkedList&) = delete;
  LinkedList& operator=(const LinkedList&) = delete;

  bool empty() const { return ends_.next_ == &ends_; }
  // The first and the last member; null if there is none.
  T* front() const { return empty() ? nullptr : static_cast<T*>(ends_.next_); }
  T* back() const { return empty() ? nullptr : static_cast<T*>(ends_.prev_); }
  // The members behind and before `member`, which is in this list; null if there is none.
  T* Next(const T* member) const { return MemberAt(member->Linked<Tag>::next_); }
  T* Previous(const T* member) const { return MemberAt(member->Linked<Tag>::prev_); }

  // REQUIRES: it is in no list of this Tag.
  void Push(T* member) { Insert(ends_.prev_, member); }
  void PushFront(T* member) { Insert(&ends_, member); }
  // Inserts before `at`, which is in this list.
  void PushBefore(T* at, T* member) { Insert(at->Linked<Tag>::prev_, member); }
  // Removes and returns the first; null if there is none.
  T* Pop() {
    T* const member = front();
    if (member != nullptr) member->Linked<Tag>::Unlink();
    return member;
  }
  // Moves all of `other` behind its own.
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

  // Returns whether `which(const T&)` is true for one of them.
  template <typename Which>
  bool Any(Which which) const {
    for (const Link* at = ends_.next_; at != &ends_; at = at->next_) {
      if (which(static_cast<const T&>(*at))) return true;
    }
    return false;
  }
  // Removes those for which `which(T*)` is true and passes each to `take(T*)`; the order of the others stays.
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

  T* MemberAt(Link* at) const { return at == &ends_ ? nullptr : static_cast<T*>(at); }
  void Clear() { ends_.next_ = ends_.prev_ = &ends_; }
  static void Insert(Link* before, Link* member) {
    member->prev_ = before;
    member->next_ = before->next_;
    before->next_->prev_ = member;
    before->next_ = member;
  }

  Link ends_;  // before the first and behind the last
};

// A list that counts its members, and to which a member can be added any number of times: it is in it once. All lists
// of a Tag whose members are shared REQUIRE that a member is removed from the queue that it is in.
template <typename T, typename Tag>
class LinkedQueue {
 public:
  bool empty() const { return list_.empty(); }
  size_t size() const { return size_; }
  static bool Has(const T& member) { return member.Linked<Tag>::linked(); }
  T* front() const { return list_.front(); }
  T* back() const { return list_.back(); }
  T* Next(const T* member) const { return list_.Next(member); }
  T* Previous(const T* member) const { return list_.Previous(member); }
  template <typename Which>
  bool Any(Which which) const {
    return list_.Any(which);
  }

  // Adds it at the end, unless it is in the queue.
  void Add(T* member) {
    if (Has(*member)) return;
    list_.Push(member);
    ++size_;
  }
  // Removes it, if it is in the queue.
  void Remove(T* member) {
    if (!Has(*member)) return;
    member->Linked<Tag>::Unlink();
    --size_;
  }
  // Removes and returns the first; null if there is none.
  T* Pop() {
    T* const member = list_.Pop();
    if (member != nullptr) --size_;
    return member;
  }

 private:
  LinkedList<T, Tag> list_;
  size_t size_ = 0;
};

}  // namespace farlook

#endif  // FARLOOK_BASE_LINKED_LIST_H_
