// Requests that are alone in their message. Several in one message: request_several.cc; waiting ones: request_waits.cc.
#include "server/worker/request_handler.h"

#include <memory>

#include "kv/wire/client_figures.h"
#include "kv/wire/touched.h"
#include "server/worker/request_apply.h"

namespace farlook::server {

void RequestHandler::Apply(Link& link, absl::string_view message, const kv::Request& request,
                           const kv::KeyPlace& place) {
  context_.stats.requests[static_cast<size_t>(request.type)].Add();
  link.entry->requests.Add();
  if (request.type != kv::RequestType::kPutPulled) others_ns_ = context_.now_ns;
  if (!kv::IsNumbered(request.type)) return ApplyUnnumbered(link, request);
  if (link.session->has_goodbye()) return context_.closer->Drop(link, "a request after the goodbye");
  if (request.type == kv::RequestType::kGets) return ApplyGets(link, request);
  if (request.type == kv::RequestType::kPuts) return ApplyPuts(link, request);
  ApplyNumbered(link, request, place, message);
}

void RequestHandler::OnRead(Link& link, const rdma::Completion& completion) {
  if (link.pulls == nullptr) return;  // before it is welcome nothing is read
  link.pulls->OnRead(completion);
  AnswerEndedPulls(link);
}

Outcome RequestHandler::Try(Link& link, const kv::Request& request, const kv::KeyPlace& place, bool may_step,
                            absl::string_view* payload) {
  return TryHere(request.type, link, request, place, may_step, payload);
}

bool RequestHandler::Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message) {
  return ExecuteHere(request.type, link, request, {hash}, message);
}

void RequestHandler::ApplyNumbered(Link& link, const kv::Request& request, const kv::KeyPlace& place,
                                   absl::string_view message) {
  ApplyNumberedHere(request.type, link, request, place, message);
}

// Answers a request that was claimed before, or never will be.
void RequestHandler::AnswerKnown(Link& link, const kv::Request& request, uint64_t hash, Session::Claim claim) {
  switch (claim) {
    case Session::Claim::kExecute:
      return;  // it is to be executed
    case Session::Claim::kAnswered: {
      context_.stats.resent_requests.Add();
      const Outcome outcome = link.session->Remembered(request.number);
      if (outcome.code == kv::Code::kMoved) GroupDesk::Moved(link, request.type, hash);
      if (context_.shared.gate != nullptr && IsWrite(request.type)) {
        return group_.AnswerWrite(link, request.number, outcome, context_.executor.PayloadOf(request.type, outcome));
      }
      return outbox_.Answer(link, request.number, outcome, context_.executor.PayloadOf(request.type, outcome));
    }
    case Session::Claim::kUnderWay:
      context_.stats.resent_requests.Add();
      if (group_.has_committing()) group_.Reattach(link, request.number);
      return;
    case Session::Claim::kForgotten:
      return outbox_.Answer(link, request.number, Outcome{kv::Code::kOutcomeUnknown});
    case Session::Claim::kImpossible:
      return context_.closer->Drop(link, "request number beyond the window, or used for another request");
  }
}

void RequestHandler::ApplyUnnumbered(Link& link, const kv::Request& request) {
  if (request.type == kv::RequestType::kGoodbye) return link.session->OnGoodbye();
  if (request.type == kv::RequestType::kTouched) return OnHits(link, request);
  if (request.type == kv::RequestType::kFigures) return OnFigures(link, request);
  if (counter_links_ == nullptr ||
      !counter_links_->Acknowledge(link, static_cast<uint64_t>(request.operands.operand))) {
    context_.closer->Drop(link, "an acknowledgement of deleted counters without a notice");
  }
}

void RequestHandler::OnHits(Link& link, const kv::Request& request) {
  kv::TouchedLocations touched;
  if (!context_.hits.wanted()) return context_.closer->Drop(link, "a report of hits that was not requested");
  if (!kv::TouchedLocations::Decode(request.value, &touched))
    return context_.closer->Drop(link, "malformed message: touched locations");
  context_.hits.Take(touched);
  // Best effort: a client that does not receive the notice is sent it again after its next report.
  if (touched.sample == context_.hits.sample() || !link.replies.empty()) return;
  const auto notice = kv::SampleNotice::Encode(context_.hits.sample());
  outbox_.Send(link, {notice.data(), notice.size()}, {});
}

void RequestHandler::OnFigures(Link& link, const kv::Request& request) {
  kv::ClientFigures figures;
  if (context_.figures.interval_ms() == 0)
    return context_.closer->Drop(link, "a report of its figures that was not requested");
  if (!kv::ClientFigures::Decode(request.value, &figures))
    return context_.closer->Drop(link, "malformed message: a client's figures");
  if (link.stats_report == nullptr) link.stats_report = std::make_unique<ClientStatsReport>(link.welcome_ns);
  context_.figures.Take(figures, context_.now_ns, link.stats_report.get());
  link.entry->gets_per_s.Set(link.stats_report->gets_per_s);
  link.entry->get_p99_ns.Set(link.stats_report->times.Quantile(0.99));
}

}  // namespace farlook::server
