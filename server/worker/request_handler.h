// Executes the requests of welcome clients and answers them. A request that cannot be executed at once waits, and the
// worker serves others meanwhile.
//
//     Apply -> Session::Begin -> Executor (in a group: GroupDesk) -> Session::Finish -> Outbox
//                                   |
//                                   +- PullQueue     a value is pulled from the client: TakePullTurn
//                                   +- RoomQueue     room is made: TakeRoomTurn
//                                   +- HeldWrites    an earlier write of the session to the key waits: ContinueHeld
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_WORKER_REQUEST_HANDLER_H_
#define FARLOOK_SERVER_WORKER_REQUEST_HANDLER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kv/layout/key_place.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"
#include "rdma/transport.h"
#include "server/executor/executor.h"
#include "server/executor/room_turns.h"
#include "server/session/session.h"
#include "server/worker/admin_commands.h"
#include "server/worker/counter_links.h"
#include "server/worker/group_desk.h"
#include "server/worker/link.h"
#include "server/worker/outbox.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

class RequestHandler final {
 public:
  // After a request that is no long value, turns of values are short for this time.
  static constexpr int64_t kOthersNs = 1'000'000;

  // `counter_links`: null without counters.
  RequestHandler(WorkerContext* context, Outbox* outbox, GroupDesk* group, CounterLinks* counter_links)
      : context_(*context), outbox_(*outbox), group_(*group), counter_links_(counter_links), admin_(context) {}
  RequestHandler(const RequestHandler&) = delete;
  RequestHandler& operator=(const RequestHandler&) = delete;

  // Executes a plain put that need not wait, which is most of a worker's load. Returns false if it was not begun.
  bool PutPlainly(Link& link, absl::string_view message, const kv::PlainPut& put, const kv::KeyPlace& place);
  // Executes the request in `message`. `place` is its key's, if it has one.
  void Apply(Link& link, absl::string_view message, const kv::Request& request, const kv::KeyPlace& place);
  // A READ of a value completed.
  void OnRead(Link& link, const rdma::Completion& completion);

  // Messages are looked at again: the bytes of values are counted from here.
  void BeginTurn() { turn_bytes_ = 0; }
  // The time when the last request that is no long value arrived.
  int64_t others_ns() const { return others_ns_; }

  // Connections with pulls that wait for their turn.
  bool has_pull_turns() const { return !pull_turns_.empty(); }
  // Takes the turn of one connection. Returns whether there is more to do at once.
  size_t TakePullTurn();
  // Gives a connection, whose pulls can make progress, a turn.
  void WantPullTurn(Link& link) {
    if (!link.closing) pull_turns_.Add(&link);
  }

  // Connections with writes that wait for room.
  const RoomTurns<Link>& room_turns() const { return room_turns_; }
  // Makes one step towards room for one connection, if it is time. `others_served`: other clients had requests.
  size_t MakeRoom(bool others_served);

  // The gate's turn has changed: tries what waited for it.
  void TryAgain(Link& link);
  // Discards what a closing connection had queued, and releases its numbers.
  void Discard(Link& link);
  // The connection has ended: nothing is written into its reservations any more.
  void Remove(Link& link);

 private:
  // Serving one message (request_handler.cc, request_several.cc).
  void ApplyUnnumbered(Link& link, const kv::Request& request);
  void OnHits(Link& link, const kv::Request& request);
  void OnFigures(Link& link, const kv::Request& request);
  void ApplyNumbered(Link& link, const kv::Request& request, const kv::KeyPlace& place, absl::string_view message);
  void ApplyGets(Link& link, const kv::Request& gets);
  void ApplyPuts(Link& link, const kv::Request& puts);
  template <kv::RequestType kType, typename KeyOf, typename Together, typename Fill>
  void ApplyEach(Link& link, const kv::Request& several, size_t count, KeyOf key_of, Together together, Fill fill);
  size_t PutTogether(Link& link, const kv::Request& put, size_t first);
  void AnswerKnown(Link& link, const kv::Request& request, uint64_t hash, Session::Claim claim);
  Executor::Asker AskerOf(const Link& link) const {
    return {link.session->read_only(), context_.drain.refuses_writes()};
  }
  bool Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message);
  Outcome Try(Link& link, const kv::Request& request, const kv::KeyPlace& place, bool may_step,
              absl::string_view* payload);
  // The same functions and their callers, inlined where most requests pass (request_apply.h).
  void ApplyNumberedHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                         absl::string_view message);
  void ExecuteInOrder(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                      absl::string_view message);
  bool ExecuteHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                   absl::string_view message);
  Outcome TryHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                  bool may_step, absl::string_view* payload);

  // Requests that wait (request_waits.cc).
  static bool HasWaiting(const Link& link) { return !link.pulls->idle() || !link.room.empty() || !link.held.empty(); }
  static std::string Kept(const kv::Request& request, absl::string_view message);
  bool Wait(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message, kv::Code why);
  void WaitForRoom(Link& link, uint64_t hash, absl::string_view message);
  bool TakeRoomTurn(Link& link);
  void AnswerEndedPulls(Link& link);
  void ContinueHeld(Link& link);

  WorkerContext& context_;
  Outbox& outbox_;
  GroupDesk& group_;
  CounterLinks* const counter_links_;
  AdminCommands admin_;
  LinkQueue<PullTurnTag> pull_turns_;
  RoomTurns<Link> room_turns_;
  int64_t others_ns_ = -kOthersNs;
  uint64_t turn_bytes_ = 0;  // of values that were handled since BeginTurn()

  // Buffers for a message with several requests. They are members since each call would initialize them again.
  kv::GetKeys gets_;
  kv::Puts puts_;
  std::array<kv::KeyPlace, std::max(kv::kMaxGets, kv::kMaxPuts)> places_;
  std::array<Outcome, kv::kMaxPuts> outcomes_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_REQUEST_HANDLER_H_
