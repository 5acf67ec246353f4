#include "cluster/stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/expiry_word.h"

namespace farlook::cluster {

OutgoingStream::OutgoingStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<Record>& tail,
                               size_t most_bytes)
    : epoch_(epoch),
      primary_(primary),
      most_bytes_(most_bytes),
      led_from_(next),
      next_(next),
      committed_(next - 1 - tail.size()) {
  for (const Record& record : tail) Keep(record, /*is_encoded=*/false);
}

// `is_encoded`: it is the next record in the last chunk.
void OutgoingStream::Keep(const Record& record, bool is_encoded) {
  const size_t bytes = record.bytes();
  if (!is_encoded) {
    if (chunks_.empty() || chunks_.back().bytes - chunks_.back().used < bytes) {
      const size_t chunk_bytes = std::max(kChunkBytes, bytes);
      chunks_.push_back({.memory = std::make_shared_for_overwrite<char[]>(chunk_bytes), .bytes = chunk_bytes});
    }
    EncodeRecord(record, chunks_.back().memory.get() + chunks_.back().used);
  }
  Chunk& chunk = chunks_.back();
  kept_.push_back({&chunk, chunk.used, bytes});
  chunk.used += bytes;
  ++chunk.kept;
  kept_bytes_ += bytes;
}

absl::StatusOr<uint64_t> OutgoingStream::Append(absl::Span<const Record> records, std::shared_ptr<char[]> encoded) {
  const size_t bytes = BytesOf(records);
  if (kept_bytes_ != 0 && kept_bytes_ + bytes > most_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("a backup has not accepted ", kept_bytes_,
                                                     " bytes of writes yet, and more are not kept; try again later"));
  }
  appended_ = true;
  const bool is_encoded = encoded != nullptr;
  if (is_encoded) chunks_.push_back({.memory = std::move(encoded), .bytes = bytes});
  for (const Record& record : records) Keep(record, is_encoded);
  next_ += records.size();
  return last();
}

absl::StatusOr<uint64_t> OutgoingStream::Follow(uint64_t backup, uint64_t accepted) {
  // A backup that did not follow this primary before has nothing that it appended, whatever the number says.
  const uint64_t beyond = backups_.contains(backup) ? next_ : led_from_;
  if (accepted >= beyond && appended_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a backup has record ", accepted,
                     " of an earlier epoch or without an origin: the last that it can have is ", beyond - 1));
  }
  if (accepted + 1 < first_kept()) {
    return absl::FailedPreconditionError(
        absl::StrCat("records from ", accepted + 1, " are not kept any more: the backup must be filled again"));
  }
  const uint64_t from = std::min(accepted, last());
  backups_[backup] = {.sent = from, .accepted = from < accepted ? 0 : from, .sent_commit = 0};
  return from;
}

uint64_t OutgoingStream::Begin(uint64_t backup) {
  backups_[backup] = {.sent = last(), .accepted = last(), .sent_commit = 0};
  return last();
}

void OutgoingStream::Forget(uint64_t backup) {
  backups_.erase(backup);
  Trim();
}

std::optional<OutgoingBatch> OutgoingStream::NextBatch(uint64_t backup, size_t most_bytes, uint64_t clock_us,
                                                       bool alone) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return std::nullopt;
  Backup& to = found->second;
  if (to.sent + 1 == next_ && (!alone || to.sent_commit == committed_)) return std::nullopt;
  OutgoingBatch batch{
      .head = {.epoch = epoch_, .primary = primary_, .commit = committed_, .first = to.sent + 1, .clock_us = clock_us}};
  const auto first = kept_.begin() + static_cast<ptrdiff_t>(batch.head.first - first_kept());
  auto end = first;
  size_t bytes = 0;
  const auto fits = [&] { return end->chunk == first->chunk && bytes + end->bytes <= most_bytes; };
  for (; end != kept_.end() && (end == first || fits()); ++end) bytes += end->bytes;
  if (end != first) {
    batch.memory = first->chunk->memory;
    batch.records = {batch.memory.get() + first->offset, bytes};
  }
  batch.head.records = static_cast<uint32_t>(end - first);
  to.sent += batch.head.records;
  to.sent_commit = committed_;
  return batch;
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
  while (!kept_.empty() && first_kept() <= needed) {
    kept_bytes_ -= kept_.front().bytes;
    --kept_.front().chunk->kept;
    kept_.pop_front();
    // The last chunk takes the next records, unless it was made for a long record.
    while (!chunks_.empty() && chunks_.front().kept == 0 &&
           (chunks_.size() > 1 || chunks_.front().bytes != kChunkBytes)) {
      chunks_.pop_front();
    }
  }
}

void ClockLead::Update(uint64_t other_us, uint64_t own_us) {
  const int64_t ahead_us = static_cast<int64_t>(own_us) - static_cast<int64_t>(other_us);
  const int64_t since_us = static_cast<int64_t>(own_us - updated_us_);
  const int64_t drifted_us = lead_us_ + (since_us + kDriftParts - 1) / kDriftParts;
  lead_us_ = known_ ? std::min(drifted_us, ahead_us) : ahead_us;
  known_ = true;
  updated_us_ = own_us;
}

uint64_t ClockLead::OwnMs(uint64_t other_ms) const {
  const int64_t own_us = static_cast<int64_t>(other_ms) * 1000 + lead_us_;
  return static_cast<uint64_t>(std::clamp<int64_t>((own_us + 999) / 1000, 1, int64_t{kv::kExpiryTimeMask}));
}

absl::Status IncomingStream::Take(std::string bytes, uint64_t clock_us,
                                  absl::FunctionRef<bool(const Record&)> reserve) {
  Arrived& arrived = batches_.emplace_back(Arrived{.bytes = std::move(bytes)});
  absl::Status status = Offer(&arrived, clock_us);
  if (arrived.kept == 0) batches_.pop_back();
  if (!status.ok()) return status;
  while (!offered_.empty()) {
    const Record& record = offered_.front();
    if (!reserve(record)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for record ", record.sequence, " of ", record.bytes(), " bytes"));
    }
    accepted_ = record.sequence;
    kept_.push_back(record);
    offered_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status IncomingStream::Offer(Arrived* arrived, uint64_t clock_us) {
  absl::StatusOr<Batch> batch = DecodeBatch(arrived->bytes);
  if (!batch.ok()) return batch.status();
  const BatchHead& head = batch->head;
  if (head.epoch != epoch_ || head.primary != primary_) {
    return absl::FailedPreconditionError(absl::StrCat("records of epoch ", head.epoch, ", and this is ", epoch_));
  }
  const uint64_t received = accepted_ + offered_.size();
  if (head.first > received + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("records ", received + 1, " to ", head.first - 1, " are missing"));
  }
  // Independently of the records: what all members accepted must be applied, and may make room.
  committed_ = std::max(committed_, head.commit);
  lead_.Update(head.clock_us, clock_us);
  for (Record& record : batch->records) {
    if (record.sequence <= received) continue;
    if (record.expires_ms != 0) record.expires_ms = lead_.OwnMs(record.expires_ms);
    offered_.push_back(record);
    ++arrived->kept;
  }
  return absl::OkStatus();
}

void IncomingStream::DropOffered() {
  for (; !offered_.empty(); offered_.pop_back()) {
    if (--batches_.back().kept == 0) batches_.pop_back();
  }
}

}  // namespace farlook::cluster
