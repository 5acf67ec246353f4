// Sessions: a request that is sent twice takes effect once.
//
// A client numbers its requests from 1 within a session. The server claims a number before the request takes effect and
// remembers the outcomes of the last W numbers. When a connection breaks, the client resumes the session over a new one
// and sends all unanswered requests again. Those that were done are answered from memory; the others are done now.
//
//                     floor            highest        floor + W
//      ---------------->|<-- answered or not -->|<-- not yet seen -->|
//        all answered                                                  a client does not send these: protocol error
//      n <= highest - W: forgotten, "outcome unknown"
//
// The floor is the last number with every number up to it answered. A client's own floor is never above it. So a client
// that keeps the rule (n only when all up to n - W have their answers) never meets a limit here.
//
// Thread safety: none; sessions belong to one worker. Its number is part of their ids, so that a resumption finds it.
// Invariants:
//   * a number is executed at most once as a write, whatever arrives;
//   * an outcome that is not remembered is never made up: kForgotten;
//   * highest - W <= floor <= highest, so a number under way is never pushed out of the ring.
#ifndef FARLOOK_SERVER_SESSION_SESSION_H_
#define FARLOOK_SERVER_SESSION_SESSION_H_

#include <algorithm>
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
#include "kv/layout/limits.h"
#include "kv/layout/slot.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "server/session/reply_cache.h"

namespace farlook::server {

struct Link;

// The result of a request.
struct Outcome {
  Outcome() = default;
  explicit Outcome(kv::Code code_of) : code(code_of) {}
  Outcome(kv::Code code_of, uint64_t version_of, kv::Slot slot_of = {}, kv::CounterResult counter_of = {})
      : code(code_of), version(version_of), slot(slot_of), counter(counter_of) {}

  kv::Code code = kv::Code::kOk;
  uint64_t version = 0;
  kv::Slot slot;
  kv::CounterResult counter;  // valid if HasCounterValue(type, code)

  // The value that is remembered of an answer: a version, or a counter's value.
  uint64_t result() const { return version != 0 ? version : static_cast<uint64_t>(counter.value); }
};

// Returns whether the reply to such a request contains a CounterResult.
constexpr bool HasCounterValue(kv::RequestType type, kv::Code code) {
  return kv::IsCounterRequest(type) &&
         (code == kv::Code::kOk || code == kv::Code::kExists || code == kv::Code::kOutOfRange);
}

class Session;

// Progress of SessionTable::Report(), which reports the outcomes that clients may ask for again.
struct OutcomesToReport {
  bool begun = false;
  std::vector<uint64_t> sessions = {};  // still to be reported
  bool is_introduced = false;           // the user of the last of `sessions` was reported
  uint64_t passed = 0;                  // numbers of the last of `sessions` up to this were reported
  std::vector<uint64_t> lost = {};      // still to be reported
  bool lost_more = false;
};

// Receives what SessionTable::Report() reports. A function returns false to stop: the same is reported again later.
class OutcomesListener {
 public:
  virtual ~OutcomesListener() = default;
  virtual bool Introduce(const Session& session) = 0;
  virtual bool Report(const Session& session, uint64_t number, const Outcome& outcome) = 0;
  // The session wrote, and is forgotten. 0: so are others, whose ids are not known.
  virtual bool ReportLost(uint64_t session) = 0;
};

// Unknown state of a session that a failover brought to this server: its backup had the replies to writes only.
class RestoredSession {
 public:
  // Returns whether the client has not come back since the failover. Until then its epoch is unknown, as connections
  // that wrote nothing were not replicated.
  bool awaits_client() const { return awaits_client_; }
  // The client comes back, and has the answers of all numbers up to this one.
  void OnResume(uint64_t acknowledged) {
    awaits_client_ = false;
    passed_ = acknowledged;
  }
  // The client sends numbers without an answer in order. So it has the former primary's answer to each number that it
  // leaves out, and never sends that one. Returns the number up to which that was known before.
  uint64_t OnRequest(uint64_t number) {
    const uint64_t before = passed_;
    passed_ = std::max(passed_, number);
    return before;
  }

 private:
  bool awaits_client_ = true;
  uint64_t passed_ = 0;  // up to here the present connection has sent all that it will
};

class Session {
 public:
  // REQUIRES 1 <= window <= kv::kMaxWindow.
  Session(uint64_t id, bool read_only, uint32_t window, absl::string_view user = {});

  uint64_t id() const { return id_; }
  bool read_only() const { return read_only_; }
  const std::string& user() const { return user_; }  // empty if users are not checked
  uint32_t window() const { return window_; }
  uint32_t epoch() const { return epoch_; }
  uint32_t confirmed_epoch() const { return confirmed_epoch_; }  // the last that the client has used
  uint64_t floor() const { return floor_; }
  uint64_t highest() const { return highest_; }

  enum class Claim : uint8_t {
    kExecute,     // claimed: execute it, then Finish() or Release()
    kAnswered,    // done before: the outcome is Remembered()
    kUnderWay,    // claimed before and not finished: its answer will come
    kForgotten,   // too far below the highest: answer kOutcomeUnknown, do not execute
    kImpossible,  // a client that keeps the protocol cannot send this
  };

  // Notes that request `number` arrived. Also confirms the epoch: the client knows it, since it uses the connection.
  Claim Begin(uint64_t number, kv::RequestType type) {
    if (!IsNext(number)) [[unlikely]]
      return BeginOther(number, type);
    TakeNext(number, type);
    return Claim::kExecute;
  }
  // Returns whether the number follows the highest and Begin() would return kExecute, which is the usual case.
  bool IsNext(uint64_t number) const {
    return number == highest_ + 1 && number <= floor_ + window_ && restored_ == nullptr;
  }

  // The outcome of a number for which Begin() just returned kAnswered. Contains a counter's value, but never its cell:
  // the cell may belong to another counter by now, and this connection is not registered as its holder.
  Outcome Remembered(uint64_t number) const;

  // Begin() and Finish() in one, for a request that was executed after IsNext() returned true.
  [[gnu::always_inline]] void BeginAndFinish(uint64_t number, kv::RequestType type, const Outcome& outcome) {
    if (number == floor_ + 1) floor_ = number;
    Answer(TakeNext(number, type), outcome);
  }

  // Records the answer of a number. REQUIRES that Begin() returned kExecute; for a write, that nothing was recorded
  // since.
  void Finish(uint64_t number, const Outcome& outcome) {
    Entry& entry = at(number);
    // A get may finish twice in a group, where it waits for a record: it may have been repeated and answered meanwhile.
    // Its entry may belong to another number by then.
    if (entry.number != number) [[unlikely]]
      return;
    Answer(&entry, outcome);
    if (number == floor_ + 1) ++floor_;
    RaiseFloor();
  }

  // The request was not executed; when it is sent again, it will be. REQUIRES as for Finish.
  void Release(uint64_t number);

  // Returns whether a client of that user with this Hello may resume the session; otherwise `*why` is the reason. Valid
  // epochs are the present one, and those since the last that the client has used. The Welcome with the present one may
  // have been lost with its connection.
  bool Admits(const kv::Hello& hello, absl::string_view* why) const;

  // The client resumes over a new connection. REQUIRES Admits(hello), and that no number is under way.
  void Resume(const kv::Hello& hello);

  // Returns whether a write was claimed: only then must the session be remembered.
  bool wrote() const { return wrote_; }

  // The client announced that it will not reconnect.
  void OnGoodbye() { goodbye_ = true; }
  bool has_goodbye() const { return goodbye_; }

  // Set by the table's user: the connection that the session is attached to; null while it is kept.
  Link* link = nullptr;
  // Set by the table's user: the account that a kept session counts for. `user`: a name in --users, or else the Unix
  // user or the host. `peer`: one of that user's processes or hosts.
  struct Account {
    std::string user;
    std::string peer;
  };
  Account account;

 private:
  friend class SessionTable;

  enum class State : uint8_t { kFree, kUnderWay, kAnswered, kRecalled };  // kRecalled: answered by the former primary
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

  // Begin() for a number that does not follow the highest.
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
    entry->version = outcome.result();
    entry->slot = outcome.slot;
    entry->code = outcome.code;
    entry->state = State::kAnswered;
  }
  // Raises floor_ to the last number with every number up to it answered.
  void RaiseFloor() {
    while (floor_ < highest_) {
      const Entry& next = at(floor_ + 1);
      if (next.number != floor_ + 1 || next.state < State::kAnswered) break;
      ++floor_;
    }
  }
  void PassOver(uint64_t number);
  void Recall(const ReplyCache::Of& cached);

  const uint64_t id_;
  const bool read_only_;
  const uint32_t window_;
  const std::string user_;
  uint32_t epoch_ = 1;
  uint32_t confirmed_epoch_ = 1;
  bool wrote_ = false;
  bool goodbye_ = false;
  std::unique_ptr<RestoredSession> restored_;  // null: the session began at this server
  uint64_t floor_ = 0;
  uint64_t highest_ = 0;
  uint64_t mask_;
  std::vector<Entry> ring_;

  // Used by SessionTable while the session is kept.
  int64_t kept_since_ns_ = 0;
  std::list<Session*>::iterator kept_place_;
};

struct SessionOptions {
  int worker = 0;                        // number of the worker that owns the sessions: 0 .. kMaxWorkers - 1
  uint64_t incarnation = 0;              // of the table
  uint32_t window = kv::kDefaultWindow;  // W
  // Most sessions without a connection. 0: none is kept, and a client that loses its connection does not learn the
  // outcome of its open writes.
  size_t max_kept = 1024;
  size_t max_kept_each = SIZE_MAX;    // the same for one user
  int64_t keep_ns = 600'000'000'000;  // how long a session is kept without a connection
  bool follows_others = false;        // sessions of a former process, which may have written, are unknown here
  std::function<uint64_t()> random;   // for ids: must not be predictable, since an id is all that a resumption takes
};

// The sessions of one worker. A session that wrote is kept without a connection, unless its client sent a goodbye,
// until it is resumed or keep_ns has passed. If more than max_kept are kept, the user with most loses the oldest
// session of its peer with most. So a client or user that leaves sessions behind evicts its own.
//
// An evicted session cannot be resumed: its client gets a new one and reports unanswered requests as unknown. A session
// that is not known because it never wrote is resumed under another id: it had executed only reads. Where the table is
// older than this process, no unknown session is resumed.
class SessionTable {
 public:
  static constexpr int kMaxWorkers = 64;
  // Most evicted sessions that are remembered. If there were more, an unknown session may have written.
  static constexpr size_t kMaxLost = 65'536;

  explicit SessionTable(SessionOptions options);

  // The worker whose table a session would be in.
  static int OwnerOf(uint64_t session_id) { return static_cast<int>(session_id % kMaxWorkers); }

  // Returns a new session, attached.
  Session* Create(bool read_only, absl::string_view user = {});

  // Returns the session, attached or kept, that `hello` may resume. Returns null if there is none, and `*why` is the
  // reason. REQUIRES that the user of `hello` is proved.
  Session* FindResumable(const kv::Hello& hello, int64_t now_ns, absl::string_view* why);

  // For a primary that was a backup: takes over this worker's sessions of the former primary, which had that
  // incarnation, as if they were kept since `now_ns`. Its replies are repeated from memory.
  void Restore(uint64_t incarnation, const ReplyCache& outcomes, int64_t now_ns);

  // Reports the remembered answers of writes, and the lost sessions, continuing from `rest` until the listener returns
  // false. Returns true when all is reported.
  bool Report(OutcomesToReport* rest, OutcomesListener* listener) const;

  // A kept session has a connection again. Does nothing if it is attached.
  void Attach(Session* session);

  // An attached session lost its connection: it is kept from now on, or forgotten. Evicts another if too many are kept.
  // REQUIRES that no number is under way.
  void Detach(Session* session, int64_t now_ns);

  // Returns the session, with or without a connection, or null.
  Session* Find(uint64_t id) {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
  }
  // Returns whether the session exists and has a connection.
  bool attached(uint64_t id) const;

  size_t size() const { return sessions_.size(); }
  size_t kept() const { return kept_.size(); }

 private:
  Session* Revive(const kv::Hello& hello);
  static bool ReportOne(const Session& session, OutcomesToReport* rest, OutcomesListener* listener);
  // The kept sessions of a user.
  struct KeptOf {
    size_t count = 0;
    absl::flat_hash_map<std::string, size_t> of_peer;
  };

  void EvictExpired(int64_t now_ns);
  void EvictOneOf(absl::string_view user, const KeptOf& kept);
  void EvictExcess(const Session& latest);
  void Evict(std::list<Session*>::iterator kept);
  void Forget(const Session& kept);
  void Lose(uint64_t id);

  const SessionOptions options_;
  uint64_t former_incarnation_ = 0;  // of the primary before this one; 0: there was none
  absl::flat_hash_map<uint64_t, std::unique_ptr<Session>> sessions_;
  std::list<Session*> kept_;                          // the one kept longest first
  absl::flat_hash_map<std::string, KeptOf> kept_of_;  // by Account::user
  absl::flat_hash_set<uint64_t> lost_;                // ids of sessions that wrote and were evicted
  bool lost_more_;                                    // more were lost than lost_ has room for
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_SESSION_H_
