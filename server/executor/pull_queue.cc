#include "server/executor/pull_queue.h"

#include <algorithm>
#include <utility>

#include "server/base/lock_times.h"
#include "server/base/log.h"
#include "server/executor/room_turns.h"
#include "server/executor/sweep.h"

namespace farlook::server {
namespace {

using Stream = kv::Hasher::Stream;

// The length of each READ except the last is a multiple of 8, so that addresses are.
uint64_t ReadBytesFor(const rdma::Capabilities& capabilities) {
  uint64_t bytes = capabilities.local ? PullQueue::kTurnBytes : PullQueue::kMaxReadBytes;
  if (capabilities.max_read_bytes >= 8) {
    bytes = std::min(bytes, capabilities.max_read_bytes);
  }
  return bytes / 8 * 8;
}

}  // namespace

PullQueue::PullQueue(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time,
                     WorkerStats* stats, rdma::Connection* connection, CommitGate* gate)
    : table_(table),
      locks_(locks),
      clock_(clock),
      time_(time),
      stats_(stats),
      connection_(connection),
      gate_(gate),
      local_(connection->capabilities().local),
      read_bytes_(ReadBytesFor(connection->capabilities())),
      max_posted_(
          std::clamp<uint32_t>(connection->capabilities().max_outstanding_reads, 1, local_ ? 1 : kMaxPostedReads)) {}

PullQueue::~PullQueue() {
  for (Pull& pull : pulls_) {
    if (pull.in_use && pull.posted == 0) Abandon(pull);
  }
}

void PullQueue::Add(const kv::Request& request, uint64_t hash) {
  Waiting waiting{request, std::string(request.key), hash, 0};
  waiting.request.key = {};  // points into the message, which is invalid after the next Poll
  waiting.request.options = {};
  waiting_bytes_ += waiting.bytes();
  waiting_.push_back(std::move(waiting));
  stats_->pulls.Add();
}

bool PullQueue::MayPost(const Pull& pull) const {
  return pull.in_use && !pull.failed && !pull.flushed && posted_ < max_posted_ &&
         pull.offset < pull.reservation.value.size() && pull.offset - pull.summed < kMaxAhead * read_bytes_;
}

bool PullQueue::wants_turn() const {
  if (closed_) return false;
  if (active_ < kMaxActive && !waiting_.empty() && !begin_wants_room_) return true;
  return std::any_of(pulls_.begin(), pulls_.end(),
                     [this](const Pull& pull) { return MayPost(pull) || (pull.in_use && pull.summed < pull.arrived); });
}

bool PullQueue::Step(uint64_t most_bytes) {
  if (closed_) return false;
  bool progress = false;
  uint64_t left = most_bytes;
  for (Pull& pull : pulls_) {
    if (left == 0 || !pull.in_use || pull.summed == pull.arrived) continue;
    left -= SumUp(pull, left);
    EndIfComplete(pull);
    progress = true;
  }
  while (active_ < kMaxActive && !waiting_.empty() && !begin_wants_room_) {
    Begin(/*may_step=*/false);
    progress = true;
  }
  for (size_t i = 0; i < kMaxActive; ++i) {
    if (MayPost(pulls_[i]) && PostReads(i, most_bytes)) progress = true;
  }
  return progress;
}

void PullQueue::MakeRoom() {
  awaits_members_ = false;
  if (verified_ > busy_) {
    return Publish(
        *std::find_if(pulls_.begin(), pulls_.end(), [](const Pull& p) { return p.in_use && p.verified && !p.busy; }),
        /*may_step=*/true);
  }
  begin_wants_room_ = false;
  if (active_ < kMaxActive) Begin(/*may_step=*/true);
}

void PullQueue::TryAgain() {
  awaits_members_ = false;
  for (Pull& pull : pulls_) {
    if (!pull.in_use || !pull.busy) continue;
    pull.busy = false;
    --busy_;
    Publish(pull, /*may_step=*/false);
  }
}

// Returns whether a write with this outcome keeps waiting. It does while room is being made, and also if there is no
// memory but items that had expired when it began to wait are not all removed yet, or members of the group may have
// more room than they had reported.
bool PullQueue::MayWait(kv::Code code, int64_t* since_ns, uint64_t* asked, int64_t now_ns) {
  if (code == kv::Code::kNoMemory && *since_ns != 0) {
    if (Sweep::IsDone(*table_, gate_, time_.At(*since_ns))) {
      awaits_members_ = gate_ != nullptr && !gate_->IsRoomKnown(asked);
      if (!awaits_members_) return false;
    }
  } else if (code != kv::Code::kMakingRoom) {
    return false;
  }
  if (*since_ns == 0) {
    *since_ns = std::max<int64_t>(now_ns, 1);
    stats_->waits_for_room.Add();
  }
  return now_ns - *since_ns < kLongestRoomWaitNs;
}

void PullQueue::Begin(bool may_step) {
  Waiting waiting = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= waiting.bytes();
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
  pull.asked = 0;
  const int64_t now_ns = clock_->NowNs();
  if (time_.IsOver(pull.deadline_us, now_ns)) return End(pull, /*cut=*/false, Outcome{kv::Code::kExpired});
  kv::Code code;
  {
    TimedLock lock(locks_->of(waiting.hash), &stats_->lock_times);
    code = table_->Reserve(waiting.hash, waiting.key, waiting.request.value_bytes, &pull.reservation, clock_->NowNs(),
                           may_step, pull.option.item_flags);
  }
  if (MayWait(code, &waiting.since_ns, &waiting.asked, now_ns)) {
    begin_wants_room_ = true;
    pull.in_use = false;
    --active_;
    waiting_bytes_ += waiting.bytes();
    waiting_.push_front(std::move(waiting));
    return;
  }
  if (code == kv::Code::kMakingRoom) code = kv::Code::kNoMemory;
  if (code != kv::Code::kOk) {
    End(pull, /*cut=*/false, Outcome{code});
  } else {
    pull.sums = std::make_unique<Sums>(Sums{Stream(table_->hasher()), Stream(table_->hasher())});
    const uint64_t version = pull.reservation.version;
    pull.sums->item.Update({reinterpret_cast<const char*>(&version), sizeof version});
    pull.sums->item.Update(pull.reservation.head);
    EndIfComplete(pull);  // a value of no bytes
  }
}

bool PullQueue::PostReads(size_t index, uint64_t most_bytes) {
  Pull& pull = pulls_[index];
  bool progress = false;
  const uint64_t size = pull.reservation.value.size();
  const uint64_t piece = local_ ? std::min(read_bytes_, most_bytes) : read_bytes_;
  while (MayPost(pull)) {
    const uint64_t bytes = std::min(piece, size - pull.offset);
    const rdma::Sge to{pull.reservation.value.data() + pull.offset, static_cast<uint32_t>(bytes)};
    if (!connection_->PostRead(pull.offset / read_bytes_ * kMaxActive + index, absl::MakeConstSpan(&to, 1),
                               pull.source.address + pull.offset, pull.source.rkey)) {
      break;
    }
    // The destination belongs to the transport until OnRead().
    pull.offset += bytes;
    if (local_) bytes_handled_ += bytes;
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

void PullQueue::OnRead(const rdma::Completion& completion) {
  if (pulls_[completion.wr_id % kMaxActive].posted == 0) {
    Log(LogLevel::kError, "completion of a READ that was not posted", {{"wr_id", completion.wr_id}});
    return;
  }
  Pull& pull = pulls_[completion.wr_id % kMaxActive];
  --pull.posted;
  --posted_;
  switch (completion.status) {
    case rdma::WcStatus::kSuccess:
      Landed(pull, completion.wr_id / kMaxActive);
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

void PullQueue::Landed(Pull& pull, uint64_t read) {
  if (local_) {  // one READ at a time
    pull.arrived = pull.offset;
    return;
  }
  pull.landed |= uint64_t{1} << (read - pull.arrived / read_bytes_);
  for (; (pull.landed & 1) != 0; pull.landed >>= 1) {
    pull.arrived = std::min<uint64_t>(pull.arrived + read_bytes_, pull.reservation.value.size());
  }
}

// Hashes at most `most_bytes`: 64 MiB at once would take 10 ms. Returns the number of bytes hashed.
uint64_t PullQueue::SumUp(Pull& pull, uint64_t most_bytes) {
  const uint64_t bytes = std::min(most_bytes, pull.arrived - pull.summed);
  const absl::string_view piece(pull.reservation.value.data() + pull.summed, bytes);
  pull.sums->value.Update(piece);
  pull.sums->item.Update(piece);
  pull.summed += bytes;
  bytes_handled_ += bytes;
  return bytes;
}

void PullQueue::EndIfComplete(Pull& pull) {
  if (pull.posted > 0) return;
  if (pull.failed) {
    Abandon(pull);
    stats_->failed_pulls.Add();
    End(pull, /*cut=*/false, Outcome{kv::Code::kBadValue});
  } else if (pull.summed == pull.reservation.value.size() && !pull.flushed && !pull.verified) {
    Verify(pull);
  } else if (pull.flushed || closed_) {
    Abandon(pull);
    End(pull, /*cut=*/true, Outcome{});
  }
}

void PullQueue::Verify(Pull& pull) {
  if (pull.sums->value.Digest() != pull.source.hash) {
    Abandon(pull);
    stats_->failed_pulls.Add();
    End(pull, /*cut=*/false, Outcome{kv::Code::kBadValue});
    return;
  }
  stats_->pulled_bytes.Add(pull.reservation.value.size());
  pull.reservation.checksum = pull.sums->item.Digest();
  pull.verified = true;
  ++verified_;
  Publish(pull, /*may_step=*/false);
}

// Returns the table's parameters. The ttl begins now, however long the value was under way.
kv::PutParams PullQueue::ParamsOf(const Pull& pull, int64_t now_ns) const {
  kv::PutParams params{pull.condition, pull.version};
  params.expiry_ms = time_.ExpiryMs(pull.option.ttl_us, now_ns);
  params.keep_ttl = pull.option.keep_ttl;
  params.refill = pull.option.refill;
  return params;
}

void PullQueue::Publish(Pull& pull, bool may_step) {
  kv::WriteResult result{kv::Code::kExpired, 0, {}};
  CommitGate::Begun begun;
  bool cut = false;
  {
    TimedLock lock(locks_->of(pull.reservation.hash), &stats_->lock_times);
    const int64_t now_ns = clock_->NowNs();
    if (time_.IsOver(pull.deadline_us, now_ns)) {
      table_->Abandon(pull.reservation);
    } else if (gate_ != nullptr) {
      begun = gate_->BeginReserved(pull.reservation, ParamsOf(pull, now_ns), {session_, pull.number}, may_step);
      result = {begun.outcome.code, begun.outcome.version, begun.outcome.slot};
      const bool waits = result.code == kv::Code::kBusy;
      if (waits && !closed_) {
        pull.busy = true;
        ++busy_;
        return;
      }
      if (waits) result.code = kv::Code::kMakingRoom;
    } else {
      kv::PutParams params = ParamsOf(pull, now_ns);
      params.may_step = may_step;
      result = table_->Publish(pull.reservation, params, now_ns);
    }
    const bool is_refused = gate_ != nullptr && result.code == kv::Code::kNoMemory;
    if (result.code == kv::Code::kMakingRoom || is_refused) {
      if (!closed_ && MayWait(result.code, &pull.since_ns, &pull.asked, now_ns)) return;
      table_->Abandon(pull.reservation);
      cut = closed_;
      result.code = kv::Code::kNoMemory;
    }
  }
  begun.outcome = {result.code, result.version, result.slot};
  End(pull, cut, begun);
}

void PullQueue::Abandon(Pull& pull) {
  TimedLock lock(locks_->of(pull.reservation.hash), &stats_->lock_times);
  table_->Abandon(pull.reservation);
}

void PullQueue::End(Pull& pull, bool cut, const CommitGate::Begun& begun) {
  if (cut) stats_->cut_pulls.Add();
  if (pull.verified) --verified_;
  if (pull.busy) --busy_;
  if (pull.since_ns != 0) stats_->NoteRoomWait(clock_->NowNs() - pull.since_ns);
  ended_.push_back({pull.number, cut, pull.hash, begun});
  pull.sums.reset();
  pull.in_use = false;
  --active_;
}

void PullQueue::Close() {
  if (closed_) return;
  closed_ = true;
  for (const Waiting& waiting : waiting_) {
    stats_->cut_pulls.Add();
    ended_.push_back({waiting.request.number, /*cut=*/true, waiting.hash, {}});
  }
  waiting_.clear();
  waiting_bytes_ = 0;
  begin_wants_room_ = false;
  uint64_t left = kTurnBytes;
  for (Pull& pull : pulls_) {
    if (!pull.in_use) continue;
    const uint64_t bytes = pull.reservation.value.size();
    if (pull.arrived == bytes && bytes - pull.summed <= left) left -= SumUp(pull, left);
    EndIfComplete(pull);
  }
}

void PullQueue::OnDisconnected() {
  Close();
  for (Pull& pull : pulls_) {
    if (!pull.in_use) continue;
    // The transport violated its contract. The memory stays reserved for good, since a READ may still write into it.
    // The request was not executed.
    Log(LogLevel::kError, "READs did not complete before the disconnection",
        {{"reads", pull.posted}, {"bytes_lost", pull.reservation.value.size()}});
    End(pull, /*cut=*/true, Outcome{});
  }
  posted_ = 0;
}

}  // namespace farlook::server
