#include "cluster/stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/expiry_word.h"

namespace farlook::cluster {

OutgoingStream::OutgoingStream(uint64_t epoch, uint64_t primary, uint64_t next, std::deque<Record> tail,
                               size_t most_bytes)
    : epoch_(epoch),
      primary_(primary),
      most_bytes_(most_bytes),
      led_from_(next),
      next_(next),
      committed_(next - 1 - tail.size()),
      kept_(std::move(tail)) {
  for (const Record& record : kept_) kept_bytes_ += record.bytes();
}

absl::StatusOr<uint64_t> OutgoingStream::Append(Record record) {
  const size_t bytes = record.bytes();
  if (kept_bytes_ != 0 && kept_bytes_ + bytes > most_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("a backup has not accepted ", kept_bytes_,
                                                     " bytes of writes yet, and more are not kept; try again later"));
  }
  appended_ = true;
  record.sequence = next_;
  kept_.push_back(std::move(record));
  kept_bytes_ += bytes;
  return next_++;
}

absl::StatusOr<uint64_t> OutgoingStream::Follow(uint64_t backup, uint64_t accepted) {
  // Whoever did not follow this primary before has nothing of what it appended, whatever the number says.
  const uint64_t beyond = backups_.contains(backup) ? next_ : led_from_;
  if (accepted >= beyond && appended_) {
    return absl::FailedPreconditionError(absl::StrCat("a backup has record ", accepted,
                                                      " of a former epoch, or of nobody: the last that it can have is ",
                                                      beyond - 1));
  }
  if (accepted + 1 < first_kept()) {
    return absl::FailedPreconditionError(
        absl::StrCat("records from ", accepted + 1, " are not kept any more: the backup must be filled anew"));
  }
  const uint64_t from = std::min(accepted, last());
  backups_[backup] = {.sent = from, .accepted = from < accepted ? 0 : from, .told_commit = 0};
  return from;
}

uint64_t OutgoingStream::Begin(uint64_t backup) {
  backups_[backup] = {.sent = last(), .accepted = last(), .told_commit = 0};
  return last();
}

void OutgoingStream::Forget(uint64_t backup) {
  backups_.erase(backup);
  Trim();
}

std::string OutgoingStream::NextBatch(uint64_t backup, size_t most_bytes, uint64_t clock_us, bool alone) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return "";
  Backup& to = found->second;
  if (to.sent + 1 == next_ && (!alone || to.told_commit == committed_)) return "";
  const Batch head{
      .epoch = epoch_, .primary = primary_, .commit = committed_, .first = to.sent + 1, .clock_us = clock_us};
  const auto first = kept_.begin() + static_cast<ptrdiff_t>(head.first - first_kept());
  auto end = first;
  size_t bytes = 0;
  for (; end != kept_.end() && (end == first || bytes + end->bytes() <= most_bytes); ++end) bytes += end->bytes();
  BatchEncoder encoder(head, bytes);
  std::for_each(first, end, [&encoder](const Record& record) { encoder.Add(record); });
  to.sent += static_cast<uint64_t>(end - first);
  to.told_commit = committed_;
  return std::move(encoder).Finish();
}

absl::Status OutgoingStream::Accepted(uint64_t backup, uint64_t accepted) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return absl::OkStatus();
  if (accepted > last()) {
    return absl::InvalidArgumentError(absl::StrCat("a backup accepted record ", accepted, " and the last is ", last()));
  }
  // A batch of a former connection may have arrived late.
  found->second.sent = std::max(found->second.sent, accepted);
  found->second.accepted = std::max(found->second.accepted, accepted);
  Trim();
  return absl::OkStatus();
}

uint64_t OutgoingStream::Commit(const std::vector<uint64_t>& must_accept) {
  uint64_t all = last();
  for (const uint64_t backup : must_accept) {
    const auto found = backups_.find(backup);
    all = std::min(all, found == backups_.end() ? 0 : found->second.accepted);
  }
  committed_ = std::max(committed_, all);
  Trim();
  return committed_;
}

void OutgoingStream::Trim() {
  uint64_t needed = committed_;
  for (const auto& [incarnation, backup] : backups_) needed = std::min(needed, backup.accepted);
  while (!kept_.empty() && kept_.front().sequence <= needed) {
    kept_bytes_ -= kept_.front().bytes();
    kept_.pop_front();
  }
}

void ClockLead::Hear(uint64_t other_us, uint64_t own_us) {
  const int64_t heard_us = static_cast<int64_t>(own_us) - static_cast<int64_t>(other_us);
  const int64_t since_us = static_cast<int64_t>(own_us - heard_us_);
  const int64_t drifted_us = lead_us_ + (since_us + kDriftParts - 1) / kDriftParts;
  lead_us_ = known_ ? std::min(drifted_us, heard_us) : heard_us;
  known_ = true;
  heard_us_ = own_us;
}

uint64_t ClockLead::OwnMs(uint64_t other_ms) const {
  const int64_t own_us = static_cast<int64_t>(other_ms) * 1000 + lead_us_;
  return static_cast<uint64_t>(std::clamp<int64_t>((own_us + 999) / 1000, 1, int64_t{kv::kExpiryTimeMask}));
}

absl::Status IncomingStream::Take(absl::string_view bytes, uint64_t clock_us,
                                  absl::FunctionRef<bool(const Record&)> reserve) {
  absl::StatusOr<Batch> batch = DecodeBatch(bytes);
  if (!batch.ok()) return batch.status();
  if (batch->epoch != epoch_ || batch->primary != primary_) {
    return absl::FailedPreconditionError(absl::StrCat("records of epoch ", batch->epoch, ", and this is ", epoch_));
  }
  if (batch->first > accepted_ + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("records ", accepted_ + 1, " to ", batch->first - 1, " are missing"));
  }
  // Whatever becomes of the records: what all members accepted is to be applied, and may be what makes room.
  committed_ = std::max(committed_, batch->commit);
  lead_.Hear(batch->clock_us, clock_us);
  for (Record& record : batch->records) {
    if (record.sequence <= accepted_) continue;
    if (record.expires_ms != 0) record.expires_ms = lead_.OwnMs(record.expires_ms);
    if (!reserve(record)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for record ", record.sequence, " of ", record.bytes(), " bytes"));
    }
    accepted_ = record.sequence;
    kept_.push_back(std::move(record));
  }
  return absl::OkStatus();
}

}  // namespace farlook::cluster
