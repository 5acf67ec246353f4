#include "tests/history/outcome.h"

namespace farlook::history {

std::optional<Outcome> OutcomeOf(Type type, const absl::Status& status, bool has_version) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kOk;
    case absl::StatusCode::kNotFound:
      return Outcome::kNotFound;
    case absl::StatusCode::kAlreadyExists:
      return Outcome::kExists;
    case absl::StatusCode::kFailedPrecondition:
      return Outcome::kWrongKind;
    case absl::StatusCode::kAborted:  // without a version: the table is another, nothing was sent
      return has_version ? Outcome::kMismatch : Outcome::kNothing;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
      return Writes(type) ? Outcome::kPending : Outcome::kNothing;
    case absl::StatusCode::kOutOfRange:  // the value is longer than the buffer; no counter here ever gets so far
      if (IsOfCounter(type)) return std::nullopt;
      return Outcome::kNothing;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied:
      return Outcome::kNothing;
    default:
      return std::nullopt;
  }
}

}  // namespace farlook::history
