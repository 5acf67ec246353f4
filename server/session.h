// Sessions: what makes a request that is sent twice take effect once.
//
// A client numbers its requests from 1 within a session.  The server claims a number before the request takes effect
// and remembers the outcomes of the last W numbers.  When a connection breaks, the client resumes the session over a
// new one and sends again what had no reply: what was done is answered from memory, what was not is done now.
//
//                     floor            highest        floor + W
//      ---------------->|<-- answered or not -->|<-- not yet seen -->|
//        all answered                                                  a client does not send these: protocol error
//      n <= highest - W: forgotten, "outcome unknown"
//
// The floor is the last number with every number up to it answered.  A client's own floor is never above it, so a
// client that keeps the rule (n only when all up to n - W have their answers) never meets a limit here.
//
// Thread safety: none; sessions belong to one worker, and its number is in their ids, so that a resumption finds it.
// Invariants:
//   * a number is executed at most once as a write, whatever arrives;
//   * an outcome that is not remembered is never made up: kForgotten;
//   * highest - W <= floor <= highest, so a number under way is never pushed out of the ring.
#ifndef FARLOOK_SERVER_SESSION_H_
#define FARLOOK_SERVER_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "kv/handshake.h"
#include "kv/limits.h"
#include "kv/message.h"
#include "kv/slot.h"
#include "server/outcomes.h"

namespace farlook::server {

struct Link;

// What became of a request.
struct Outcome {
  Outcome() = default;
  explicit Outcome(kv::Code code_of) : code(code_of) {}
  Outcome(kv::Code code_of, uint64_t version_of, kv::Slot slot_of = {}, kv::CounterResult counter_of = {})
      : code(code_of), version(version_of), slot(slot_of), counter(counter_of) {}

  kv::Code code = kv::Code::kOk;
  uint64_t version = 0;
  kv::Slot slot;
  kv::CounterResult counter;  // where TellsValue(type, code)

  // What an answer bears, as it is remembered: a version, or a counter's value.
  uint64_t told() const { return version != 0 ? version : static_cast<uint64_t>(counter.value); }
};

// Whether the reply to such a request bears a CounterResult.
constexpr bool TellsValue(kv::RequestType type, kv::Code code) {
  return kv::IsCounterRequest(type) &&
         (code == kv::Code::kOk || code == kv::Code::kExists || code == kv::Code::kOutOfRange);
}

class Session;

// Of sessions, what their clients may ask again: where telling it has come to.
struct OutcomesToTell {
  bool begun = false;
  std::vector<uint64_t> sessions = {};  // that are left
  bool is_introduced = false;           // whose the last of them is
  uint64_t passed = 0;                  // the numbers of the last of them up to this
  std::vector<uint64_t> lost = {};      // that are left
  bool lost_more = false;
};

// Who is told. False: not now; it is told the same again.
class OutcomesListener {
 public:
  virtual ~OutcomesListener() = default;
  virtual bool Introduce(const Session& session) = 0;
  virtual bool Tell(const Session& session, uint64_t number, const Outcome& outcome) = 0;
  // The session wrote, and is not known any more; 0: nor are others, whichever they are.
  virtual bool TellLost(uint64_t session) = 0;
};

class Session {
 public:
  // REQUIRES 1 <= window <= kv::kMaxWindow.
  Session(uint64_t id, bool read_only, uint32_t window, absl::string_view user = {});

  uint64_t id() const { return id_; }
  bool read_only() const { return read_only_; }
  const std::string& user() const { return user_; }  // whose it is; empty where nobody is asked
  uint32_t window() const { return window_; }
  uint32_t epoch() const { return epoch_; }
  uint32_t confirmed_epoch() const { return confirmed_epoch_; }  // that the client has shown to know
  uint64_t floor() const { return floor_; }
  uint64_t highest() const { return highest_; }

  enum class Claim : uint8_t {
    kExecute,     // claimed: execute it, then Finish() or Release()
    kAnswered,    // done before: the outcome is Remembered()
    kUnderWay,    // claimed before and not finished: its answer will come
    kForgotten,   // too far below the highest: answer kOutcomeUnknown, do not execute
    kImpossible,  // a client that keeps the protocol cannot send this
  };

  // Takes note that request `number` arrived.  Also confirms the epoch: the client knows it, since it uses the
  // connection.
  Claim Begin(uint64_t number, kv::RequestType type) {
    if (!IsNext(number)) [[unlikely]]
      return BeginOther(number, type);
    TakeNext(number, type);
    return Claim::kExecute;
  }
  // Whether the number is the one after the highest, and Begin() would say kExecute: so do most.
  bool IsNext(uint64_t number) const { return number == highest_ + 1 && number <= floor_ + window_ && !has_gaps_; }

  // The outcome of a number for which Begin() just said kAnswered. A counter's value, but never its cell: it may be
  // another counter's by now, and the connection that asks was not told it.
  Outcome Remembered(uint64_t number) const;

  // Begin() and Finish() in one, of what was done since IsNext() said so.
  void BeginAndFinish(uint64_t number, kv::RequestType type, const Outcome& outcome) {
    if (number == floor_ + 1) floor_ = number;
    Answer(TakeNext(number, type), outcome);
  }

  // The number has its answer.  REQUIRES Begin() said kExecute; of a write, that nothing was said about it since.
  void Finish(uint64_t number, const Outcome& outcome) {
    Entry& entry = at(number);
    // A get that was asked again, and answered, may come to its end once more, late: in a group, where it waits for a
    // record.  Its place may be another number's by then.
    if (entry.number != number) [[unlikely]]
      return;
    Answer(&entry, outcome);
    if (number == floor_ + 1) ++floor_;
    RaiseFloor();
  }

  // The request was not executed after all; when it is sent again, it will be.  REQUIRES as for Finish.
  void Release(uint64_t number);

  // Whether a client that presents this, and is that user, may go on with the session; otherwise `*why` says why not.
  // An epoch is good if it is the present one, or one since the last that the client is known to have learnt: the
  // Welcome that bore the present one may have been lost with its connection.
  bool Admits(const kv::Hello& hello, absl::string_view* why) const;

  // The client goes on over a new connection.  REQUIRES Admits(hello), no number is under way.
  void Resume(const kv::Hello& hello);

  // Whether a write was claimed: only then does it matter that the session is known later.
  bool wrote() const { return wrote_; }

  // The client said that it will not come back.
  void SayGoodbye() { goodbye_ = true; }
  bool said_goodbye() const { return goodbye_; }

  // The user's: the connection that the session is attached to; null while it is kept.
  Link* link = nullptr;

 private:
  friend class SessionTable;

  enum class State : uint8_t { kFree, kUnderWay, kAnswered, kRecalled };  // the last: by another server
  struct Entry {
    uint64_t number = 0;
    uint64_t version = 0;  // or a counter's value
    kv::Slot slot;
    kv::Code code = kv::Code::kOk;
    kv::RequestType type = kv::RequestType::kPing;
    State state = State::kFree;
  };
  static_assert(sizeof(Entry) == 32, "two to a line; W of them for each client");

  Entry& at(uint64_t number) { return ring_[number & mask_]; }
  const Entry& at(uint64_t number) const { return ring_[number & mask_]; }

  // Begin() of a number that is not the one after the highest.
  Claim BeginOther(uint64_t number, kv::RequestType type);
  void Take(Entry* entry, uint64_t number, kv::RequestType type) {
    if (IsWrite(type) && !read_only_) wrote_ = true;
    entry->number = number;
    entry->type = type;
    entry->state = State::kUnderWay;
  }
  // REQUIRES IsNext().
  Entry* TakeNext(uint64_t number, kv::RequestType type) {
    Entry* const entry = &at(number);
    confirmed_epoch_ = epoch_;
    Take(entry, number, type);
    highest_ = number;
    return entry;
  }
  static void Answer(Entry* entry, const Outcome& outcome) {
    entry->version = outcome.told();
    entry->slot = outcome.slot;
    entry->code = outcome.code;
    entry->state = State::kAnswered;
  }
  // So that all up to floor_ is answered.
  void RaiseFloor() {
    while (floor_ < highest_) {
      const Entry& next = at(floor_ + 1);
      if (next.number != floor_ + 1 || next.state < State::kAnswered) break;
      ++floor_;
    }
  }
  void PassOver(uint64_t number);
  void Recall(const Outcomes::Of& told);

  const uint64_t id_;
  const bool read_only_;
  const uint32_t window_;
  const std::string user_;
  uint32_t epoch_ = 1;
  uint32_t confirmed_epoch_ = 1;
  bool wrote_ = false;
  bool goodbye_ = false;
  bool restored_ = false;  // of a former primary: how far its client has come is known when it comes back
  bool has_gaps_ = false;  // it was: of the reads that were answered there nothing is known
  uint64_t passed_ = 0;    // in such a session: up to here this connection has sent all that it will
  uint64_t floor_ = 0;
  uint64_t highest_ = 0;
  uint64_t mask_;
  std::vector<Entry> ring_;

  // Of SessionTable, while kept.
  int64_t kept_since_ns_ = 0;
  std::list<Session*>::iterator kept_place_;
};

struct SessionOptions {
  int worker = 0;                        // number of the worker that owns them: 0 .. kMaxWorkers - 1
  uint64_t incarnation = 0;              // of the table
  uint32_t window = kv::kDefaultWindow;  // W
  // Sessions without a connection, from which on no new one is opened that may write. 0: none is kept, and whoever
  // loses its connection learns no more what became of its open writes.
  size_t max_kept = 1024;
  size_t max_kept_each = SIZE_MAX;    // of one user
  int64_t keep_ns = 600'000'000'000;  // how long one is kept without a connection
  std::function<uint64_t()> random;   // for ids: not to be guessed, since an id is all that a resumption takes
};

// The sessions of one worker. One is kept without a connection if it wrote and its client did not say goodbye, until it
// is resumed or keep_ns is over; never does another client's coming evict it, instead nobody new comes in while there
// are max_kept. A session that was evicted cannot be resumed: its client gets a new one, and reports the outcome of
// what had no answer as unknown. One that is not known because it never wrote is resumed under another id:
// nothing of it was done but reads.
class SessionTable {
 public:
  static constexpr int kMaxWorkers = 64;
  // Of evicted sessions so many are remembered. When there were more, an unknown session may have written.
  static constexpr size_t kMaxLost = 65'536;

  explicit SessionTable(SessionOptions options);

  // Which worker's table a session would be in.
  static int OwnerOf(uint64_t session_id) { return static_cast<int>(session_id % kMaxWorkers); }

  // A new session, attached.
  Session* Create(bool read_only, absl::string_view user = {});

  // The session that `hello`, of a user who has proved to be that, may resume, attached or kept; or null, and `*why`
  // says why not.
  Session* FindResumable(const kv::Hello& hello, int64_t now_ns, absl::string_view* why);

  // Of a primary that was a backup: what the former one, of that incarnation, told its clients is answered from memory.
  // Takes those sessions that are this worker's, as if they were kept since `now_ns`.
  void Restore(uint64_t incarnation, const Outcomes& outcomes, int64_t now_ns);

  // Tells what was answered of writes, and is remembered, and which sessions are lost, from where `rest` has come to,
  // until the listener says false. True: that was all.
  bool Tell(OutcomesToTell* rest, OutcomesListener* listener) const;

  // A kept session gets a connection again.  Nothing if it is attached.
  void Attach(Session* session);

  // An attached session lost its connection: it is kept from now on, or forgotten. REQUIRES no number is under way.
  void Detach(Session* session, int64_t now_ns);

  // Whether no new session of this user that may write should be created, and when at the latest one of those ends that
  // are in the way: the user's own, where it has as many as it may, or else anybody's.
  bool full(int64_t now_ns, absl::string_view user = {});
  int64_t full_until_ns(absl::string_view user = {}) const;

  // With or without a connection; null: there is none.
  Session* Find(uint64_t id) {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
  }
  // Whether there is such a session, and it has a connection.
  bool attached(uint64_t id) const;

  size_t size() const { return sessions_.size(); }
  size_t kept() const { return kept_.size(); }

 private:
  Session* Revive(const kv::Hello& hello);
  static bool TellOne(const Session& session, OutcomesToTell* rest, OutcomesListener* listener);
  void EvictExpired(int64_t now_ns);
  bool HasAsManyAsMayBe(absl::string_view user) const;
  bool HasItsShare(absl::string_view user) const;
  void Forget(const Session& kept);
  void Lose(uint64_t id);

  const SessionOptions options_;
  uint64_t former_incarnation_ = 0;  // of the primary before this one; 0: there was none
  absl::flat_hash_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::list<Session*> kept_;                          // the longest kept first
  absl::flat_hash_map<std::string, size_t> kept_of_;  // how many of them are of a user, where users are asked
  absl::flat_hash_set<uint64_t> lost_;                // ids of sessions that wrote and were evicted
  bool lost_more_ = false;                            // than lost_ has room for
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_H_
