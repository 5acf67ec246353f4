#include "bench/stores/db.h"

#include <algorithm>

namespace farlook::bench {

absl::string_view DbStatusName(DbStatus status) {
  switch (status) {
    case DbStatus::kOk:
      return "OK";
    case DbStatus::kNotFound:
      return "NOT_FOUND";
    case DbStatus::kError:
      return "ERROR";
    case DbStatus::kUnexpectedState:
      return "UNEXPECTED_STATE";
    case DbStatus::kBadRequest:
      return "BAD_REQUEST";
    case DbStatus::kServiceUnavailable:
      return "SERVICE_UNAVAILABLE";
    case DbStatus::kTimeout:
      return "TIMEOUT";
    case DbStatus::kConflict:
      return "CONFLICT";
    case DbStatus::kNoSpace:
      return "NO_SPACE";
  }
  return "ERROR";
}

void Db::ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) {
  for (size_t i = 0; i < keys.size(); ++i) Read(keys[i], &results[i]);
}

void Db::Submit(DbRequest* request) {
  switch (request->kind) {
    case DbRequest::Kind::kRead:
      request->status = Read(request->key, &request->result);
      break;
    case DbRequest::Kind::kInsert:
      request->status = Insert(request->key, request->record);
      break;
    case DbRequest::Kind::kReplace:
      request->status = Replace(request->key, request->record);
      break;
    case DbRequest::Kind::kPatch:
      request->status = Patch(request->key, request->writes, request->basis);
      break;
  }
  ended_.push_back(request);
}

size_t Db::Poll(absl::Span<DbRequest*> done, int64_t /*wait_ns*/) {
  const size_t count = std::min(done.size(), ended_.size());
  std::copy_n(ended_.begin(), count, done.begin());
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

}  // namespace farlook::bench
