// Statuses of Farlook's client as those of the driver.
#ifndef FARLOOK_BENCH_FARLOOK_STATUS_H_
#define FARLOOK_BENCH_FARLOOK_STATUS_H_

#include "absl/status/status.h"
#include "bench/db.h"

namespace farlook::bench {

// See the list of errors in client/client.h.
inline DbStatus ToDbStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return DbStatus::kOk;
    case absl::StatusCode::kNotFound:
      return DbStatus::kNotFound;
    case absl::StatusCode::kAborted:
      return DbStatus::kConflict;
    case absl::StatusCode::kResourceExhausted:
      return DbStatus::kNoSpace;
    case absl::StatusCode::kDeadlineExceeded:
      return DbStatus::kTimeout;
    case absl::StatusCode::kUnavailable:
      return DbStatus::kServiceUnavailable;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
      return DbStatus::kBadRequest;
    default:
      return DbStatus::kError;
  }
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_FARLOOK_STATUS_H_
