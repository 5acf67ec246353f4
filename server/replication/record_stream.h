// The stream of records, as the commit gate uses it.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_REPLICATION_RECORD_STREAM_H_
#define FARLOOK_SERVER_REPLICATION_RECORD_STREAM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "cluster/record.h"
#include "server/replication/commit_notifier.h"

namespace farlook::server {

// Memory that records need at all members, beyond that of the items which they replace.
struct Growth {
  uint64_t bytes = 0;
  bool is_refused = true;  // if a member might not have it; a copy for a joiner is not
};

class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // Assigns the next sequences to the records, at least one, and returns the last of them. Returns 0 if members are so
  // far behind that no more is kept for them, or if a member might not have the memory for `growth`. Never refuses a
  // record without growth for a member that is not behind. REQUIRES the lock of any partition.
  virtual uint64_t Append(absl::Span<const cluster::Record> records, Growth growth) = 0;
  uint64_t Append(const cluster::Record& record, Growth growth = {}) {
    return Append(absl::MakeConstSpan(&record, 1), growth);
  }
  // Returns whether all members have memory for a record that needs `bytes` more, beside records that they have not
  // accepted yet.
  virtual bool HasRoomFor(uint64_t /*bytes*/) const { return true; }
  // Returns the sequence up to which all members accepted the records. It never falls.
  virtual uint64_t committed() const = 0;

  // Is notified of each change of committed(), and of each record. Exception: Append() does not notify of the commit of
  // its own records, which its caller checks.
  CommitNotifier* notifier() { return &notifier_; }

 private:
  CommitNotifier notifier_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_RECORD_STREAM_H_
