#include "server/worker/outbox.h"

#include <algorithm>

#include "server/base/request_names.h"

namespace farlook::server {
namespace {

// Pause between looks at a connection whose send queue stays full. It doubles from the first value while nothing moves:
// up to the second while the worker is busy, up to the last when it sleeps. A transport may wake it earlier.
constexpr int64_t kMinRetryNs = 20'000;
constexpr int64_t kMaxLookPauseNs = 1'000'000;
constexpr int64_t kMaxRetryNs = 20'000'000;

}  // namespace

void Outbox::Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  AnswerHere(link, number, outcome, payload);
}

void Outbox::SendLater(Link& link, absl::string_view head, absl::string_view payload) {
  // All replies of the window and one notice of each kind; before the Welcome, one message.
  const size_t notices = (link.cells.holder != 0 ? 1 : 0) + (context_.hits.wanted() ? 1 : 0);
  const size_t most = link.welcome() ? link.session->window() + notices : 1;
  if (!link.replies.Queue(head, payload, most)) {
    return context_.closer->Drop(link, "more requests without a reply than the window allows");
  }
  context_.stats.postponed_replies.Add();
  MarkStuck(link);
  Balance(link);
}

void Outbox::EndTimed(const Link& link, OpenRequests::Request* request) {
  const int64_t now_ns = context_.shared.clock->NowNs();
  const int64_t since_ns = request->since_ns;
  uint64_t suppressed;
  if (!times_.End(request, now_ns) || !slow_log_.Allow(now_ns, &suppressed)) return;
  Log(LogLevel::kWarning, "slow request",
      {{"peer", link.connection->peer()},
       {"user", link.who.user.name},
       {"type", TypeName(request->type)},
       {"ms", (now_ns - since_ns) / 1'000'000},
       {"suppressed", suppressed}});
}

void Outbox::EndPacks(Link& link) {
  packing_ = nullptr;
  if (!pack_.empty()) Send(link, pack_.Finish(), {});
  pack_.Clear();
}

// Sends the pack, which has no room for the reply, and puts the reply into the next one.
void Outbox::PackAgain(Link& link, const kv::Reply& reply) {
  if (!pack_.empty()) Send(link, pack_.Finish(), {});
  pack_.Clear();
  if (pack_.Add(reply)) return;
  // The reply is as long as a message can be: send it without a pack.
  char head[kv::Reply::kHeaderBytes];
  reply.EncodeHead(head);
  Send(link, {head, sizeof head}, reply.payload);
}

void Outbox::MarkStuck(Link& link) {
  if (LinkQueue<StuckTag>::Has(link) || link.closing) return;
  link.look_pause_ns = std::max(link.look_pause_ns, kMinRetryNs);
  link.look_ns = context_.now_ns + link.look_pause_ns;
  stuck_.Add(&link);
}

size_t Outbox::Continue(absl::FunctionRef<void(Link&)> looked) {
  context_.ReadClock();
  size_t progress = 0;
  for (size_t looks = std::min(stuck_.size(), kLooks); looks > 0; --looks) {
    Link* const link = stuck_.Pop();
    const bool is_due = looks_due_ > 0 || context_.now_ns >= link->look_ns;
    if (looks_due_ > 0) --looks_due_;
    if (is_due) {
      if (Look(*link)) ++progress;
      looked(*link);
    }
    if (!is_due || !link->replies.empty()) stuck_.Add(link);
  }
  RingAll();
  retry_ns_ = progress > 0 ? kMinRetryNs : std::clamp(2 * retry_ns_, kMinRetryNs, kMaxRetryNs);
  if (!stuck_.empty()) context_.WakeBy(context_.now_ns + retry_ns_);
  if (stuck_.empty()) looks_due_ = 0;
  return progress;
}

// Returns whether anything moved.
bool Outbox::Look(Link& link) {
  context_.stats.looks_at_stuck.Add();
  const bool moved = link.replies.Continue();
  link.look_pause_ns = moved ? kMinRetryNs : std::clamp(2 * link.look_pause_ns, kMinRetryNs, kMaxLookPauseNs);
  link.look_ns = context_.now_ns + link.look_pause_ns;
  if (!moved) return false;
  WantRing(link);
  Balance(link);
  return true;
}

void Outbox::Balance(Link& link) {
  const size_t kept = link.kept_bytes();
  if (kept == link.counted_bytes) return;
  WorkerStats& stats = context_.stats;
  stats.kept_bytes.Set(stats.kept_bytes.value() + kept - link.counted_bytes);
  link.counted_bytes = kept;
  link.entry->kept_bytes.Set(kept);
  const size_t limit = context_.shared.max_kept_bytes;
  const bool paused = kept > (link.paused ? limit / 2 : limit) && !link.closing;
  if (paused == link.paused) return;
  link.paused = paused;
  link.connection->SetReceiving(!paused);
  if (!link.closing) link.entry->Set(paused ? ConnectionList::State::kPaused : ConnectionList::State::kWelcome);
  if (paused) stats.receive_pauses.Add();
  stats.paused_connections.Set(stats.paused_connections.value() + (paused ? 1 : uint64_t{0} - 1));
}

void Outbox::Remove(Link& link) {
  unrung_.Remove(&link);
  stuck_.Remove(&link);
  looks_due_ = std::min(looks_due_, stuck_.size());  // a look at an absent one would keep the worker awake
}

}  // namespace farlook::server
