#include "client/cli/context/memory_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/limits.h"

namespace farlook::cli {
namespace {

// Access to the engines' record within an operation, which derived classes may name: this store is the engine here.
struct Record : AsyncOperation {
  static client::Operation& Of(AsyncOperation& operation) {
    constexpr client::Operation& (AsyncOperation::*kRecord)() = &Record::record;
    return (operation.*kRecord)();
  }
};

std::string Key(const client::Operation& operation) { return std::string(operation.key.data(), operation.key.size()); }

}  // namespace

void MemoryStore::Start(AsyncOperation* operation) {
  in_flight_.push_back(operation);
  most_in_flight_ = std::max(most_in_flight_, in_flight_.size());
}

AsyncOperation* MemoryStore::Poll() {
  if (in_flight_.empty()) return nullptr;
  auto chosen = in_flight_.begin() + static_cast<std::ptrdiff_t>(random_() % in_flight_.size());
  const auto writes_same_key = [&chosen](AsyncOperation* other) {
    return other->key() == (*chosen)->key() && client::IsWrite(Record::Of(*other).kind);
  };
  // An operation that was started earlier comes first.
  if (client::IsWrite(Record::Of(**chosen).kind)) chosen = std::find_if(in_flight_.begin(), chosen, writes_same_key);
  AsyncOperation* operation = *chosen;
  in_flight_.erase(chosen);
  Apply(&Record::Of(*operation));
  return operation;
}

void MemoryStore::Apply(client::Operation* operation) {
  ++operations_;
  operation->status = fault_ ? fault_(operations_, *operation) : absl::OkStatus();
  operation->version = 0;
  if (!operation->status.ok()) return;
  if (operation->key.empty() || operation->key.size() > kv::kMaxKeyBytes) {
    operation->status =
        absl::InvalidArgumentError(absl::StrCat("key of ", operation->key.size(), " bytes; 1 to 1024 are allowed"));
  } else if (client::IsCounter(operation->kind)) {
    operation->status = items_.count(Key(*operation)) != 0 ? absl::FailedPreconditionError("") : Count(operation);
  } else if (counters_.count(Key(*operation)) != 0) {
    operation->status = ExpiryOfCounter(operation);
  } else {
    switch (operation->kind) {
      case client::Kind::kGet:
      case client::Kind::kExists:
      case client::Kind::kTtl:
        operation->status = Read(operation);
        break;
      case client::Kind::kTouch:
      case client::Kind::kPersist:
      case client::Kind::kGetAndTouch:
        operation->status = Touch(operation);
        break;
      default:
        operation->status = Write(operation);
    }
  }
}

absl::Status MemoryStore::Read(client::Operation* operation) {
  const auto found = items_.find(Key(*operation));
  if (found == items_.end()) return absl::NotFoundError("");
  operation->version = found->second.version;
  if (client::WantsValue(operation->kind)) *operation->to.string = found->second.value;
  operation->left_ms = found->second.ttl_ms == 0 ? kForever : found->second.ttl_ms;
  operation->kept = found->second.keep;
  return absl::OkStatus();
}

absl::Status MemoryStore::Touch(client::Operation* operation) {
  const auto found = items_.find(Key(*operation));
  if (found != items_.end()) found->second.ttl_ms = operation->ttl_ms;
  return Read(operation);
}

absl::Status MemoryStore::Write(client::Operation* operation) {
  const std::string key = Key(*operation);
  const auto found = items_.find(key);
  const bool exists = found != items_.end();
  operation->version = exists ? found->second.version : 0;
  switch (operation->condition.kind()) {
    case Condition::Kind::kAlways:
      break;
    case Condition::Kind::kIfAbsent:
      if (exists) return absl::AlreadyExistsError("");
      break;
    case Condition::Kind::kIfPresent:
      if (!exists) return absl::NotFoundError("");
      break;
    case Condition::Kind::kIfVersion:
      if (!exists) return absl::NotFoundError("");
      if (operation->version != operation->condition.version()) return absl::AbortedError("");
      break;
  }
  if (operation->kind == client::Kind::kDelete) {
    return items_.erase(key) != 0 ? absl::OkStatus() : absl::NotFoundError("");
  }
  operation->version = ++last_version_;
  const int64_t ttl_ms = operation->keep_ttl && exists ? found->second.ttl_ms : operation->ttl_ms;
  items_[key] = {std::string(operation->value.data(), operation->value.size()), operation->version, ttl_ms,
                 operation->keep};
  return absl::OkStatus();
}

absl::Status MemoryStore::Count(client::Operation* operation) {
  const std::string key = Key(*operation);
  const auto found = counters_.find(key);
  if (operation->kind == client::Kind::kCreateCounter) {
    if (found != counters_.end()) {
      operation->counter = found->second;
      return absl::AlreadyExistsError("");
    }
    counters_[key] = operation->operand;
    if (operation->ttl_ms != 0) counter_ttls_[key] = operation->ttl_ms;
    return absl::OkStatus();
  }
  if (found == counters_.end() && operation->create) {
    operation->counter = operation->expected;
    counters_[key] = operation->expected + operation->operand;
    if (operation->ttl_ms != 0) counter_ttls_[key] = operation->ttl_ms;
    return absl::OkStatus();
  }
  if (found == counters_.end()) return absl::NotFoundError("");
  operation->counter = found->second;
  if (operation->kind == client::Kind::kFetchAdd) found->second += operation->operand;
  if (operation->kind == client::Kind::kCompareSwap && found->second == operation->expected) {
    found->second = operation->operand;
  }
  if (operation->kind == client::Kind::kDeleteCounter) {
    counters_.erase(found);
    counter_ttls_.erase(key);
  }
  return absl::OkStatus();
}

// Operations of values, on a counter: only those for expiry are allowed.
absl::Status MemoryStore::ExpiryOfCounter(client::Operation* operation) {
  const std::string key = Key(*operation);
  switch (operation->kind) {
    case client::Kind::kTtl:
      break;
    case client::Kind::kTouch:
      counter_ttls_[key] = operation->ttl_ms;
      break;
    case client::Kind::kPersist:
      counter_ttls_.erase(key);
      break;
    default:
      return absl::FailedPreconditionError("");
  }
  const auto found = counter_ttls_.find(key);
  operation->left_ms = found == counter_ttls_.end() ? kForever : found->second;
  operation->kept = false;
  return absl::OkStatus();
}

absl::Status MemoryStore::Ping(const ServerOptions&) {
  ++operations_;
  return fault_ ? fault_(operations_, client::Operation()) : absl::OkStatus();
}

absl::StatusOr<std::string> MemoryStore::ServerStats(const ServerOptions&) {
  ++operations_;
  if (fault_) {
    if (absl::Status status = fault_(operations_, client::Operation()); !status.ok()) return status;
  }
  if (!server_stats_.ok() || !server_stats_->empty()) return server_stats_;
  return absl::StrCat("requests ", operations_, "\nkeys ", items_.size(), "\nhuge_pages none\n");
}

absl::StatusOr<std::vector<ConnectedClient>> MemoryStore::Clients(const ServerOptions& options) {
  if (absl::Status status = Ping(options); !status.ok()) return status;
  return clients_;
}

absl::Status MemoryStore::Kick(uint64_t id, const ServerOptions& options) {
  if (absl::Status status = Ping(options); !status.ok()) return status;
  return std::erase_if(clients_, [id](const ConnectedClient& client) { return client.id == id; }) != 0
             ? absl::OkStatus()
             : absl::NotFoundError("");
}

absl::StatusOr<std::string> MemoryStore::GroupStatus(const ServerOptions& options) {
  if (groups_.empty()) return absl::UnimplementedError("it is in no group");
  const auto size = sizes_.find(options.group);
  return absl::StrCat("group ", options.group, "\nepoch 1\n", size == sizes_.end() ? "" : size->second, group_state_);
}

std::string MemoryStore::ClientStats() const { return absl::StrCat("operations ", operations_, "\n"); }

absl::Status MemoryStore::Scan(const ScanOptions& options, const TakeItem& take, std::string* cursor) {
  uint64_t returned = 0;
  *cursor = options.cursor;
  if (absl::StrContains(options.cursor, ' ')) return absl::InvalidArgumentError("the cursor is not one");
  for (const auto& [key, stored] : items_) {
    if (key <= options.cursor || key.compare(0, options.prefix.size(), options.prefix) != 0) continue;
    if (options.limit > 0 && returned++ == options.limit) return absl::OkStatus();
    ScannedItem item;
    item.key = key;
    if (options.values) item.value = stored.value;
    item.value_bytes = stored.value.size();
    item.version = stored.version;
    if (stored.ttl_ms != 0) item.left_ms = stored.ttl_ms;
    item.keep = stored.keep;
    *cursor = key;
    if (!take(item, /*done=*/0.5)) return absl::OkStatus();
  }
  for (const auto& [key, value] : counters_) {
    if (key.compare(0, options.prefix.size(), options.prefix) != 0) continue;
    ScannedItem item;
    item.key = key;
    item.counter = true;
    if (!take(item, /*done=*/0.9)) return absl::OkStatus();
  }
  *cursor = "end";
  return absl::OkStatus();
}

}  // namespace farlook::cli
