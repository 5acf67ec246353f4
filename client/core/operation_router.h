// The engines, and the choice of the engine for an operation, a completion or a message. No other class knows them by
// name.
//
//     a get             -> DirectReads, in the call's own time, where READs are copies
//                       -> else Reads                                     -> Session, if writers were faster too often
//     a put, a delete   -> Session
//     a counter         -> Counters, an atomic on a cell that is known    -> else Session
//     warming           -> Warmer
//     a step of a scan  -> Scans
#ifndef FARLOOK_CLIENT_CORE_OPERATION_ROUTER_H_
#define FARLOOK_CLIENT_CORE_OPERATION_ROUTER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/connection/directory_reader.h"
#include "client/counters/counters.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/user_memory.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/hit_sampler.h"
#include "client/op/last_time.h"
#include "client/op/latencies.h"
#include "client/op/operation.h"
#include "client/op/timeouts.h"
#include "client/op/work_request_id.h"
#include "client/reads/direct_reads.h"
#include "client/reads/flight.h"
#include "client/reads/index_mirror.h"
#include "client/reads/reads.h"
#include "client/reads/scans.h"
#include "client/reads/warmer.h"
#include "client/writes/session.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/layout/hash.h"
#include "kv/layout/limits.h"
#include "kv/layout/slot.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class OperationRouter {
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
  OperationRouter(const Parts& parts, const ClientOptions& options);

  // ---- Operations.

  UserMemory* user_memory() { return &user_memory_; }

  // Returns why an operation is invalid, or OK.
  static absl::Status Check(const Operation& operation, bool read_only);

  // Returns whether gets can complete within the call.
  bool at_once() const { return direct_.connected(); }
  // Ends as many of the new gets in `operations` as it can, and returns their number; the others are unchanged.
  // REQUIRES at_once().
  size_t EndAtOnce(absl::Span<Operation* const> operations) { return direct_.Run(operations); }
  // The same for one get. Returns whether it has ended.
  bool EndAtOnce(Operation* operation) { return direct_.Run(operation); }
  // Starts an operation of this kind, or ends it if it is invalid.
  void Start(Operation* operation, Kind kind) {
    if (!gets_by_reads_ || !IsGet(kind) || !kv::IsKeyLength(operation->key.size())) [[unlikely]]
      return StartOther(operation);
    ++parts_.stats->gets;
    reads_.Start(operation);
  }
  // Returns whether gets can be READ within the call.
  bool reads_at_once() const { return reads_.at_once() && gets_by_reads_; }
  // The same for an operation that a call waits for. Returns true if it has ended without being started, false if
  // `begin` was called and it is in flight. REQUIRES reads_at_once().
  bool StartAtOnce(Operation* operation, Kind kind, absl::FunctionRef<void()> begin) {
    if (!IsGet(kind) || !kv::IsKeyLength(operation->key.size())) [[unlikely]] {
      begin();
      StartOther(operation);
      return false;
    }
    ++parts_.stats->gets;
    return reads_.RunAtOnce(operation, begin);
  }
  // Posts a put immediately and rings, instead of Start(). Returns false, without effect, if that is not allowed.
  // REQUIRES a deadline.
  bool StartPut(Operation* operation);
  // Posts waiting operations as far as possible. REQUIRES connected.
  void Pump();
  // Returns whether Pump() may have work.
  bool wants_pump() const { return posted_.more; }
  // Requests Pump() because a READ of the directory found no room; gets wait for it.
  void Attend() { posted_.more = true; }
  // Returns what was posted since the last call.
  Posted TakePosted() {
    const Posted taken = posted_;
    posted_.messages = posted_.fetches = false;
    return taken;
  }

  // ---- Events of the transport.

  // A READ of WorkRequestId::Owner::kReads, or another READ or atomic, has completed successfully.
  void ReadCompleted(uint64_t wr_id) { reads_.Completed(wr_id); }
  void FetchCompleted(uint64_t wr_id) {
    const auto owner = WorkRequestId::OwnerOf(wr_id);
    if (owner >= WorkRequestId::Owner::kSegments) [[unlikely]] {
      return owner == WorkRequestId::Owner::kScans ? scans_.Completed()
                                                   : warmer_.Completed(WorkRequestId::NumberOf(wr_id));
    }
    counters_.Completed(wr_id);
  }
  void DirectoryRefreshed() {
    warmer_.Refreshed();  // before gets, which may want the next refresh
    scans_.Refreshed();
    reads_.Refreshed();
  }
  // Groups: reads whose results waited for the epoch words may be accepted now.
  void JudgeAgain() {
    reads_.JudgeAgain();
    scans_.JudgeAgain();
  }
  // Handles a message after the handshake. On an error the server violates the protocol: close the connection.
  absl::Status Received(absl::string_view message);

  // ---- Connections.

  void Connect(const Ready& ready);
  // Releases the state of a connection, which is destroyed.
  void Lost();
  // Returns the Hello that begins a session, or resumes this client's.
  kv::Hello MakeHello() const { return session_.MakeHello(read_only_); }
  uint64_t session_id() const { return session_.id(); }
  // Sets whether operations carry their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) {
    reads_.TakeHashes(are_given);
    direct_.TakeHashes(are_given);
  }
  // This client's knowledge of the server's clock, by which readers decide whether an item has expired.
  ServerClock* clock() { return session_.clock(); }
  void SendGoodbye() { session_.SendGoodbye(); }
  // Ends the session, which is lost: writes that were sent end with UNKNOWN. REQUIRES that its connection is destroyed.
  void EndSession(absl::string_view why);
  // Forgets everything about the former server process, since another one with an empty table answers.
  void ForgetServer(absl::string_view news);

  // ---- Clusters: operations whose slots have moved.

  // From now on, an operation that is answered `moved` does not end, but waits in moved() until MovedOperations takes
  // it.
  void FollowMoves() { follows_moves_ = true; }
  OperationQueue* moved() { return &moved_; }
  bool has_moved() const { return !moved_.empty(); }
  // Moves waiting, unsent operations for which `which` is true to moved(). Requests move only if no sent request is
  // without a reply. REQUIRES not connected.
  void WithdrawMoved(absl::FunctionRef<bool(const Operation&)> which);
  // Keeps the order of writes after Connect(), if earlier ones are already at another core or without one
  // (`out_of_order`). Those that were sent are resent with kOnlyAsked. For slots with no sent request, the waiting ones
  // are treated as moved.
  void KeepOrder(absl::FunctionRef<bool(const Operation&)> out_of_order);
  // Calls `each` for the requests that have no reply yet, or will be sent.
  void ForEachRequest(absl::FunctionRef<void(const Operation&)> each) const { session_.ForEach(each); }

  // ---- Rare events, for all engines.

  bool waiting() const {
    return std::any_of(all_.begin(), all_.end(), [](const Engine* engine) { return engine->waiting(); });
  }
  bool held_up() const {
    return std::any_of(all_.begin(), all_.end(), [](const Engine* engine) { return engine->held_up(); });
  }
  // Hands the operations that wait for a connection, and for which `which` is true, to `take`. REQUIRES not connected.
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
  BufferPool staging_;   // for what is read
  BufferPool outgoing_;  // for what the server pulls
  FlightPool flights_;
  IndexMirror mirror_;
  uint64_t mirrored_ = 0;  // the incarnation of the mirrored index
  HitSampler hit_sampler_;
  const kv::Hasher* hasher_ = nullptr;
  uint64_t region_bytes_ = 0;  // of the last known server
  Posted posted_;
  bool follows_moves_ = false;
  OperationQueue moved_;
  Session session_;
  Reads reads_;
  DirectReads direct_;
  Counters counters_;
  Warmer warmer_;
  Scans scans_;
  const std::array<Engine*, 6> all_ = {&reads_, &direct_, &counters_, &warmer_, &scans_, &session_};
};

// Inlined into the handler of completions: each reply comes through here.
[[gnu::always_inline]] inline absl::Status OperationRouter::ReceivedReply(absl::string_view message) {
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

[[gnu::always_inline]] inline absl::Status OperationRouter::Received(absl::string_view message) {
  // Messages that are not replies have the top bit of the first byte set.
  if (!message.empty() && static_cast<int8_t>(message[0]) < 0) [[unlikely]]
    return ReceivedOther(message);
  return ReceivedReply(message);
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_OPERATION_ROUTER_H_
