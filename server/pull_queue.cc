#include "server/pull_queue.h"

#include <algorithm>
#include <utility>

#include "server/lock_times.h"
#include "server/log.h"
#include "server/room_turns.h"

namespace farlook::server {
namespace {

// Lengths of READs but the last stay multiples of 8, so that addresses do.
uint64_t ReadBytesFor(const rdma::Capabilities& capabilities) {
  uint64_t bytes = PullQueue::kMaxReadBytes;
  if (capabilities.max_read_bytes >= 8) {
    bytes = std::min(bytes, capabilities.max_read_bytes);
  }
  return bytes / 8 * 8;
}

}  // namespace

PullQueue::PullQueue(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time,
                     WorkerStats* stats, rdma::Connection* connection)
    : table_(table),
      locks_(locks),
      clock_(clock),
      time_(time),
      stats_(stats),
      connection_(connection),
      read_bytes_(ReadBytesFor(connection->capabilities())),
      max_posted_(std::clamp<uint32_t>(connection->capabilities().max_outstanding_reads, 1, kMaxPostedReads)) {}

PullQueue::~PullQueue() {
  for (Pull& pull : pulls_) {
    if (pull.in_use && pull.posted == 0) Abandon(pull);
  }
}

void PullQueue::Add(const kv::Request& request, uint64_t hash) {
  Waiting waiting{request, std::string(request.key), hash, 0};
  waiting.request.key = {};  // points into the message, which is gone at the next Poll
  waiting.request.options = {};
  waiting_.push_back(std::move(waiting));
  stats_->pulls.Add();
}

bool PullQueue::Post() {
  if (closed_) return false;
  bool progress = false;
  while (active_ < kMaxActive && !waiting_.empty() && !begin_wants_room_) {
    Begin(/*may_step=*/false);
    progress = true;
  }
  for (size_t i = 0; i < kMaxActive && posted_ < max_posted_; ++i) {
    if (pulls_[i].in_use && PostReads(i)) progress = true;
  }
  return progress;
}

void PullQueue::MakeRoom() {
  if (verified_ > 0) {
    return Publish(*std::find_if(pulls_.begin(), pulls_.end(), [](const Pull& p) { return p.in_use && p.verified; }),
                   /*may_step=*/true);
  }
  begin_wants_room_ = false;
  if (active_ < kMaxActive) Begin(/*may_step=*/true);
}

// Whether what was just told that room is being made may go on waiting.
bool PullQueue::MayWait(int64_t* since_ns, int64_t now_ns) {
  if (*since_ns == 0) {
    *since_ns = std::max<int64_t>(now_ns, 1);
    stats_->waits_for_room.Add();
  }
  return now_ns - *since_ns < kLongestRoomWaitNs;
}

void PullQueue::Begin(bool may_step) {
  Waiting waiting = std::move(waiting_.front());
  waiting_.pop_front();
  Pull& pull = *std::find_if(pulls_.begin(), pulls_.end(), [](const Pull& p) { return !p.in_use; });
  pull = Pull{};
  pull.in_use = true;
  ++active_;
  pull.number = waiting.request.number;
  pull.condition = waiting.request.condition;
  pull.version = waiting.request.version;
  pull.option = waiting.request.option;
  pull.deadline_us = waiting.request.deadline_us;
  pull.hash = waiting.hash;
  pull.source = waiting.request.source;
  pull.since_ns = waiting.since_ns;
  const int64_t now_ns = clock_->NowNs();
  if (time_.IsOver(pull.deadline_us, now_ns)) return End(pull, /*cut=*/false, Outcome{kv::Code::kExpired});
  kv::Code code;
  {
    TimedLock lock(locks_->of(waiting.hash), &stats_->lock_times);
    code = table_->Reserve(waiting.hash, waiting.key, waiting.request.value_bytes, &pull.reservation, clock_->NowNs(),
                           may_step);
  }
  if (code == kv::Code::kMakingRoom) {
    if (MayWait(&waiting.since_ns, now_ns)) {
      begin_wants_room_ = true;
      pull.in_use = false;
      --active_;
      waiting_.push_front(std::move(waiting));
      return;
    }
    code = kv::Code::kNoMemory;
  }
  if (code != kv::Code::kOk) {
    End(pull, /*cut=*/false, Outcome{code});
  } else {
    EndIfComplete(pull);  // a value of no bytes
  }
}

bool PullQueue::PostReads(size_t index) {
  Pull& pull = pulls_[index];
  bool progress = false;
  const uint64_t size = pull.reservation.value.size();
  while (!pull.failed && !pull.flushed && pull.offset < size && posted_ < max_posted_) {
    const uint64_t bytes = std::min(read_bytes_, size - pull.offset);
    const rdma::Sge to{pull.reservation.value.data() + pull.offset, static_cast<uint32_t>(bytes)};
    if (!connection_->PostRead(index, absl::MakeConstSpan(&to, 1), pull.source.address + pull.offset,
                               pull.source.rkey)) {
      break;
    }
    // The destination belongs to the transport until OnRead().
    pull.offset += bytes;
    ++pull.posted;
    ++posted_;
    progress = true;
  }
  return progress;
}

bool PullQueue::Has(uint64_t hash) const {
  return std::any_of(pulls_.begin(), pulls_.end(), [hash](const Pull& p) { return p.in_use && p.hash == hash; }) ||
         std::any_of(waiting_.begin(), waiting_.end(), [hash](const Waiting& w) { return w.hash == hash; });
}

bool PullQueue::wants_post() const {
  if (closed_ || posted_ > 0) return false;
  return (!waiting_.empty() && !begin_wants_room_) || active_ > verified_;
}

void PullQueue::OnRead(const rdma::Completion& completion) {
  if (completion.wr_id >= kMaxActive || pulls_[completion.wr_id].posted == 0) {
    Log(LogLevel::kError, "completion of a READ that was not posted", {{"wr_id", completion.wr_id}});
    return;
  }
  Pull& pull = pulls_[completion.wr_id];
  --pull.posted;
  --posted_;
  switch (completion.status) {
    case rdma::WcStatus::kSuccess:
      break;
    case rdma::WcStatus::kRemoteAccess:
    case rdma::WcStatus::kLocalError:
      pull.failed = true;
      break;
    case rdma::WcStatus::kFlushed:
    case rdma::WcStatus::kRetryExceeded:
      pull.flushed = true;
      break;
  }
  EndIfComplete(pull);
}

void PullQueue::EndIfComplete(Pull& pull) {
  if (pull.posted > 0) return;
  if (pull.failed) {
    Abandon(pull);
    stats_->failed_pulls.Add();
    End(pull, /*cut=*/false, Outcome{kv::Code::kBadValue});
  } else if (pull.offset == pull.reservation.value.size() && !pull.flushed && !pull.verified) {
    Verify(pull);
  } else if (pull.flushed || closed_) {
    Abandon(pull);
    End(pull, /*cut=*/true, Outcome{});
  }
}

void PullQueue::Verify(Pull& pull) {
  const absl::Span<const char> value = pull.reservation.value;
  const uint64_t hash = table_->hasher()(value.data(), value.size());
  if (hash != pull.source.hash) {
    Abandon(pull);
    stats_->failed_pulls.Add();
    End(pull, /*cut=*/false, Outcome{kv::Code::kBadValue});
    return;
  }
  stats_->pulled_bytes.Add(value.size());
  pull.verified = true;
  ++verified_;
  Publish(pull, /*may_step=*/false);
}

void PullQueue::Publish(Pull& pull, bool may_step) {
  kv::WriteResult result{kv::Code::kExpired, 0, {}};
  bool cut = false;
  {
    TimedLock lock(locks_->of(pull.reservation.hash), &stats_->lock_times);
    const int64_t now_ns = clock_->NowNs();
    if (time_.IsOver(pull.deadline_us, now_ns)) {
      table_->Abandon(pull.reservation);
    } else {
      kv::PutParams params{pull.condition, pull.version};
      // Its ttl begins now, however long the value was under way.
      params.expiry_ms = time_.ExpiryMs(pull.option.ttl_us, now_ns);
      params.keep_ttl = pull.option.keep_ttl;
      params.flags = pull.option.item_flags;
      params.may_step = may_step;
      result = table_->Publish(pull.reservation, params, now_ns);
    }
    if (result.code == kv::Code::kMakingRoom) {
      if (!closed_ && MayWait(&pull.since_ns, now_ns)) return;
      table_->Abandon(pull.reservation);
      cut = closed_;
      result.code = kv::Code::kNoMemory;
    }
  }
  End(pull, cut, Outcome{result.code, result.version, result.slot});
}

void PullQueue::Abandon(Pull& pull) {
  TimedLock lock(locks_->of(pull.reservation.hash), &stats_->lock_times);
  table_->Abandon(pull.reservation);
}

void PullQueue::End(Pull& pull, bool cut, const Outcome& outcome) {
  if (cut) stats_->cut_pulls.Add();
  if (pull.verified) --verified_;
  if (pull.since_ns != 0) stats_->NoteRoomWait(clock_->NowNs() - pull.since_ns);
  ended_.push_back({pull.number, cut, outcome});
  pull.in_use = false;
  --active_;
}

void PullQueue::Close() {
  if (closed_) return;
  closed_ = true;
  for (const Waiting& waiting : waiting_) {
    stats_->cut_pulls.Add();
    ended_.push_back({waiting.request.number, /*cut=*/true, Outcome{}});
  }
  waiting_.clear();
  begin_wants_room_ = false;
  for (Pull& pull : pulls_) {
    if (pull.in_use) EndIfComplete(pull);
  }
}

void PullQueue::OnDisconnected() {
  Close();
  for (Pull& pull : pulls_) {
    if (!pull.in_use) continue;
    // The transport broke its word.  The memory stays reserved for good, which
    // is the lesser evil; the number was not executed.
    Log(LogLevel::kError, "READs did not complete before the disconnection",
        {{"reads", pull.posted}, {"bytes_lost", pull.reservation.value.size()}});
    End(pull, /*cut=*/true, Outcome{});
  }
  posted_ = 0;
}

}  // namespace farlook::server
