#include "client/cli/memory_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/limits.h"

namespace farlook::cli {
void MemoryStore::Start(Request* request) {
  in_flight_.push_back(request);
  most_in_flight_ = std::max(most_in_flight_, in_flight_.size());
}

Request* MemoryStore::Poll() {
  if (in_flight_.empty()) return nullptr;
  std::swap(in_flight_[random_() % in_flight_.size()], in_flight_.back());
  Request* request = in_flight_.back();
  in_flight_.pop_back();
  Apply(request);
  return request;
}

void MemoryStore::Apply(Request* request) {
  ++operations_;
  request->status = fault_ ? fault_(operations_, *request) : absl::OkStatus();
  if (!request->status.ok()) return;
  if (request->key.empty() || request->key.size() > kv::kMaxKeyBytes) {
    request->status =
        absl::InvalidArgumentError(absl::StrCat("key of ", request->key.size(), " bytes; 1 to 1024 are allowed"));
    return;
  }
  const auto found = items_.find(request->key);
  if (IsCounter(request->type)) {
    request->status = found != items_.end() ? absl::FailedPreconditionError("") : Count(request);
    return;
  }
  if (counters_.count(request->key) != 0) {
    request->status = absl::FailedPreconditionError("");
    return;
  }
  switch (request->type) {
    case Request::Type::kGet:
      if (found != items_.end()) {
        request->value = found->second.value;
        request->version = found->second.version;
      }
      [[fallthrough]];
    case Request::Type::kExists:
      if (found == items_.end()) request->status = absl::NotFoundError("");
      break;
    case Request::Type::kDelete:
      if (found == items_.end()) {
        request->status = absl::NotFoundError("");
      } else {
        items_.erase(found);
      }
      break;
    default:
      request->status = Write(request);
  }
}

absl::Status MemoryStore::Write(Request* request) {
  const auto found = items_.find(request->key);
  const bool exists = found != items_.end();
  const uint64_t expected = std::exchange(request->version, exists ? found->second.version : 0);
  if (request->type == Request::Type::kInsert && exists) return absl::AlreadyExistsError("");
  if (request->type == Request::Type::kReplace && !exists) return absl::NotFoundError("");
  if (request->type == Request::Type::kCompareAndSet) {
    if (!exists) return absl::NotFoundError("");
    if (request->version != expected) return absl::AbortedError("");
  }
  request->version = ++last_version_;
  items_[request->key] = {request->value, request->version};
  return absl::OkStatus();
}

absl::Status MemoryStore::Count(Request* request) {
  const auto found = counters_.find(request->key);
  if (request->type == Request::Type::kCreateCounter) {
    if (found != counters_.end()) return absl::AlreadyExistsError("");
    counters_[request->key] = request->operand;
    return absl::OkStatus();
  }
  if (found == counters_.end()) return absl::NotFoundError("");
  request->counter = found->second;
  if (request->type == Request::Type::kFetchAdd) found->second += request->operand;
  if (request->type == Request::Type::kCompareSwap && found->second == request->expected) {
    found->second = request->operand;
  }
  if (request->type == Request::Type::kDeleteCounter) counters_.erase(found);
  return absl::OkStatus();
}

absl::Status MemoryStore::Ping(int64_t) {
  ++operations_;
  return fault_ ? fault_(operations_, Request()) : absl::OkStatus();
}

absl::StatusOr<std::string> MemoryStore::ServerStats(int64_t) {
  ++operations_;
  if (fault_) {
    if (absl::Status status = fault_(operations_, Request()); !status.ok()) return status;
  }
  if (!server_stats_.ok() || !server_stats_->empty()) return server_stats_;
  return absl::StrCat("requests ", operations_, "\nkeys ", items_.size(), "\nhuge_pages none\n");
}

std::string MemoryStore::ClientStats() const { return absl::StrCat("operations ", operations_, "\n"); }

}  // namespace farlook::cli
