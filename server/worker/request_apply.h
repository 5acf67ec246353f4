// The path of a numbered request that need not wait. It is inline in its callers: most requests take it, and a call
// costs a good part of what a step does. `type` is the request's; where it is known to be kPut, the compiler removes
// the tests of it.
#ifndef FARLOOK_SERVER_WORKER_REQUEST_APPLY_H_
#define FARLOOK_SERVER_WORKER_REQUEST_APPLY_H_

#include "absl/strings/string_view.h"
#include "kv/layout/key_place.h"
#include "kv/wire/message.h"
#include "server/worker/request_handler.h"

namespace farlook::server {

[[gnu::always_inline]] inline bool RequestHandler::PutPlainly(Link& link, absl::string_view message,
                                                              const kv::PlainPut& put, const kv::KeyPlace& place) {
  WorkerContext& context = context_;
  Outbox& outbox = outbox_;
  Session& session = *link.session;
  if (session.has_goodbye() || session.read_only() || context.drain.refuses_writes() || HasWaiting(link) ||
      ServerTime::IsOverAt(put.deadline_us, context.now_us) || !session.IsNext(put.number)) [[unlikely]] {
    return false;
  }
  context.stats.requests[static_cast<size_t>(kv::RequestType::kPut)].Add();
  link.entry->requests.Add();
  others_ns_ = context.now_ns;
  if (outbox.times().Due()) [[unlikely]]
    outbox.times().Begin(put.number, kv::RequestType::kPut, context.now_ns, &link.open);
  const kv::WriteResult result = context.executor.Put(place, put.item, context.now_ns);
  if (result.code >= kv::Code::kLater) [[unlikely]] {
    session.Begin(put.number, kv::RequestType::kPut);
    WaitForRoom(link, place.hash, message);
    return true;
  }
  context.tidy.Noted();
  const Outcome outcome(result.code, result.version, result.slot);
  session.BeginAndFinish(put.number, kv::RequestType::kPut, outcome);
  outbox.AnswerHere(link, put.number, outcome, {});
  return true;
}

// Executes a request. Returns kMakingRoom or kBusy if it must wait, and kLater if it will be answered.
[[gnu::always_inline]] inline Outcome RequestHandler::TryHere(kv::RequestType type, Link& link,
                                                              const kv::Request& request, const kv::KeyPlace& place,
                                                              bool may_step, absl::string_view* payload) {
  const kv::Code code = Executor::Admit(type, request, AskerOf(link), context_.now_us);
  if (code != kv::Code::kOk) [[unlikely]]
    return Outcome(code);
  if (type == kv::RequestType::kAdmin) [[unlikely]]
    return admin_.Execute(link, request.key, payload);
  if (context_.shared.gate != nullptr) [[unlikely]] {
    // In variables of its own, so that the others need not be in memory.
    absl::string_view from_group;
    const Outcome in_group = group_.Try(link, request, place.hash, may_step, &from_group);
    *payload = from_group;
    return in_group;
  }
  if (type == kv::RequestType::kPutPulled) {
    link.pulls->Add(request, place.hash);
    return Outcome(kv::Code::kLater);
  }
  // A connection that may use cells is enrolled before it is sent one.
  if (kv::IsCounterRequest(type) && link.cells.has_key && counter_links_ != nullptr) {
    counter_links_->Enroll(link);
  }
  return context_.executor.Execute(type, request, place, /*with_cell=*/link.cells.holder != 0, context_.now_ns, payload,
                                   may_step);
}

// Executes and answers a request, or has it wait. Returns false if it waits for the group, in the held writes.
[[gnu::always_inline]] inline bool RequestHandler::ExecuteHere(kv::RequestType type, Link& link,
                                                               const kv::Request& request, const kv::KeyPlace& place,
                                                               absl::string_view message) {
  absl::string_view payload;
  const Outcome outcome = TryHere(type, link, request, place, /*may_step=*/false, &payload);
  if (outcome.code >= kv::Code::kLater) [[unlikely]]
    return Wait(link, request, place.hash, message, outcome.code);
  if (request.option.has_ttl) [[unlikely]]
    context_.sweep.Noted();
  if (IsWrite(type)) context_.tidy.Noted();
  link.session->Finish(request.number, outcome);
  outbox_.AnswerHere(link, request.number, outcome, payload);
  return true;
}

// Executes a request, or holds it behind an earlier write of the session to its key.
[[gnu::always_inline]] inline void RequestHandler::ExecuteInOrder(kv::RequestType type, Link& link,
                                                                  const kv::Request& request, const kv::KeyPlace& place,
                                                                  absl::string_view message) {
  const uint64_t hash = place.hash;
  if (HasWaiting(link) && IsWrite(type) && (link.pulls->Has(hash) || link.room.Has(hash) || link.held.Has(hash))) {
    context_.stats.held_writes.Add();
    link.held.Add(request.number, hash, Kept(request, message));
    return outbox_.Balance(link);
  }
  ExecuteHere(type, link, request, place, message);
}

[[gnu::always_inline]] inline void RequestHandler::ApplyNumberedHere(kv::RequestType type, Link& link,
                                                                     const kv::Request& request,
                                                                     const kv::KeyPlace& place,
                                                                     absl::string_view message) {
  if (request.flags != 0) [[unlikely]]
    group_.TakeFlags(link, request, place.hash);
  const Session::Claim claim = link.session->Begin(request.number, type);
  if (claim != Session::Claim::kExecute) [[unlikely]]
    return AnswerKnown(link, request, place.hash, claim);
  if (outbox_.times().Due()) [[unlikely]]
    outbox_.times().Begin(request.number, type, context_.now_ns, &link.open);
  ExecuteInOrder(type, link, request, place, message);
}

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_REQUEST_APPLY_H_
