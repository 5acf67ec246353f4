// The directory: where the configuration of each group is stored. It has a few records, changed only by
// compare-and-swap.
//
// The interface is narrow on purpose: rules 1 and 2 of docs/cluster-design.md need a compare-and-swap register and
// notification of its changes. Nothing else of a coordination service is relied on, in particular no leases and no
// locks.
#ifndef FARLOOK_CLUSTER_DIRECTORY_H_
#define FARLOOK_CLUSTER_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farlook::cluster {

// A record after its change number `revision`; revisions of a key only grow. 0: there is no such record.
struct Entry {
  uint64_t revision = 0;
  std::string value = {};
};

enum class CasOutcome : uint8_t {
  kDone,
  kConflict,  // not done: the record had another revision
  kNotDone,   // not done, and never will be: the request was not sent, or was refused
  kUnknown,   // may have been done, or may be done at any time from now on
};

struct CasResult {
  CasOutcome outcome = CasOutcome::kUnknown;
  uint64_t revision = 0;  // kDone: of the new record
  absl::Status why = {};  // kNotDone, kUnknown: what happened, and what to do
};

enum class Freshness : uint8_t {
  kLatest,    // reflects everything done before the call
  kMaybeOld,  // may be any former state; also answered by a directory without quorum
};

// Errors of all calls: UNAVAILABLE: no answer in time, retry later. FAILED_PRECONDITION: it is another directory than
// before. DATA_LOSS: it returned to a former state, or lost the record: only an operator can help. INVALID_ARGUMENT:
// invalid name, or a malformed answer.
//
// Thread safety: an object is used by one thread at a time, which blocks within the call. Each call is bounded: by a
// few time limits of the implementation; Wait() by its timeout plus these.
class Directory {
 public:
  virtual ~Directory() = default;

  // A name: 1 to 128 characters of [A-Za-z0-9_.-], the first no dot.
  virtual absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) = 0;

  // Makes `value` the record if its revision is `expected` (0: if there is none). REQUIRES value.size() <= 64 KiB.
  // After kUnknown, only two observations settle the outcome: that the revision changed, or that the same call returns
  // kDone.
  virtual CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) = 0;

  // Returns the record as soon as its revision is above `after`; DEADLINE_EXCEEDED: that did not happen within
  // `timeout`. Changes in between may be skipped.
  virtual absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) = 0;

  // Ends one Wait() with CANCELLED: the one under way, or the next. Its later calls continue elsewhere, if they can.
  // Any thread.
  virtual void Interrupt() {}
};

inline constexpr size_t kMaxRecordBytes = 64 << 10;

bool IsDirectoryName(absl::string_view name);

// INVALID_ARGUMENT unless `name` is valid and a value of `value_bytes` fits.
absl::Status CheckRecord(absl::string_view name, size_t value_bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_DIRECTORY_H_
