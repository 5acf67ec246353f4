#include "bench/stores/farlook_pipeline.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <span>

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

void FarlookPipeline::Begin(Flight* flight, AsyncOperation* operation) {
  operation->set_key(Std(flight->request->key));
  operation->set_tag(flight);
  to_start_.push_back(operation);
}

void FarlookPipeline::BeginGet(Flight* flight, std::string* value) {
  flight->get.Into(value);
  Begin(flight, &flight->get);
}

void FarlookPipeline::BeginPut(Flight* flight, absl::string_view value, Condition condition) {
  flight->put.set_value(Borrowed{Std(value)});
  flight->put.set_options({.condition = condition});
  Begin(flight, &flight->put);
}

bool FarlookPipeline::BeginSet(Flight* flight, absl::string_view record, uint64_t version) {
  if (!PatchRecord(record, flight->request->writes, &flight->patched)) {
    last_error_ = absl::DataLossError(absl::StrCat("the record of ", flight->request->key, " has no such field"));
    return false;
  }
  BeginPut(flight, flight->patched, Condition::IfVersion(version));
  return true;
}

void FarlookPipeline::Submit(DbRequest* request) {
  Flight* flight = free_.back();
  free_.pop_back();
  flight->request = request;
  flight->attempts = 0;
  switch (request->kind) {
    case DbRequest::Kind::kRead:
      BeginGet(flight, &request->result.buffer);
      break;
    case DbRequest::Kind::kInsert:
      BeginPut(flight, request->record, Condition::Always());
      break;
    case DbRequest::Kind::kReplace:
      BeginPut(flight, request->record, Condition::IfPresent());
      break;
    case DbRequest::Kind::kPatch:
      if (request->basis == nullptr) {
        BeginGet(flight, &flight->get.value());
      } else if (!BeginSet(flight, request->basis->record, request->basis->version)) {
        End(flight, DbStatus::kUnexpectedState);
        failed_.push_back(request);
      }
      break;
  }
}

bool FarlookPipeline::Advance(Flight* flight, const AsyncOperation* ended) {
  const absl::Status& status = ended->status();
  DbRequest* request = flight->request;
  if (request->kind == DbRequest::Kind::kPatch) {
    if (ended == &flight->get && status.ok()) {
      if (BeginSet(flight, flight->get.value(), ended->version())) return false;
      End(flight, DbStatus::kUnexpectedState);
      return true;
    }
    if (ended == &flight->put && absl::IsAborted(status) && ++flight->attempts < kPatchAttempts) {
      BeginGet(flight, &flight->get.value());
      return false;
    }
  }
  if (request->kind == DbRequest::Kind::kRead && status.ok()) {
    request->result.record = request->result.buffer;
    request->result.version = ended->version();
  }
  if (!status.ok()) last_error_ = status;
  End(flight, ToDbStatus(status));
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
    client_->Start(to_start_);
    to_start_.clear();
  }
  const size_t room = std::min(done.size() - count, ended_.size());
  const size_t ended = client_->Poll(std::span(ended_).first(room));
  for (size_t i = 0; i < ended; ++i) {
    Flight* flight = static_cast<Flight*>(ended_[i]->tag());
    DbRequest* request = flight->request;
    if (Advance(flight, ended_[i])) done[count++] = request;
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
    // An operation may have begun its second step, which is not passed to the client yet: then there is nothing to wait
    // for.
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
