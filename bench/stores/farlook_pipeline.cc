#include "bench/stores/farlook_pipeline.h"

#include <poll.h>
#include <time.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/stores/record.h"

namespace farlook::bench {

DbStatus ToDbStatus(const absl::Status& status) {
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

FarlookPipeline::FarlookPipeline(Client* client, size_t inflight, int64_t spin_ns)
    : client_(client), spin_ns_(spin_ns), flights_(new Flight[inflight]), ended_(inflight) {
  for (size_t i = 0; i < inflight; ++i) free_.push_back(&flights_[i]);
}

void FarlookPipeline::Begin(Flight* flight, Operation::Type type) {
  Operation& operation = flight->operation;
  operation.type = type;
  operation.key = flight->request->key;
  operation.tag = flight;
  to_start_.push_back(&operation);
}

bool FarlookPipeline::BeginSet(Flight* flight, absl::string_view record, uint64_t version) {
  if (!PatchRecord(record, flight->request->writes, &flight->patched)) {
    last_error_ = absl::DataLossError(absl::StrCat("the record of ", flight->request->key, " has no such field"));
    return false;
  }
  flight->operation.value = flight->patched;
  flight->operation.version = version;
  Begin(flight, Operation::Type::kCompareAndSet);
  return true;
}

void FarlookPipeline::Submit(DbRequest* request) {
  Flight* flight = free_.back();
  free_.pop_back();
  flight->request = request;
  flight->attempts = 0;
  switch (request->kind) {
    case DbRequest::Kind::kRead:
      flight->operation.string = &request->result.buffer;
      Begin(flight, Operation::Type::kGet);
      break;
    case DbRequest::Kind::kInsert:
      flight->operation.value = request->record;
      Begin(flight, Operation::Type::kPut);
      break;
    case DbRequest::Kind::kReplace:
      flight->operation.value = request->record;
      Begin(flight, Operation::Type::kReplace);
      break;
    case DbRequest::Kind::kPatch:
      flight->operation.string = &flight->read;
      if (request->basis == nullptr) {
        Begin(flight, Operation::Type::kGet);
      } else if (!BeginSet(flight, request->basis->record, request->basis->version)) {
        End(flight, DbStatus::kUnexpectedState);
        failed_.push_back(request);
      }
      break;
  }
}

bool FarlookPipeline::Advance(Flight* flight) {
  const Operation& operation = flight->operation;
  DbRequest* request = flight->request;
  if (request->kind == DbRequest::Kind::kPatch) {
    if (operation.type == Operation::Type::kGet && operation.status.ok()) {
      if (BeginSet(flight, flight->read, operation.version)) return false;
      End(flight, DbStatus::kUnexpectedState);
      return true;
    }
    if (operation.type == Operation::Type::kCompareAndSet && absl::IsAborted(operation.status) &&
        ++flight->attempts < kPatchAttempts) {
      Begin(flight, Operation::Type::kGet);
      return false;
    }
  }
  if (request->kind == DbRequest::Kind::kRead && operation.status.ok()) {
    request->result.record = request->result.buffer;
    request->result.version = operation.version;
  }
  if (!operation.status.ok()) last_error_ = operation.status;
  End(flight, ToDbStatus(operation.status));
  return true;
}

void FarlookPipeline::End(Flight* flight, DbStatus status) {
  flight->request->status = flight->request->result.status = status;
  free_.push_back(flight);
}

size_t FarlookPipeline::PollClient(absl::Span<DbRequest*> done) {
  size_t count = std::min(done.size(), failed_.size());
  std::copy_n(failed_.end() - static_cast<std::ptrdiff_t>(count), count, done.begin());
  failed_.resize(failed_.size() - count);

  if (!to_start_.empty()) {
    client_->Start(absl::MakeConstSpan(to_start_));
    to_start_.clear();
  }
  const size_t room = std::min(done.size() - count, ended_.size());
  const size_t ended = client_->Poll(absl::MakeSpan(ended_).first(room));
  for (size_t i = 0; i < ended; ++i) {
    Flight* flight = static_cast<Flight*>(ended_[i]->tag);
    DbRequest* request = flight->request;
    if (Advance(flight)) done[count++] = request;
  }
  return count;
}

size_t FarlookPipeline::Poll(absl::Span<DbRequest*> done, int64_t wait_ns) {
  size_t count = PollClient(done);
  if (count > 0 || wait_ns <= 0) return count;
  const int64_t start_ns = NowNs();
  const int64_t end_ns = start_ns + wait_ns, spin_end_ns = start_ns + std::min(wait_ns, spin_ns_);
  while (count == 0) {
    const int64_t now_ns = NowNs();
    if (now_ns >= end_ns) break;
    // An operation may have begun its second step: it is not handed over yet, so there is nothing to sleep for.
    if (now_ns >= spin_end_ns && to_start_.empty() && client_->Arm()) Sleep(end_ns - now_ns);
    count = PollClient(done);
  }
  return count;
}

void FarlookPipeline::Sleep(int64_t wait_ns) {
  const int64_t client_ms = client_->wait_ms();
  if (client_ms >= 0) wait_ns = std::min(wait_ns, client_ms * 1'000'000);
  timespec timeout;
  timeout.tv_sec = wait_ns / 1'000'000'000;
  timeout.tv_nsec = wait_ns % 1'000'000'000;
  pollfd fd = {};
  fd.fd = client_->fd();
  fd.events = POLLIN;
  ppoll(&fd, 1, &timeout, nullptr);
}

}  // namespace farlook::bench
