#include "server/counter_links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kv/cell_notice.h"
#include "server/log.h"

namespace farlook::server {
namespace {

// Between looks whether a client that was stopped within an atomic is out: doubled from the first to the last.
constexpr int64_t kMinLookNs = 1'000'000;
constexpr int64_t kMaxLookNs = 1'000'000'000;
// At so many of them at once: each may cost a system call.
constexpr size_t kLooks = 8;

// When a link was told: not known before the next look for messages, as the notice may not have been rung yet.
constexpr int64_t kUntimed = std::numeric_limits<int64_t>::min();

}  // namespace

CounterLinks::CounterLinks(Counters* counters, std::function<void()> wake, int64_t patience_ns)
    : counters_(counters), patience_ns_(patience_ns), worker_(counters->AddWorker(std::move(wake))) {}

CounterLinks::~CounterLinks() = default;

void CounterLinks::Enroll(Link& link) {
  if (link.holder != 0) return;
  link.holder = counters_->Enroll();
  links_.push_back(&link);
}

bool CounterLinks::Acknowledge(Link& link, uint64_t sequence) {
  if (link.holder == 0 || !counters_->Acknowledge(link.holder, sequence)) return false;
  std::erase(waiting_, &link);
  news_ = true;  // there may be more for it by now
  return true;
}

bool CounterLinks::Closed(Link& link, int64_t now_ns) {
  if (link.holder == 0) return true;
  std::erase(links_, &link);
  std::erase(waiting_, &link);
  const Counters::Holder holder = std::exchange(link.holder, 0);
  if (link.connection->quiescent()) {
    link.connection.reset();  // only now can nothing arrive any more
    counters_->Leave(holder);
    return true;
  }
  uint64_t suppressed;
  if (stopped_log_.Allow(now_ns, &suppressed)) {
    Log(LogLevel::kWarning, "client was stopped within an atomic; cells deleted since wait until it goes on or ends",
        {{"peer", link.connection->peer()}, {"suppressed", suppressed}});
  }
  link.connection->context = nullptr;
  link.entry->StayWithinAtomic();
  remains_.push_back({std::move(link.connection), holder, std::move(link.entry)});
  pause_ns_ = kMinLookNs;
  look_ns_ = now_ns + pause_ns_;
  due_ns_ = std::min(due_ns_, look_ns_);
  return false;
}

size_t CounterLinks::Poll(int64_t now_ns, int64_t looked_ns, absl::FunctionRef<void(Link&, absl::string_view)> post,
                          absl::FunctionRef<void(Link&)> late, absl::FunctionRef<void(bool)> gone) {
  size_t done = DropLate(looked_ns, late);
  if (std::exchange(news_, false)) done += TellAll(post);
  if (!remains_.empty() && now_ns >= look_ns_) done += BuryRemains(now_ns, gone);
  due_ns_ = remains_.empty() ? kNever : look_ns_;
  if (!waiting_.empty()) {
    const int64_t told_ns = waiting_.front()->told_ns;
    due_ns_ = std::min(due_ns_, told_ns == kUntimed ? now_ns : told_ns + patience_ns_);
  }
  return done;
}

size_t CounterLinks::TellAll(absl::FunctionRef<void(Link&, absl::string_view)> post) {
  size_t told = 0;
  for (Link* link : links_) {
    if (link->closing) continue;
    hashes_.clear();
    const uint64_t sequence = counters_->Tell(link->holder, kv::CellNotice::kMaxHashes, &hashes_);
    if (sequence == 0) continue;
    link->told_ns = kUntimed;
    waiting_.push_back(link);
    post(*link, kv::CellNotice::Encode(sequence, hashes_));
    ++told;
  }
  return told;
}

size_t CounterLinks::DropLate(int64_t looked_ns, absl::FunctionRef<void(Link&)> late) {
  // The last notices have been rung since: their time begins.
  for (auto link = waiting_.rbegin(); link != waiting_.rend() && (*link)->told_ns == kUntimed; ++link) {
    (*link)->told_ns = looked_ns;
  }
  size_t dropped = 0;
  while (!waiting_.empty() && (waiting_.front()->closing || looked_ns - waiting_.front()->told_ns >= patience_ns_)) {
    Link* link = waiting_.front();
    waiting_.erase(waiting_.begin());
    if (link->closing) continue;
    late(*link);
    ++dropped;
  }
  return dropped;
}

size_t CounterLinks::BuryRemains(int64_t now_ns, absl::FunctionRef<void(bool)> gone) {
  size_t buried = 0;
  for (size_t looks = std::min(remains_.size(), kLooks); looks > 0; --looks) {
    Remains remains = std::move(remains_.front());
    remains_.pop_front();
    if (!remains.connection->quiescent()) {
      remains_.push_back(std::move(remains));
      continue;
    }
    remains.connection.reset();
    counters_->Leave(remains.holder);
    gone(remains.entry->Leave());
    ++buried;
  }
  // Each is looked at once in kMaxLookNs.
  const auto turns = static_cast<int64_t>(remains_.size() / kLooks + 1);
  pause_ns_ = std::min(2 * pause_ns_, kMaxLookNs / turns);
  look_ns_ = now_ns + pause_ns_;
  return buried;
}

}  // namespace farlook::server
