// What a worker does with writes that cannot be carried out at once: room must be made for them, their value is pulled
// from the client, an earlier write of the key is under way, or the group has not come to the end of one. Later writes
// of the session to the same key wait behind them. A worker serves others meanwhile, and goes on with these in turns
// (room_turns.h, pull_queue.h).
#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "server/worker.h"

namespace farlook::server {

bool Worker::Wait(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message, kv::Code why) {
  if (why == kv::Code::kBusy) {
    link.held.AddFirst({request.number, hash, Kept(request, message)});
    WaitForGroup(link);
  } else if (why == kv::Code::kMakingRoom) {
    stats_.waits_for_room.Add();
    link.room.Add(request.number, hash, now_ns_, Kept(request, message));
    room_turns_.Add(&link);
  } else if (request.type == kv::RequestType::kPutPulled) {  // its PullQueue answers
    WantPullTurn(link);
  }
  Balance(link);
  return why != kv::Code::kBusy;
}

// A put that was begun, and whose message is in order.
void Worker::WaitForRoom(Link& link, uint64_t hash, absl::string_view message) {
  const absl::StatusOr<kv::Request> request = kv::Request::Decode(message);
  Wait(link, *request, hash, message, kv::Code::kMakingRoom);
}

// After a step of a connection's pulls: those that have come to their end are answered.
void Worker::AnswerEndedPulls(Link& link) {
  if (link.pulls->wants_room()) room_turns_.Add(&link);
  if (link.pulls->wants_turn()) WantPullTurn(link);
  if (link.pulls->waits_for_group()) WaitForGroup(link);
  turn_bytes_ += link.pulls->TakeBytesHandled();
  if (turn_bytes_ > stats_.longest_turn_bytes.value()) stats_.longest_turn_bytes.Set(turn_bytes_);
  if (!link.pulls->has_ended()) return;
  for (const PullQueue::Ended& ended : link.pulls->TakeEnded()) {
    if (ended.cut) {
      link.session->Release(ended.number);
      // Alone it would leave its client without an answer for ever.
      if (!link.closing) Drop(link, "a value could not be read from the client");
    } else if (ended.begun.sequence != 0) {
      AwaitCommit(link, ended.number, ended.hash, ended.begun, {});
    } else {
      sweep_.Noted();  // it may have had a ttl
      tidy_.Noted();
      if (ended.begun.outcome.code == kv::Code::kMoved) Moved(link, kv::RequestType::kPutPulled, ended.hash);
      link.session->Finish(ended.number, ended.begun.outcome);
      Answer(link, ended.number, ended.begun.outcome);
    }
  }
  ContinueHeld(link);
}

// Carries out what waited for earlier writes, as far as these have come to their end.
void Worker::ContinueHeld(Link& link) {
  const auto busy = [this, &link](uint64_t hash) {
    return link.pulls->Has(hash) || link.room.Has(hash) || (shared_.gate != nullptr && shared_.gate->Busy(hash));
  };
  HeldWrites::Held held;
  while (!link.closing && link.held.TakeReady(busy, &held)) {
    const absl::StatusOr<kv::Request> request = kv::Request::Decode(held.message);
    if (request.ok() && !Execute(link, *request, held.hash, held.message)) break;  // it was when it came
  }
  if (shared_.gate != nullptr && !link.held.empty()) WaitForGroup(link);
  Balance(link);
}

// One step for one connection, if it is time.
size_t Worker::MakeRoom() {
  LookAtClock();
  stats_.waiting_for_room.Set(room_turns_.size());
  Link* const link = room_turns_.Take(now_ns_);
  if (link == nullptr) {
    due_ns_ = std::min(due_ns_, room_turns_.due_ns());
    return 0;
  }
  stats_.lock_times.Sample();
  TakeRoomTurn(*link);
  if (!link->room.empty() || link->pulls->wants_room()) room_turns_.Add(link);
  room_turns_.Took(now_ns_, shared_.clock->NowNs());
  stats_.room_steps.Add();
  stats_.waiting_for_room.Set(room_turns_.size());
  RingAll();
  return 1;
}

void Worker::TakeRoomTurn(Link& link) {
  link.room_turn_is_pulls = !link.room_turn_is_pulls;
  if (link.room.empty() || (link.room_turn_is_pulls && link.pulls->wants_room())) {
    link.pulls->MakeRoom();
    AnswerEndedPulls(link);
    return Balance(link);
  }
  const RoomQueue::Waiting& waiting = link.room.front();
  const absl::StatusOr<kv::Request> request = kv::Request::Decode(waiting.message);  // as it was when it came
  absl::string_view payload;
  Outcome outcome = Try(link, *request, {waiting.hash}, /*may_step=*/true, &payload);
  const int64_t waited_ns = now_ns_ - waiting.since_ns;
  if (outcome.code == kv::Code::kMakingRoom) {
    if (waited_ns < kLongestRoomWaitNs) return;
    outcome.code = kv::Code::kNoMemory;
  }
  stats_.NoteRoomWait(waited_ns);
  const uint64_t number = waiting.number;
  if (outcome.code == kv::Code::kBusy) {
    Wait(link, *request, waiting.hash, waiting.message, outcome.code);
    return link.room.PopFront();
  }
  link.room.PopFront();  // before the answer, which may close the connection and release what waits
  sweep_.Noted();        // it may have had a ttl
  tidy_.Noted();
  if (outcome.code != kv::Code::kLater) {
    link.session->Finish(number, outcome);
    Answer(link, number, outcome, payload);
  }
  ContinueHeld(link);
}

}  // namespace farlook::server
