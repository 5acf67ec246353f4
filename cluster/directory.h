// The directory: where the configuration of each group stands. A few records, changed by compare-and-swap only.
//
// Why so narrow: rules 1 and 2 of docs/cluster.md need a register that can be compared and swapped, and to learn of its
// changes; nothing else of a coordination service is relied on, above all no leases and no locks.
#ifndef FARLOOK_CLUSTER_DIRECTORY_H_
#define FARLOOK_CLUSTER_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farlook::cluster {

// A record as it is after its change number `revision`; revisions of a key only grow. 0: there is no such record.
struct Entry {
  uint64_t revision = 0;
  std::string value = {};
};

enum class CasOutcome : uint8_t {
  kDone,
  kConflict,  // nothing was done: the record had another revision
  kNotDone,   // nothing was done, and never will be: the request was not sent, or refused
  kUnknown,   // it may have been done, or be done at any time from now on
};

struct CasResult {
  CasOutcome outcome = CasOutcome::kUnknown;
  uint64_t revision = 0;  // kDone: of the new record
  absl::Status why = {};  // kNotDone, kUnknown: what happened, and what to do
};

enum class Freshness : uint8_t {
  kLatest,    // all that was done before the call is seen
  kMaybeOld,  // may be any former state; answered by a directory that has lost its quorum too
};

// Errors of all calls: UNAVAILABLE: nobody answered in time, try again later. FAILED_PRECONDITION: it is another
// directory than before. DATA_LOSS: it went back to a former state, or lost the record: only an operator can help.
// INVALID_ARGUMENT: no such name, or the answer makes no sense.
//
// Thread safety: an object is used by one thread at a time, which waits within the call. Each call has an end: a few
// time limits of the implementation, in Wait() beyond its own.
class Directory {
 public:
  virtual ~Directory() = default;

  // A name: 1 to 128 of [A-Za-z0-9_.-], the first no point.
  virtual absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) = 0;

  // Makes `value` the record if its revision is `expected` (0: if there is none). REQUIRES value.size() <= 64 KiB.
  // After kUnknown, certain is only what is seen: that the revision changed, or that the same call is done.
  virtual CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) = 0;

  // Returns the record as soon as its revision is above `after`; DEADLINE_EXCEEDED: it was not within `timeout`.
  // Changes in between may be left out.
  virtual absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) = 0;
};

inline constexpr size_t kMaxRecordBytes = 64 << 10;

bool IsDirectoryName(absl::string_view name);

// INVALID_ARGUMENT, unless `name` is one and a value of `value_bytes` fits.
absl::Status CheckRecord(absl::string_view name, size_t value_bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_DIRECTORY_H_
