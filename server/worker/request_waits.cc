// Writes that cannot be executed at once. They wait for room, for their value to be pulled, for an earlier write of the
// key, or for the group. Later writes of the session to the same key wait behind them. Meanwhile the worker serves
// others, and continues these in turns (room_turns.h, pull_queue.h).
#include <string>

#include "absl/status/statusor.h"
#include "server/worker/request_handler.h"

namespace farlook::server {

// Has a request wait, for the reason `why`. Returns false if it waits for the group.
bool RequestHandler::Wait(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message,
                          kv::Code why) {
  if (why == kv::Code::kBusy) {
    link.held.AddFirst({request.number, hash, Kept(request, message)});
    group_.WaitForTurn(link);
  } else if (why == kv::Code::kMakingRoom) {
    context_.stats.waits_for_room.Add();
    link.room.Add(request.number, hash, context_.now_ns, Kept(request, message));
    room_turns_.Add(&link);
    context_.sweep.WantRoom(context_.now_ns);
  } else if (request.type == kv::RequestType::kPutPulled) {  // its PullQueue answers
    WantPullTurn(link);
  }
  outbox_.Balance(link);
  return why != kv::Code::kBusy;
}

// Has a put wait for room that was begun, and whose message is well-formed.
void RequestHandler::WaitForRoom(Link& link, uint64_t hash, absl::string_view message) {
  const absl::StatusOr<kv::Request> request = kv::Request::Decode(message);
  Wait(link, *request, hash, message, kv::Code::kMakingRoom);
}

// After a step of a connection's pulls: answers those that have ended, and has the others wait for what they need.
void RequestHandler::AnswerEndedPulls(Link& link) {
  if (link.pulls->awaits_members()) {
    group_.WaitForTurn(link);
  } else if (link.pulls->wants_room()) {
    room_turns_.Add(&link);
    context_.sweep.WantRoom(context_.now_ns);
  }
  if (link.pulls->wants_turn()) WantPullTurn(link);
  if (link.pulls->waits_for_group()) group_.WaitForTurn(link);
  turn_bytes_ += link.pulls->TakeBytesHandled();
  if (turn_bytes_ > context_.stats.longest_turn_bytes.value()) context_.stats.longest_turn_bytes.Set(turn_bytes_);
  if (!link.pulls->has_ended()) return;
  for (const PullQueue::Ended& ended : link.pulls->TakeEnded()) {
    if (ended.cut) {
      link.session->Release(ended.number);
      // Otherwise the client would wait for its reply for ever.
      if (!link.closing) context_.closer->Drop(link, "a value could not be read from the client");
    } else if (ended.begun.sequence != 0) {
      group_.AwaitCommit(link, ended.number, ended.hash, ended.begun, {});
    } else {
      context_.sweep.Noted();  // it may have had a ttl
      context_.tidy.Noted();
      if (ended.begun.outcome.code == kv::Code::kMoved) GroupDesk::Moved(link, kv::RequestType::kPutPulled, ended.hash);
      link.session->Finish(ended.number, ended.begun.outcome);
      outbox_.Answer(link, ended.number, ended.begun.outcome);
    }
  }
  ContinueHeld(link);
}

// Executes what waited for earlier writes, as far as these have ended.
void RequestHandler::ContinueHeld(Link& link) {
  const auto busy = [this, &link](uint64_t hash) {
    return link.pulls->Has(hash) || link.room.Has(hash) ||
           (context_.shared.gate != nullptr && context_.shared.gate->Busy(hash));
  };
  HeldWrites::Held held;
  while (!link.closing && link.held.TakeReady(busy, &held)) {
    const absl::StatusOr<kv::Request> request = kv::Request::Decode(held.message);
    if (request.ok() && !Execute(link, *request, held.hash, held.message)) break;  // it was well-formed when it arrived
  }
  if (context_.shared.gate != nullptr && !link.held.empty()) group_.WaitForTurn(link);
  outbox_.Balance(link);
}

// A turn is short, so all connections that pull get as many bytes, and messages are looked at between turns.
size_t RequestHandler::TakePullTurn() {
  context_.ReadClock();
  Link& link = *pull_turns_.Pop();
  const bool others = context_.now_ns - others_ns_ < kOthersNs;
  const bool progress = link.pulls->Step(others ? PullQueue::kShortTurnBytes : PullQueue::kTurnBytes);
  context_.stats.lock_times.Sample();  // a turn may publish
  if (progress) {
    link.look_pause_ns = 0;
    outbox_.WantRing(link);
    AnswerEndedPulls(link);  // puts it at the end, if it wants another
    if (others && turn_bytes_ > context_.stats.longest_shared_turn_bytes.value()) {
      context_.stats.longest_shared_turn_bytes.Set(turn_bytes_);
    }
    outbox_.Balance(link);
  } else if (link.pulls->wants_turn()) {
    outbox_.MarkStuck(link);  // it has its next turn when there may be room
  }
  outbox_.RingAll();
  return progress || !pull_turns_.empty() ? 1 : 0;
}

size_t RequestHandler::MakeRoom(bool others_served) {
  if (others_served) room_turns_.OthersServed();
  context_.ReadClock();
  context_.stats.waiting_for_room.Set(room_turns_.size());
  Link* const link = room_turns_.Take(context_.now_ns);
  if (link == nullptr) {
    context_.WakeBy(room_turns_.due_ns());
    return 0;
  }
  context_.stats.lock_times.Sample();
  const bool awaits_members = TakeRoomTurn(*link);
  if (awaits_members) {
    group_.WaitForTurn(*link);
  } else if (!link->room.empty() || link->pulls->wants_room()) {
    room_turns_.Add(link);
  }
  room_turns_.Took(context_.now_ns, context_.shared.clock->NowNs());
  context_.stats.room_steps.Add();
  context_.stats.waiting_for_room.Set(room_turns_.size());
  outbox_.RingAll();
  return awaits_members ? 0 : 1;
}

// Returns true if the write waits until members of the group reported their room.
bool RequestHandler::TakeRoomTurn(Link& link) {
  link.room_turn_is_pulls = !link.room_turn_is_pulls;
  if (link.room.empty() || (link.room_turn_is_pulls && link.pulls->wants_room())) {
    link.pulls->MakeRoom();
    AnswerEndedPulls(link);
    outbox_.Balance(link);
    return link.pulls->awaits_members();
  }
  const RoomQueue::Waiting& waiting = link.room.front();
  const absl::StatusOr<kv::Request> request = kv::Request::Decode(waiting.message);  // as when it arrived
  absl::string_view payload;
  Outcome outcome = Try(link, *request, {waiting.hash}, /*may_step=*/true, &payload);
  const int64_t waited_ns = context_.now_ns - waiting.since_ns;
  bool awaits_members = false;
  if (outcome.code == kv::Code::kNoMemory) {
    const bool is_swept = context_.sweep.IsDone(waiting.since_ns);
    CommitGate* const gate = context_.shared.gate;
    uint64_t asked = waiting.asked;
    awaits_members = is_swept && gate != nullptr && !gate->IsRoomKnown(&asked);
    if (asked != waiting.asked) link.room.Asked(asked);
    if (!is_swept || awaits_members) outcome.code = kv::Code::kMakingRoom;
  }
  if (outcome.code == kv::Code::kMakingRoom) {
    if (waited_ns < kLongestRoomWaitNs) return awaits_members;
    outcome.code = kv::Code::kNoMemory;
  }
  context_.stats.NoteRoomWait(waited_ns);
  const uint64_t number = waiting.number;
  if (outcome.code == kv::Code::kBusy) {
    Wait(link, *request, waiting.hash, waiting.message, outcome.code);
    link.room.PopFront();
    return false;
  }
  link.room.PopFront();    // before the answer, which may close the connection and release what waits
  context_.sweep.Noted();  // it may have had a ttl
  context_.tidy.Noted();
  if (outcome.code != kv::Code::kLater) {
    link.session->Finish(number, outcome);
    outbox_.Answer(link, number, outcome, payload);
  }
  ContinueHeld(link);
  return false;
}

// --- Ends ---

void RequestHandler::TryAgain(Link& link) {
  link.pulls->TryAgain();
  AnswerEndedPulls(link);
  if (!link.room.empty()) room_turns_.Add(&link);  // it may have waited for members
  ContinueHeld(link);
}

void RequestHandler::Discard(Link& link) {
  link.replies.Clear();
  if (link.welcome()) {
    for (const uint64_t number : link.held.Clear()) link.session->Release(number);
    for (const uint64_t number : link.room.Clear()) link.session->Release(number);
    link.pulls->Close();
    AnswerEndedPulls(link);
    room_turns_.Remove(&link);
  }
  outbox_.Balance(link);
}

void RequestHandler::Remove(Link& link) {
  if (link.welcome()) {
    link.pulls->OnDisconnected();
    AnswerEndedPulls(link);
    link.pulls.reset();
  }
  pull_turns_.Remove(&link);
  room_turns_.Remove(&link);
}

}  // namespace farlook::server
