// How a worker carries a numbered request out and answers it, where nothing is in the way: inline in those who apply
// requests, since most come through here and a call costs a good part of what a step does. `type` is the request's:
// where it is known to be kPut nothing is left of what asks for it.
#ifndef FARLOOK_SERVER_WORKER_APPLY_H_
#define FARLOOK_SERVER_WORKER_APPLY_H_

#include "absl/strings/string_view.h"
#include "kv/key_place.h"
#include "kv/message.h"
#include "server/worker.h"

namespace farlook::server {

[[gnu::always_inline]] inline void Worker::AnswerHere(Link& link, uint64_t number, const Outcome& outcome,
                                                      absl::string_view payload) {
  if (link.closing) return;
  if (OpenRequests::Request& timed = link.open.at(number); timed.number == number) [[unlikely]]
    EndTimed(link, &timed);
  stats_.replies[static_cast<size_t>(outcome.code)].Add();
  kv::Reply reply;
  reply.code = outcome.code;
  reply.number = number;
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.time_us = now_us_;
  reply.payload = payload;
  if (packing_ == &link) {
    if (pack_.Add(reply)) [[likely]]
      return;
    const kv::Reply of_next = reply;  // so that most need not be in memory
    return PackAnew(link, of_next);
  }
  uint64_t words[kv::Reply::kHeaderBytes / 8];  // an array of char would have the stack guarded, at each message
  char* const head = reinterpret_cast<char*>(words);
  reply.EncodeHead(head);
  Send(link, {head, sizeof words}, payload);
}

// Carries a request out, unless that must wait: then it says kMakingRoom or kBusy; kLater: somebody answers it.
[[gnu::always_inline]] inline Outcome Worker::TryHere(kv::RequestType type, Link& link, const kv::Request& request,
                                                      const kv::KeyPlace& place, bool may_step,
                                                      absl::string_view* payload) {
  const kv::Code code = Executor::Admit(type, request, AskerOf(link), now_us_);
  if (code != kv::Code::kOk) [[unlikely]]
    return Outcome(code);
  if (type == kv::RequestType::kAdmin) [[unlikely]]
    return Administer(link, request, payload);
  if (shared_.gate != nullptr) [[unlikely]] {
    // In places of its own, so that the others need not be in memory.
    absl::string_view from_group;
    const Outcome in_group = TryInGroup(link, request, place.hash, may_step, &from_group);
    *payload = from_group;
    return in_group;
  }
  if (type == kv::RequestType::kPutPulled) {
    link.pulls->Add(request, place.hash);
    return Outcome(kv::Code::kLater);
  }
  // A connection that may use cells is known before it is told one.
  if (kv::IsCounterRequest(type) && link.has_cells_key && counter_links_ != nullptr) {
    counter_links_->Enroll(link);
  }
  return executor_.Execute(type, request, place, /*tell_cell=*/link.holder != 0, now_ns_, payload, may_step);
}

// False: it waits for the group, among those that are held.
[[gnu::always_inline]] inline bool Worker::ExecuteHere(kv::RequestType type, Link& link, const kv::Request& request,
                                                       const kv::KeyPlace& place, absl::string_view message) {
  absl::string_view payload;
  const Outcome outcome = TryHere(type, link, request, place, /*may_step=*/false, &payload);
  if (outcome.code >= kv::Code::kLater) [[unlikely]]
    return Wait(link, request, place.hash, message, outcome.code);
  if (request.option.has_ttl) [[unlikely]]
    sweep_.Noted();
  if (IsWrite(type)) tidy_.Noted();
  link.session->Finish(request.number, outcome);
  AnswerHere(link, request.number, outcome, payload);
  return true;
}

[[gnu::always_inline]] inline void Worker::ExecuteInOrder(kv::RequestType type, Link& link, const kv::Request& request,
                                                          const kv::KeyPlace& place, absl::string_view message) {
  const uint64_t hash = place.hash;
  if (HasWaiting(link) && IsWrite(type) && (link.pulls->Has(hash) || link.room.Has(hash) || link.held.Has(hash))) {
    stats_.held_writes.Add();
    link.held.Add(request.number, hash, Kept(request, message));
    return Balance(link);
  }
  ExecuteHere(type, link, request, place, message);
}

[[gnu::always_inline]] inline void Worker::ApplyNumberedHere(kv::RequestType type, Link& link,
                                                             const kv::Request& request, const kv::KeyPlace& place,
                                                             absl::string_view message) {
  if (request.flags != 0) [[unlikely]]
    TakeFlags(link, request, place.hash);
  const Session::Claim claim = link.session->Begin(request.number, type);
  if (claim != Session::Claim::kExecute) [[unlikely]]
    return AnswerKnown(link, request, place.hash, claim);
  if (times_.Due()) [[unlikely]]
    times_.Begin(request.number, type, now_ns_, &link.open);
  ExecuteInOrder(type, link, request, place, message);
}

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_APPLY_H_
