// The ordered stream of records from a primary to its backups, for one epoch: which are sent, accepted, committed,
// kept.
//
// Pure: bytes in and out; no threads, no clock. Member decides whether a record may be accepted at all (rule 5), and
// whose acceptances count (rule 4).
//
// Invariants: of any two members that accepted records in one epoch, one has a prefix of the other's records. All
// members have accepted every committed record. Each keeps the records that it does not know to be committed, so a
// promoter can send the others what they lack. Records that they have and the promoter lacks are not committed; they
// cut these off before it appends anything.
#ifndef FARLOOK_CLUSTER_STREAM_H_
#define FARLOOK_CLUSTER_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cluster/record.h"

namespace farlook::cluster {

// A batch to send: `records` point into `memory`, which is no longer modified there.
struct OutgoingBatch {
  BatchHead head;
  absl::string_view records = {};
  std::shared_ptr<const char[]> memory = {};
};

// The primary's side. Records are kept in encoded form. Thread safety: none.
class OutgoingStream {
 public:
  // `tail`: records accepted by at least one member in the former epoch, perhaps not by all; `next`: the sequence after
  // it. At most `most_bytes` of records are kept.
  OutgoingStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<Record>& tail, size_t most_bytes);

  // The primary enters another epoch of its own; acceptances of the previous one remain valid.
  void EnterEpoch(uint64_t epoch) { epoch_ = epoch; }

  // Records with at least this many bytes in total should be encoded before Append(), if that is called under a lock.
  static constexpr size_t kLongBytes = 16 << 10;
  // Assigns the next sequences to `records`, at least one, and returns the last; `encoded`: the records in encoded
  // form, one after the other, if already available. RESOURCE_EXHAUSTED: a backup lags so far behind that there is no
  // room to keep them; the write waits until it caught up, or is removed. If no backup lags, any record has room.
  absl::StatusOr<uint64_t> Append(absl::Span<const Record> records, std::shared_ptr<char[]> encoded = nullptr);
  absl::StatusOr<uint64_t> Append(const Record& record) { return Append(absl::MakeConstSpan(&record, 1)); }

  // A backup is connected, for the first time or again, and has accepted all up to `accepted`. Returns the record after
  // which it will be sent everything. If that is less than `accepted`, and nothing was appended yet, it has records of
  // the former epoch that this primary lacks. None of them is committed. Its acceptances count when it has cut them off
  // and reported that; until then nothing may be appended. FAILED_PRECONDITION: the records after `accepted` are no
  // longer kept, or it has records of the former epoch in the place of records appended since: it must be filled again.
  absl::StatusOr<uint64_t> Follow(uint64_t backup, uint64_t accepted);
  // The same for an empty backup, which gets all existing data in other ways: it follows from last(), which is
  // returned.
  uint64_t Begin(uint64_t backup);
  void Forget(uint64_t backup);
  // The last record that was sent to it over its connection. REQUIRES it follows.
  uint64_t SentTo(uint64_t backup) const { return backups_.at(backup).sent; }

  // The next batch for `backup`: records of at most `most_bytes`, but at least one, and the commit index. Nothing: it
  // has been sent everything, or everything except the commit index, which is sent without records only if `alone`.
  // `clock_us`: this primary's clock, now or just before.
  std::optional<OutgoingBatch> NextBatch(uint64_t backup, size_t most_bytes, uint64_t clock_us, bool alone = true);
  // `backup` accepted all up to `accepted`; late and repeated reports are ignored. INVALID_ARGUMENT: there is no such
  // record.
  absl::Status Accepted(uint64_t backup, uint64_t accepted);

  // The highest sequence that all of `must_accept` accepted; never decreases.
  uint64_t Commit(const std::vector<uint64_t>& must_accept);
  uint64_t committed() const { return committed_; }
  uint64_t last() const { return next_ - 1; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Backup {
    uint64_t sent = 0, accepted = 0;
    uint64_t sent_commit = 0;
  };

  // Memory of consecutive records.
  struct Chunk {
    std::shared_ptr<char[]> memory;
    size_t bytes = 0, used = 0;
    size_t kept = 0;  // records in it
  };
  static constexpr size_t kChunkBytes = 64 << 10;
  struct Kept {
    Chunk* chunk;
    size_t offset, bytes;
  };

  void Keep(const Record& record, bool is_encoded);
  // Drops records that no backup needs any more.
  void Trim();
  uint64_t first_kept() const { return next_ - kept_.size(); }

  uint64_t epoch_;
  const uint64_t primary_;
  const size_t most_bytes_;
  const uint64_t led_from_;  // the first sequence that this primary may append
  uint64_t next_;
  bool appended_ = false;
  uint64_t committed_;
  std::deque<Chunk> chunks_;
  std::deque<Kept> kept_;  // the last records up to next_ - 1
  size_t kept_bytes_ = 0;
  std::map<uint64_t, Backup> backups_;
};

// An upper bound of how far the own clock is ahead of another one: determined by the fastest message, plus an allowance
// for the drift of both since.
class ClockLead {
 public:
  static constexpr int64_t kDriftParts = 1000;  // clocks drift apart by at most one part in this number

  // The other clock showed `other_us` before the own one showed `own_us`.
  void Update(uint64_t other_us, uint64_t own_us);
  // The time on the own clock, in milliseconds, when the other one certainly shows at least `other_ms`. REQUIRES
  // Update().
  uint64_t OwnMs(uint64_t other_ms) const;

 private:
  bool known_ = false;
  int64_t lead_us_ = 0;
  uint64_t updated_us_ = 0;  // on the own clock
};

// A backup's side. Thread safety: none.
class IncomingStream {
 public:
  // For a backup that has accepted, and applied, all up to `accepted`.
  IncomingStream(uint64_t epoch, uint64_t primary, uint64_t accepted)
      : epoch_(epoch), primary_(primary), accepted_(accepted), committed_(accepted) {}

  // From now on it receives from `primary`. Accepted and kept records stay.
  void EnterEpoch(uint64_t epoch, uint64_t primary) {
    if (primary != primary_) lead_ = ClockLead();
    if (primary != primary_ || epoch != epoch_) DropOffered();
    epoch_ = epoch;
    primary_ = primary;
  }

  // Accepts new records of a batch, as long as `reserve` secures room for them: publishing must not fail later.
  // Expiries are converted to the own clock (ClockLead), which shows `clock_us`. An item never expires earlier than on
  // the primary's clock, and later by no more than the transit time. INVALID_ARGUMENT: torn. FAILED_PRECONDITION: of
  // another epoch, or earlier records are missing: reconnect and send accepted(). RESOURCE_EXHAUSTED: no room; the
  // records before it are accepted. The others are kept and tried again at the next batch, which may contain no records
  // and commit some.
  absl::Status Take(std::string batch, uint64_t clock_us, absl::FunctionRef<bool(const Record&)> reserve);

  // The next record that is committed and not applied; null: there is none. Applied() reports that it was applied.
  const Record* ToApply() const {
    return !kept_.empty() && kept_.front().sequence <= committed_ ? &kept_.front() : nullptr;
  }
  void Applied() {
    kept_.pop_front();
    if (--batches_.front().kept == 0) batches_.pop_front();
  }
  // Drops the newest record, which a new primary does not have. REQUIRES tail() is not empty.
  void CutNewest() {
    DropOffered();
    --accepted_;
    kept_.pop_back();
    if (--batches_.back().kept == 0) batches_.pop_back();
  }
  // For a promoter, once all members accepted the tail: everything is committed.
  void CommitAll() {
    DropOffered();
    committed_ = accepted_;
  }

  uint64_t accepted() const { return accepted_; }
  uint64_t committed() const { return committed_; }
  // Accepted and not applied: the records that a promoter makes the other members accept. Owned by the stream.
  const std::deque<Record>& tail() const { return kept_; }

 private:
  // A received batch, kept while some of its records are kept, which point into it.
  struct Arrived {
    std::string bytes;
    size_t kept = 0;
  };

  absl::Status Offer(Arrived* arrived, uint64_t clock_us);
  // Drops the records that were not accepted: they are received again if the primary has them.
  void DropOffered();

  uint64_t epoch_, primary_;
  uint64_t accepted_;
  uint64_t committed_;  // as reported by the primary; a joiner may lag behind it
  ClockLead lead_;
  std::deque<Arrived> batches_;
  std::deque<Record> kept_;
  std::deque<Record> offered_;  // after kept_: received, and not accepted yet for lack of room
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_STREAM_H_
