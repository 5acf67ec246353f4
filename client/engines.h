// The engines, and which of them an operation, a completion or a message is for: the only place that knows them by
// name.
//
//     a get             -> DirectReads, in the call's own time, where READs are copies
//                       -> else Reads                                     -> Session, if writers were faster too often
//     a put, a delete   -> Session
//     a counter         -> Counters, an atomic on a cell that is known    -> else Session
//     warming           -> Warmer
#ifndef FARLOOK_CLIENT_ENGINES_H_
#define FARLOOK_CLIENT_ENGINES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/buffer_pool.h"
#include "client/counters.h"
#include "client/direct_reads.h"
#include "client/directory_reader.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/flight.h"
#include "client/index_mirror.h"
#include "client/last_time.h"
#include "client/latencies.h"
#include "client/operation.h"
#include "client/reads.h"
#include "client/session.h"
#include "client/timeouts.h"
#include "client/touches.h"
#include "client/user_memory.h"
#include "client/warmer.h"
#include "client/work_request_id.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "kv/limits.h"
#include "kv/message.h"
#include "kv/slot.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class Engines {
 public:
  struct Parts {
    rdma::Endpoint* endpoint;
    DirectoryReader* directory;
    LastTime* time;
    Timeouts* timeouts;
    Finished* finished;
    Latencies* latencies;
    ClientStats* stats;
  };
  Engines(const Parts& parts, const ClientOptions& options);

  // ---- Operations.

  UserMemory* user_memory() { return &user_memory_; }

  // Whether gets may be ended at once.
  bool at_once() const { return direct_.connected(); }
  // Ends those gets of `operations`, which are new, that it can, and returns how many; the others are as they were.
  // REQUIRES at_once().
  size_t EndAtOnce(absl::Span<Operation* const> operations) { return direct_.Run(operations); }
  // The same of one: whether it has ended.
  bool EndAtOnce(Operation* operation) { return direct_.Run(operation); }
  // Begins an operation of this kind, or ends it if it makes no sense.
  void Start(Operation* operation, Kind kind) {
    if (!gets_by_reads_ || !IsGet(kind) || !kv::IsKeyLength(operation->key.size())) [[unlikely]]
      return StartOther(operation);
    ++parts_.stats->gets;
    reads_.Start(operation);
  }
  // Whether gets may be READ at once.
  bool reads_at_once() const { return reads_.at_once() && gets_by_reads_; }
  // The same for one that a call waits for. True: it has ended, and was not begun. False: it was, by `begin`. REQUIRES
  // reads_at_once().
  bool StartAtOnce(Operation* operation, Kind kind, absl::FunctionRef<void()> begin) {
    if (!IsGet(kind) || !kv::IsKeyLength(operation->key.size())) [[unlikely]] {
      begin();
      StartOther(operation);
      return false;
    }
    ++parts_.stats->gets;
    return reads_.RunAtOnce(operation, begin);
  }
  // Posts a put now and rings, in place of Start(). False: that may not be, and nothing was done. REQUIRES it has a
  // deadline.
  bool StartPut(Operation* operation);
  // Posts what may be posted now. REQUIRES connected.
  void Pump();
  // Whether Pump() may have something to do.
  bool wants_pump() const { return posted_.more; }
  // The same after a READ of the directory, for which others wait, found no room.
  void Attend() { posted_.more = true; }
  // What was posted since this was last called.
  Posted TakePosted() {
    const Posted taken = posted_;
    posted_.messages = posted_.fetches = false;
    return taken;
  }

  // ---- What the transport says.

  // A READ of WorkRequestId::Owner::kReads, or another READ or atomic, completed, successfully.
  void ReadCompleted(uint64_t wr_id) { reads_.Completed(wr_id); }
  void FetchCompleted(uint64_t wr_id) {
    if (WorkRequestId::OwnerOf(wr_id) == WorkRequestId::Owner::kSegments) {
      return warmer_.Completed(WorkRequestId::NumberOf(wr_id));
    }
    counters_.Completed(wr_id);
  }
  void DirectoryRefreshed() {
    warmer_.Refreshed();  // before gets, which may want the next one
    reads_.Refreshed();
  }
  // Of a group: what was READ may be believed now.
  void JudgeAgain() { reads_.JudgeAgain(); }
  // A message that came when the handshake was over. An error: the server talks nonsense; break the connection.
  absl::Status Received(absl::string_view message);

  // ---- Connections.

  void Connect(const Ready& ready);
  // The connection is destroyed.
  void Lost();
  // The Hello that begins a session, or goes on with the one that this client has.
  kv::Hello MakeHello() const { return session_.MakeHello(read_only_); }
  uint64_t session_id() const { return session_.id(); }
  // Whether operations bear their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) {
    reads_.TakeHashes(are_given);
    direct_.TakeHashes(are_given);
  }
  // What this client knows of the server's clock: readers ask it whether an item has expired.
  ServerClock* clock() { return session_.clock(); }
  void SayGoodbye() { session_.SayGoodbye(); }
  // The session is gone: writes that were sent end with UNKNOWN. REQUIRES the connection that carried it is destroyed.
  void EndSession(absl::string_view why);
  // Another server process, with an empty table, answers: the engines forget what they knew of the one before.
  void ForgetServer(absl::string_view news);

  // ---- Of a cluster: what another group has by now.

  // From now on an operation whose answer is `moved` has not ended, but waits to be taken from moved().
  void FollowMoves() { follows_moves_ = true; }
  OperationQueue* moved() { return &moved_; }
  bool has_moved() const { return !moved_.empty(); }
  // Where there is no server: one that was moved waits there too, in the order in which writes of its key were sent.
  void Hold(Operation* operation);
  // What waits and was not sent goes there too, of those for which `which` is true; but requests only where none has
  // gone before that has no answer. REQUIRES not connected.
  void WithdrawMoved(absl::FunctionRef<bool(const Operation&)> which);
  // After Connect(): keeps the order of writes some of which another core, or nobody, has by now, as `out_of_order`
  // says. Those that were sent are only asked for; where none was of a slot, those that wait here have moved too.
  void KeepOrder(absl::FunctionRef<bool(const Operation&)> out_of_order);
  // The requests that have no answer, or will be sent.
  void ForEachRequest(absl::FunctionRef<void(const Operation&)> each) const { session_.ForEach(each); }

  // ---- What happens rarely, to all.

  bool waiting() const {
    return std::any_of(all_.begin(), all_.end(), [](const Engine* engine) { return engine->waiting(); });
  }
  bool held_up() const {
    return std::any_of(all_.begin(), all_.end(), [](const Engine* engine) { return engine->held_up(); });
  }
  // Hands those operations that wait for a connection, and for which `which` is true, to `take`. REQUIRES not
  // connected.
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
    for (Engine* engine : all_) engine->Withdraw(which, take);
  }
  uint64_t memory_bytes() const;

 private:
  void StartOther(Operation* operation);
  absl::Status ReceivedOther(absl::string_view message);
  absl::Status ReceivedReply(absl::string_view message);
  static absl::Status NotOpen(uint64_t number);
  void AnsweredOther(Operation* operation, absl::string_view message);
  void Answered(Operation* operation, const kv::Reply& reply);
  void GetAnswered(Operation* operation, const kv::Reply& reply);
  void TtlAnswered(Operation* operation, const kv::Reply& reply);
  void Remember(const Operation& operation, kv::Code code, kv::Slot slot);
  void AttachMirror(const Ready& ready);
  void MovedUnsent(Operation* operation);

  const Parts parts_;
  const bool gets_by_reads_;  // else by messages
  const bool read_only_;
  const int64_t mirror_bytes_;
  const bool share_mirror_;
  UserMemory user_memory_;
  BufferPool staging_;   // what is read
  BufferPool outgoing_;  // what the server pulls
  FlightPool flights_;
  IndexMirror mirror_;
  uint64_t mirrored_ = 0;  // the incarnation whose index that is
  Touches touches_;
  const kv::Hasher* hasher_ = nullptr;
  Posted posted_;
  bool follows_moves_ = false;
  OperationQueue moved_;
  Session session_;
  Reads reads_;
  DirectReads direct_;
  Counters counters_;
  Warmer warmer_;
  const std::array<Engine*, 5> all_ = {&reads_, &direct_, &counters_, &warmer_, &session_};
};

// Inline in who looks at completions: each answer comes through here.
[[gnu::always_inline]] inline absl::Status Engines::ReceivedReply(absl::string_view message) {
  kv::Reply reply;
  if (!reply.DecodeFrom(message)) [[unlikely]]
    return kv::Reply::WhyNot(message);
  const auto [operation, is_open] = session_.Answered(reply.number, reply.code, reply.time_us);
  if (!is_open) [[unlikely]]
    return NotOpen(reply.number);
  if (operation == nullptr) [[unlikely]]
    return absl::OkStatus();
  if (operation->kind == Kind::kPut && reply.code == kv::Code::kOk) [[likely]] {
    operation->version = reply.version;
    if (mirror_.enabled()) Remember(*operation, reply.code, reply.slot);
    parts_.finished->End(operation);
  } else {
    AnsweredOther(operation, message);
  }
  return absl::OkStatus();
}

[[gnu::always_inline]] inline absl::Status Engines::Received(absl::string_view message) {
  // What is no reply says so in the first bit.
  if (!message.empty() && static_cast<int8_t>(message[0]) < 0) [[unlikely]]
    return ReceivedOther(message);
  return ReceivedReply(message);
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_ENGINES_H_
