// The session: requests to the server's CPU, each executed at most once whatever happens to the connection.
//
//     Start -> queue -> (window has room, SEND posted: gets the next number) -> outstanding -> reply -> answered
//
// Invariants:
//   * Numbers are given, from 1 on, to requests whose SEND was posted, and to no other. Number n is not given before
//     every number up to n - window has its answer.
//   * A number's contents never change, but for the deadline, the key of the memory that a value is pulled from, and
//     whether it is only asked for.
//     Until it is answered they can be sent again: from the operation, or, once that has ended by its deadline, from a
//     copy, which says that it is long over: the server does not begin it. A large value was copied to a registered
//     buffer when it was announced, or lies in memory that the user registered, which stays registered so long.
//   * Requests are sent in the order in which they were submitted, and numbered so: of one key they take effect so. So
//     they do where a group refuses some, as a slot moves: with which write the slot's begin anew they say, and what is
//     under way behind those that were refused is only asked for when it is sent again.
//   * Gets, and small puts that are alike, that stand behind each other in the queue go as one message, with a number
//     each. What is sent again goes one by one.
//   * A request whose operation has ended keeps number and credit until answered.
//   * When the session is gone, what was sent and not answered is of unknown outcome; it is never executed again. What
//     only asked (get, ping, stat) may be asked again.
#ifndef FARLOOK_CLIENT_SESSION_H_
#define FARLOOK_CLIENT_SESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/buffer_pool.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/last_time.h"
#include "client/operation.h"
#include "client/request_parts.h"
#include "client/server_clock.h"
#include "client/timeouts.h"
#include "client/user_memory.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "kv/message.h"
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

  // A session is known; it may be that no connection carries it now.
  bool exists() const { return id_ != 0; }
  uint64_t id() const { return id_; }
  // What to say when connecting: asks to resume the session that exists, or for a new one.
  kv::Hello MakeHello(bool read_only) const;
  // Says that the client will not come back: the server need not keep the session. Best effort.
  void SayGoodbye();

  // The same session, if it exists: Pump() repeats, in order, what has no answer. Else a new one. REQUIRES that the
  // Welcome resumed the one that exists; where it did not, End() comes first.
  void Connect(const Ready& ready) override;
  void Lost() override { connection_ = nullptr; }
  // Of a session that was resumed, before the first Pump(): of what was sent and has no answer, those are only asked
  // for. The server says what became of it, or refuses it, as moved, and what follows of its slot.
  void OnlyAskFor(absl::FunctionRef<bool(const Operation&)> which);
  // Whether the request of this number is one of those, on this connection.
  bool IsOnlyAsked(uint64_t number) const;
  // The session is gone. Hands each operation that was sent to `unknown` if it writes; else it goes back to the queue.
  // REQUIRES the connection that carried it is destroyed.
  void End(absl::FunctionRef<void(Operation*)> unknown);

  // Queues an operation. It is sent by the next Pump().
  void Start(Operation* operation) {
    operation->engine = this;
    // The server is told when a write is over; what only asks may come late.
    if (operation->deadline_ns == Timeouts::kNever && IsWrite(operation->kind)) [[unlikely]]
      parts_.timeouts->Begin(operation);
    queue_.Push(operation);
    parts_.posted->more = true;
  }
  // Posts a put now and rings, in place of Start(), without the queue, which most that are started alone do not need.
  // False: that may not be, and nothing was done. REQUIRES it is plain, and has a deadline.
  bool StartAtOnce(Operation* operation) {
    const bool may = connection_ != nullptr && queue_.empty() && repeat_ == next_ && next_ < floor_ + window_ &&
                     operation->value.size() <= max_value_bytes_ && Fits(*operation);
    if (!may || !PostPlainPut(*operation, next_, /*rings=*/true)) [[unlikely]]
      return false;
    operation->engine = this;
    Numbered(operation);
    return true;
  }
  // Of most puts: of its request there is nothing to say that the others do not have.
  static bool IsPlainPut(const Operation& operation) {
    return operation.kind == Kind::kPut && !HasOptions(operation) && !operation.after_moved;
  }
  // Posts what may be posted now: what a resumption repeats, then the queue. An operation that cannot be sent at all
  // ends.
  void Pump() override;

  // A request was answered; whose it was: null if that has ended already. Not open: the server talks nonsense; break
  // the connection.
  struct Answer {
    Operation* operation;
    bool is_open;
  };
  // What of the reply matters here is handed over in registers.
  Answer Answered(uint64_t number, kv::Code code, uint64_t time_us);

  // Takes them out of the queue.
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  // Whether any was sent and has no answer.
  bool has_sent() const { return live_ > 0; }
  // Those that were, and those that will be.
  void ForEach(absl::FunctionRef<void(const Operation&)> each) const;

  // Whether any operation waits for an answer or to be sent.
  bool waiting() const override { return live_ > 0 || !queue_.empty(); }
  // Whether Pump() has something that it may post.
  bool wants_pump() const {
    return repeat_ < next_ || (!queue_.empty() && next_ < floor_ + window_ && !awaits_memory_);
  }
  bool held_up() const override { return wants_pump(); }
  // Its number stays open; what was sent may be done.
  void Cancel(Operation* operation) override;

  uint64_t max_value_bytes() const { return max_value_bytes_; }
  // Of the server that it is connected to, as far as its answers tell.
  ServerClock* clock() { return &clock_; }
  uint64_t memory_bytes() const override { return sent_.capacity() * sizeof(Sent); }

 private:
  // A number that was given.
  struct Sent {
    Operation* operation = nullptr;  // null once it has ended
    bool answered = true;
    BufferPool::Piece value;  // of a kPutPulled: what the server pulls
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
  // Posts a message that bears a new request, or several from `number` on. Unless it rings, the core does.
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
  // It was posted, with the number next_.
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
  void Hear(uint64_t number, uint64_t time_us);
  void KeepCopy(uint64_t number);
  void Unprepare(const Operation* operation);
  void SetWindow(uint32_t granted);

  const Parts parts_;
  const uint32_t max_window_;
  ServerClock clock_;
  uint64_t sounding_ = 0;                   // the request from whose answer the clock will be heard; 0: none
  int64_t sounding_ns_ = 0;                 // not later than it was posted
  int64_t connected_ns_ = 0;                // before anything was posted over this connection
  rdma::Connection* connection_ = nullptr;  // null unless connected
  const kv::Hasher* hasher_ = nullptr;

  uint64_t id_ = 0;
  uint32_t epoch_ = 0;
  uint64_t incarnation_ = 0;
  uint64_t max_value_bytes_ = kv::kMaxValueBytes;
  uint32_t gets_at_once_ = 0, puts_at_once_ = 0;  // that a message may stand for

  OperationQueue queue_;    // not sent yet
  std::vector<Sent> sent_;  // ring of a power of two of at least `window_`
  uint64_t mask_ = 0;       // sent_.size() - 1
  uint64_t window_ = 0;
  uint64_t floor_ = 1;   // the first number without an answer; all below have theirs
  uint64_t next_ = 1;    // the next number to be given
  uint64_t repeat_ = 1;  // after a resumption: the first of [floor_, next_) not posted again yet; else next_
  std::vector<uint64_t> only_asked_;     // of those, in order
  size_t live_ = 0;                      // operations in sent_
  size_t pulls_ = 0;                     // requests in sent_ that hold memory to be pulled from
  bool awaits_memory_ = false;           // queue_.front() found none, but one of pulls_ will give some back
  const Operation* prepared_ = nullptr;  // At(next_) is prepared for this one, whose SEND found no room
};

[[gnu::always_inline]] inline Session::Answer Session::Answered(uint64_t number, kv::Code code, uint64_t time_us) {
  if (number == sounding_ || code == kv::Code::kExpired) [[unlikely]]
    Hear(number, time_us);
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
  parts_.posted->more |= !queue_.empty();  // the window has room, or the pool memory
  return {operation, true};
}

// Post() of most puts: the compiler knows all that its request does not have.
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

#endif  // FARLOOK_CLIENT_SESSION_H_
