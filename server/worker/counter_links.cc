#include "server/worker/counter_links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kv/wire/cell_notice.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

// Pause between two checks whether a client has left its atomic. It doubles from the first to the second value.
constexpr int64_t kMinLookNs = 1'000'000;
constexpr int64_t kMaxLookNs = 1'000'000'000;
// Clients checked at once: each check may cost a system call.
constexpr size_t kLooks = 8;

// Value of noticed_ns before the next look for messages: the notice may not have been rung yet.
constexpr int64_t kUntimed = std::numeric_limits<int64_t>::min();

}  // namespace

CounterLinks::CounterLinks(Counters* counters, std::function<void()> wake, int64_t patience_ns)
    : counters_(counters), patience_ns_(patience_ns), worker_(counters->AddWorker(std::move(wake))) {}

CounterLinks::~CounterLinks() = default;

void CounterLinks::Enroll(Link& link) {
  if (link.cells.holder != 0) return;
  link.cells.holder = counters_->Enroll();
  links_.Add(&link);
}

bool CounterLinks::Acknowledge(Link& link, uint64_t sequence) {
  if (link.cells.holder == 0 || !counters_->Acknowledge(link.cells.holder, sequence)) return false;
  waiting_.Remove(&link);
  news_ = true;  // there may be further notices for it
  return true;
}

bool CounterLinks::Closed(Link& link, int64_t now_ns) {
  if (link.cells.holder == 0) return true;
  links_.Remove(&link);
  waiting_.Remove(&link);
  const Counters::Holder holder = std::exchange(link.cells.holder, 0);
  if (link.connection->quiescent()) {
    link.connection.reset();  // only now can nothing arrive any more
    counters_->Leave(holder);
    return true;
  }
  uint64_t suppressed;
  if (stopped_log_.Allow(now_ns, &suppressed)) {
    Log(LogLevel::kWarning,
        "client was stopped within an atomic; cells deleted since then are freed when it continues or ends",
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
  if (std::exchange(news_, false)) done += SendNotices(post);
  if (!remains_.empty() && now_ns >= look_ns_) done += BuryRemains(now_ns, gone);
  due_ns_ = remains_.empty() ? kNever : look_ns_;
  if (!waiting_.empty()) {
    const int64_t noticed_ns = waiting_.front()->cells.noticed_ns;
    due_ns_ = std::min(due_ns_, noticed_ns == kUntimed ? now_ns : noticed_ns + patience_ns_);
  }
  return done;
}

size_t CounterLinks::SendNotices(absl::FunctionRef<void(Link&, absl::string_view)> post) {
  size_t told = 0;
  for (Link* link = links_.front(); link != nullptr; link = links_.Next(link)) {
    if (link->closing) continue;
    hashes_.clear();
    const uint64_t sequence = counters_->NextNotice(link->cells.holder, kv::CellNotice::kMaxHashes, &hashes_);
    if (sequence == 0) continue;
    link->cells.noticed_ns = kUntimed;
    waiting_.Add(link);
    post(*link, kv::CellNotice::Encode(sequence, hashes_));
    ++told;
  }
  return told;
}

size_t CounterLinks::DropLate(int64_t looked_ns, absl::FunctionRef<void(Link&)> late) {
  // The last notices have been rung since, so their patience begins now.
  for (Link* link = waiting_.back(); link != nullptr && link->cells.noticed_ns == kUntimed;
       link = waiting_.Previous(link)) {
    link->cells.noticed_ns = looked_ns;
  }
  size_t dropped = 0;
  while (!waiting_.empty() &&
         (waiting_.front()->closing || looked_ns - waiting_.front()->cells.noticed_ns >= patience_ns_)) {
    Link* const link = waiting_.Pop();
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
  // Each client is checked once in kMaxLookNs.
  const auto turns = static_cast<int64_t>(remains_.size() / kLooks + 1);
  pause_ns_ = std::min(2 * pause_ns_, kMaxLookNs / turns);
  look_ns_ = now_ns + pause_ns_;
  return buried;
}

}  // namespace farlook::server
