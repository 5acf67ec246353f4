// The ordered stream of records from a primary to its backups, for one epoch: what is sent, accepted, committed, kept.
//
// Pure: bytes in and out; no threads, no clock. Whether a record may be accepted at all (rule 5), and whose acceptances
// count (rule 4), is Member's to say.
//
// Invariants: of any two members that accepted records in one epoch, one has a prefix of what the other has. What is
// committed, all members have accepted. Each keeps what it does not know to be committed, so a promoter can give the
// others what they lack. What they have and it lacks is not committed, and they cut it off before it appends anything.
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

// A batch to send: `records` lie in `memory`, which nobody changes there any more.
struct OutgoingBatch {
  BatchHead head;
  absl::string_view records = {};
  std::shared_ptr<const char[]> memory = {};
};

// The primary's side. Records are kept as they are sent. Thread safety: none.
class OutgoingStream {
 public:
  // `tail`: accepted by somebody in the former epoch, and perhaps not by all; `next`: the sequence after it. At most
  // `most_bytes` of records are kept.
  OutgoingStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<Record>& tail, size_t most_bytes);

  // The primary goes on to an epoch of its own; acceptances of the one before stay true.
  void EnterEpoch(uint64_t epoch) { epoch_ = epoch; }

  // Records of so many bytes in sum are better encoded before Append(), where that is called with a lock.
  static constexpr size_t kLongBytes = 16 << 10;
  // Gives `records`, of which there is one at least, the next sequences, and returns the last; `encoded`: them as
  // bytes, one after the other, if these are there already. RESOURCE_EXHAUSTED: a backup lags so far behind that there
  // is no room to keep it; the write waits until it caught up, or is removed. Where none lags any record has room.
  absl::StatusOr<uint64_t> Append(absl::Span<const Record> records, std::shared_ptr<char[]> encoded = nullptr);
  absl::StatusOr<uint64_t> Append(const Record& record) { return Append(absl::MakeConstSpan(&record, 1)); }

  // A backup is connected, for the first time or again, and has accepted all up to `accepted`. Returns after which
  // record it is sent all: where that is less, and nothing was appended yet, it has records of the former epoch that
  // this primary lacks: none of them is committed, and its acceptances count when it has cut them off and says so.
  // Until then nothing may be appended. FAILED_PRECONDITION: what follows `accepted` is not kept any more, or it has
  // records of the former epoch in the place of what was appended since: it must be filled anew.
  absl::StatusOr<uint64_t> Follow(uint64_t backup, uint64_t accepted);
  // The same for one that is empty, and will have all that there is by other ways: it follows from last(), which is
  // returned.
  uint64_t Begin(uint64_t backup);
  void Forget(uint64_t backup);
  // The last record that was sent to it over its connection. REQUIRES that it follows.
  uint64_t SentTo(uint64_t backup) const { return backups_.at(backup).sent; }

  // What to send to `backup` next: records of at most `most_bytes`, but one at least, and the commit index; nothing: it
  // has been sent all, or all but the commit index, which without `alone` waits for records. `clock_us`: what this
  // primary's clock shows, or did just before.
  std::optional<OutgoingBatch> NextBatch(uint64_t backup, size_t most_bytes, uint64_t clock_us, bool alone = true);
  // `backup` accepted all up to `accepted`; late and repeated ones are ignored. INVALID_ARGUMENT: there is no
  // such record.
  absl::Status Accepted(uint64_t backup, uint64_t accepted);

  // The highest sequence that all of `must_accept` accepted; never less than before.
  uint64_t Commit(const std::vector<uint64_t>& must_accept);
  uint64_t committed() const { return committed_; }
  uint64_t last() const { return next_ - 1; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Backup {
    uint64_t sent = 0, accepted = 0;
    uint64_t told_commit = 0;
  };

  // Memory of records that follow each other.
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
  // Forgets what no backup needs any more.
  void Trim();
  uint64_t first_kept() const { return next_ - kept_.size(); }

  uint64_t epoch_;
  const uint64_t primary_;
  const size_t most_bytes_;
  const uint64_t led_from_;  // the first that this primary may append
  uint64_t next_;
  bool appended_ = false;
  uint64_t committed_;
  std::deque<Chunk> chunks_;
  std::deque<Kept> kept_;  // the last records up to next_ - 1
  size_t kept_bytes_ = 0;
  std::map<uint64_t, Backup> backups_;
};

// How far an own clock is ahead of another, at most: as of the message that came fastest, with room for the drift of
// the two since.
class ClockLead {
 public:
  static constexpr int64_t kDriftParts = 1000;  // clocks drift apart by at most one in so many

  // The other one showed `other_us` before this one shows `own_us`.
  void Hear(uint64_t other_us, uint64_t own_us);
  // When, on the own clock in milliseconds, the other one surely shows as much as this. REQUIRES Hear().
  uint64_t OwnMs(uint64_t other_ms) const;

 private:
  bool known_ = false;
  int64_t lead_us_ = 0;
  uint64_t heard_us_ = 0;  // on the own clock
};

// A backup's side. Thread safety: none.
class IncomingStream {
 public:
  // Of one that has accepted all up to `accepted`, and applied it.
  IncomingStream(uint64_t epoch, uint64_t primary, uint64_t accepted)
      : epoch_(epoch), primary_(primary), accepted_(accepted), committed_(accepted) {}

  // From now on it hears `primary`. What it accepted and kept stays.
  void EnterEpoch(uint64_t epoch, uint64_t primary) {
    if (primary != primary_) lead_ = ClockLead();
    epoch_ = epoch;
    primary_ = primary;
  }

  // Accepts what is new in a batch, as long as `reserve` secures room for it: publishing must not fail later. Expiries
  // are times of the own clock from then on, which shows `clock_us`: as long after its arrival as they were, on the
  // primary's, after the batch was sent. So never earlier than there; and later by no more than the way took.
  // INVALID_ARGUMENT: torn; FAILED_PRECONDITION: of another epoch, or some records before it are missing: connect anew
  // and say accepted(). RESOURCE_EXHAUSTED: no room; what came before is accepted.
  absl::Status Take(std::string batch, uint64_t clock_us, absl::FunctionRef<bool(const Record&)> reserve);

  // The next record that is committed and not applied; null: there is none. Applied() says that it is.
  const Record* ToApply() const {
    return !kept_.empty() && kept_.front().sequence <= committed_ ? &kept_.front() : nullptr;
  }
  void Applied() {
    kept_.pop_front();
    if (--batches_.front().kept == 0) batches_.pop_front();
  }
  // Forgets the newest record, which a new primary does not have. REQUIRES that tail() is not empty.
  void CutNewest() {
    --accepted_;
    kept_.pop_back();
    if (--batches_.back().kept == 0) batches_.pop_back();
  }
  // Of a promoter, once all members accepted the tail: all is committed.
  void CommitAll() { committed_ = accepted_; }

  uint64_t accepted() const { return accepted_; }
  uint64_t committed() const { return committed_; }
  // Accepted, and not applied: what a promoter has the other members accept. They are the stream's.
  const std::deque<Record>& tail() const { return kept_; }

 private:
  // What came, as long as some of its records are kept, which lie in it.
  struct Arrived {
    std::string bytes;
    size_t kept = 0;
  };

  absl::Status TakeRecords(Arrived* arrived, uint64_t clock_us, absl::FunctionRef<bool(const Record&)> reserve);

  uint64_t epoch_, primary_;
  uint64_t accepted_;
  uint64_t committed_;  // as the primary said; a joiner may lag behind it
  ClockLead lead_;
  std::deque<Arrived> batches_;
  std::deque<Record> kept_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_STREAM_H_
