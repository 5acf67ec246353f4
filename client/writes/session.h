// The session: requests to the server's CPU. Each is executed at most once, whatever happens to the connection.
//
//     Start -> queue -> (window has room, SEND posted: gets the next number) -> outstanding -> reply -> answered
//
// Invariants:
// * Numbers, from 1 on, are given only to requests whose SEND was posted. Number n is not given before every number up
//   to n - window is answered.
// * The contents of a number never change, except its deadline, the key of the memory that a value is pulled from, and
//   kOnlyAsked. Until it is answered it can be sent again: from the operation or, after that has ended by its deadline,
//   from a copy. The copy is marked as long expired, so the server does not begin it. A large value was copied to a
//   registered buffer when it was announced, or is in the user's registered memory, which stays registered until then.
// * Requests are sent and numbered in the order of submission, so requests of one key take effect in this order. It
//   also holds while a slot moves. The first retried write of the slot carries kAfterMoved. Requests queued behind a
//   refused one are resent with kOnlyAsked, which queries their outcome without executing them.
// * Consecutive gets, or similar small puts, in the queue are sent as one message, with a number each. Requests that
//   are sent again go one by one.
// * A request whose operation has ended keeps number and credit until answered.
// * When the session is lost, requests that were sent and not answered have an unknown outcome. They are never executed
//   again, except those that only read (get, ping, stat).
#ifndef FARLOOK_CLIENT_WRITES_SESSION_H_
#define FARLOOK_CLIENT_WRITES_SESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/user_memory.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/last_time.h"
#include "client/op/operation.h"
#include "client/op/server_clock.h"
#include "client/op/timeouts.h"
#include "client/writes/request_parts.h"
#include "farlook/stats.h"
#include "kv/layout/hash.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The pool (readable by peers) and the stats outlive it.
class Session final : public Engine {
 public:
  struct Parts {
    BufferPool* outgoing;
    const UserMemory* user_memory;
    LastTime* time;
    Timeouts* timeouts;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  // Never has more than `max_window` requests outstanding, whatever the server grants; REQUIRES > 0.
  Session(const Parts& parts, uint32_t max_window) : parts_(parts), max_window_(max_window), clock_(parts.time) {}

  // Returns whether there is a session, even without a connection now.
  bool exists() const { return id_ != 0; }
  uint64_t id() const { return id_; }
  // Returns the Hello for connecting: it resumes the existing session, or asks for a new one.
  kv::Hello MakeHello(bool read_only) const;
  // Notifies the server that the client will not come back, so it need not keep the session. Best effort.
  void SendGoodbye();

  // Resumes the existing session: Pump() repeats, in order, the requests without a reply. Else begins a new one.
  // REQUIRES that the Welcome resumed the existing session; if it did not, call End() first.
  void Connect(const Ready& ready) override;
  void Lost() override { connection_ = nullptr; }
  // Marks requests of a resumed session, before the first Pump(), to be resent with kOnlyAsked. The server replies with
  // their outcome, or refuses them as moved, with all later ones of the slot.
  void OnlyAskFor(absl::FunctionRef<bool(const Operation&)> which);
  // Returns whether the request of this number is so marked, on this connection.
  bool IsOnlyAsked(uint64_t number) const;
  // Ends a lost session. Passes each operation that was sent to `unknown` if it writes; else it returns to the queue.
  // REQUIRES that its connection is destroyed.
  void End(absl::FunctionRef<void(Operation*)> unknown);

  // Queues an operation. It is sent by the next Pump().
  void Start(Operation* operation) {
    operation->engine = this;
    // A write's request carries its deadline; a read may be late.
    if (operation->deadline_ns == Timeouts::kNever && IsWrite(operation->kind)) [[unlikely]]
      parts_.timeouts->Begin(operation);
    queue_.Push(operation);
    parts_.posted->more = true;
  }
  // Posts a put immediately and rings, without the queue, instead of Start(). Returns false, without effect, if that is
  // not allowed. REQUIRES a plain put with a deadline.
  bool StartAtOnce(Operation* operation) {
    const bool may = connection_ != nullptr && queue_.empty() && repeat_ == next_ && next_ < floor_ + window_ &&
                     operation->value.size() <= max_value_bytes_ && Fits(*operation);
    if (!may || !PostPlainPut(*operation, next_, /*rings=*/true)) [[unlikely]]
      return false;
    operation->engine = this;
    Numbered(operation);
    return true;
  }
  // Returns whether it is a put without special fields in its request, like most.
  static bool IsPlainPut(const Operation& operation) {
    return operation.kind == Kind::kPut && !HasOptions(operation) && !operation.after_moved;
  }
  // Posts as much as possible: first requests that a resumption repeats, then the queue. Ends operations that can never
  // be sent.
  void Pump() override;

  // Handles a reply. `operation`: the answered one, or null if it has ended already. Not open: the server violates the
  // protocol; close the connection.
  struct Answer {
    Operation* operation;
    bool is_open;
  };
  // The needed fields of the reply are passed in registers.
  Answer Answered(uint64_t number, kv::Code code, uint64_t time_us);

  // Removes operations from the queue.
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  // Returns whether any request was sent and is not answered.
  bool has_sent() const { return live_ > 0; }
  // Calls `each` for the requests that were or will be sent.
  void ForEach(absl::FunctionRef<void(const Operation&)> each) const;

  // Returns whether any operation waits for a reply or to be sent.
  bool waiting() const override { return live_ > 0 || !queue_.empty(); }
  // Returns whether Pump() has something to post.
  bool wants_pump() const {
    return repeat_ < next_ || (!queue_.empty() && next_ < floor_ + window_ && !awaits_memory_);
  }
  bool held_up() const override { return wants_pump(); }
  // The number stays open; a request that was sent may be executed.
  void Cancel(Operation* operation) override;

  uint64_t max_value_bytes() const { return max_value_bytes_; }
  // The clock of the connected server, as known from its replies.
  ServerClock* clock() { return &clock_; }
  uint64_t memory_bytes() const override { return sent_.capacity() * sizeof(Sent); }

 private:
  // A number that was given.
  struct Sent {
    Operation* operation = nullptr;  // null once it has ended
    bool answered = true;
    BufferPool::Piece value;  // of a kPutPulled: the memory for the server's pull
    uint64_t value_hash = 0;
    std::string copy;  // the message, kept once the operation has ended
  };

  Sent& At(uint64_t number) { return sent_[number & mask_]; }
  void Begin(const Ready& ready);
  void Repeat();
  absl::Status PlaceValue(absl::string_view value, BufferPool::Piece* piece);
  absl::Status Prepare(Operation* operation, Sent* sent);
  // `options` has room for kv::RequestOptions::kMaxBytes; the request refers to it.
  kv::Request RequestOf(const Operation& operation, uint64_t number, char* options);
  bool MayGoTogether(const Operation& first, const Operation& second) const;
  bool IsShortPut(const Operation& operation) const;
  size_t PostTogether();
  size_t PostGets();
  size_t PostPuts(const Operation& first);
  bool PostSeveral(kv::Request* request, int64_t deadline_ns);
  // Posts a message with a new request, or several from `number` on. It rings if `rings`; else the core does.
  bool PostMessage(absl::string_view head, absl::string_view value, uint64_t number, bool rings = false) {
    const bool sounds = sounding_ == 0 && clock_.stale(parts_.time->last_ns());
    if (sounds) [[unlikely]]
      sounding_ns_ = parts_.time->NowNs();
    const bool posted = rings ? connection_->PostSendAndRing(head, value) : connection_->PostSend(head, value);
    if (!posted) return false;
    if (sounds) [[unlikely]]
      sounding_ = number;
    if (!rings) parts_.posted->messages = true;
    return true;
  }
  void Took(Operation* operation);
  // The operation was posted, with the number next_.
  void Numbered(Operation* operation) {
    Sent& sent = At(next_);
    sent.operation = operation;
    sent.answered = false;
    operation->number = next_;
    if (IsWrite(operation->kind)) ++parts_.stats->puts;
    ++live_;
    ++next_;
    ++repeat_;
  }
  bool PostCopy(const Sent& sent);
  bool PostOnlyAsked(uint64_t number);
  bool Post(uint64_t number);
  bool PostOther(const Operation& operation, uint64_t number);
  void Clear(Sent* sent);
  bool PostPlainPut(const Operation& operation, uint64_t number, bool rings);
  void UpdateClock(uint64_t number, uint64_t time_us);
  void KeepCopy(uint64_t number);
  void Unprepare(const Operation* operation);
  void SetWindow(uint32_t granted);

  const Parts parts_;
  const uint32_t max_window_;
  ServerClock clock_;
  uint64_t sounding_ = 0;                   // the request whose reply will show the server's clock; 0: none
  int64_t sounding_ns_ = 0;                 // not later than its posting
  int64_t connected_ns_ = 0;                // before anything was posted over this connection
  rdma::Connection* connection_ = nullptr;  // null unless connected
  const kv::Hasher* hasher_ = nullptr;

  uint64_t id_ = 0;
  uint32_t epoch_ = 0;
  uint64_t incarnation_ = 0;
  uint64_t max_value_bytes_ = kv::kMaxValueBytes;
  uint32_t gets_at_once_ = 0, puts_at_once_ = 0;  // maximum number in one message

  OperationQueue queue_;    // not sent yet
  std::vector<Sent> sent_;  // ring of a power of two of at least `window_`
  uint64_t mask_ = 0;       // sent_.size() - 1
  uint64_t window_ = 0;
  uint64_t floor_ = 1;   // the first number without a reply
  uint64_t next_ = 1;    // the next number to be given
  uint64_t repeat_ = 1;  // after a resumption: the first of [floor_, next_) not posted again yet; else next_
  std::vector<uint64_t> only_asked_;     // of those, in order
  size_t live_ = 0;                      // operations in sent_
  size_t pulls_ = 0;                     // requests in sent_ that hold memory to be pulled from
  bool awaits_memory_ = false;           // queue_.front() found none; one of pulls_ will return some
  const Operation* prepared_ = nullptr;  // At(next_) is prepared for it; its SEND found no room
};

[[gnu::always_inline]] inline Session::Answer Session::Answered(uint64_t number, kv::Code code, uint64_t time_us) {
  if (number == sounding_ || code == kv::Code::kExpired) [[unlikely]]
    UpdateClock(number, time_us);
  if (number < floor_ || number >= next_ || At(number).answered) [[unlikely]]
    return {nullptr, false};
  Sent& sent = At(number);
  Operation* operation = sent.operation;
  sent.operation = nullptr;
  sent.answered = true;
  if (sent.value.data() != nullptr || operation == nullptr) [[unlikely]]
    Clear(&sent);
  if (operation != nullptr) --live_;
  while (floor_ < next_ && At(floor_).answered) ++floor_;
  parts_.posted->more |= !queue_.empty();  // the window or the pool has room
  return {operation, true};
}

// Post() for most puts: the compiler knows which fields the request does not have.
[[gnu::always_inline]] inline bool Session::PostPlainPut(const Operation& operation, uint64_t number, bool rings) {
  kv::Request request;
  request.type = kv::RequestType::kPut;
  request.condition = OnWire(operation.condition.kind());
  request.number = number;
  request.version = operation.condition.version();
  request.deadline_us = clock_.DeadlineAt(operation.deadline_ns);
  // A view's members one by one: else the compiler keeps a Request in memory.
  request.key = {operation.key.data(), operation.key.size()};
  request.value_bytes = static_cast<uint32_t>(operation.value.size());
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request.EncodeHead(head);
  return PostMessage({head, head_bytes}, {operation.value.data(), operation.value.size()}, number, rings);
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_WRITES_SESSION_H_
