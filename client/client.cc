// The calls that wait: each starts an operation, or a batch of them, on the core and waits until it is done. Operations
// that do not wait go to the core as they are.
#include "farlook/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/batch.h"
#include "client/client_impl.h"
#include "client/operation.h"
#include "client/view.h"
#include "farlook/async.h"

namespace farlook {

using client::Kind;
using client::NotAsMany;
using client::View;

absl::Status ClientImpl::RunOnAll(Kind kind, int64_t timeout_ms) {
  const auto all = cores.served();
  std::vector<client::Operation> operations(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    operations[i].kind = kind;
    // A group that was emptied may have been stopped.
    operations[i].done = !cores.one() && !all[i]->ready() && !cores.HasSlots(i);
    if (operations[i].done) continue;
    operations[i].blocking = true;
    all[i]->StartUntil(&operations[i], all[i]->DeadlineFromNow(timeout_ms));
    all[i]->ProgressNowAndThen();
  }
  const auto is_done = [](const client::Operation& operation) { return operation.done; };
  const auto are_done = [&] { return std::all_of(operations.begin(), operations.end(), is_done); };
  if (!are_done()) waiter.Wait(are_done);
  for (client::Operation& operation : operations) {
    if (!operation.status.ok()) return std::move(operation.status);
  }
  return absl::OkStatus();
}

namespace {

void TakeVersion(client::Operation* operation, Result<uint64_t>* result) {
  client::TakeStatus(operation, &result->status);
  result->value = operation->version;
}

}  // namespace

Client::Client(std::unique_ptr<ClientImpl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

// ---- Values.

absl::Status Client::Get(std::string_view key, Value* value, const GetOptions& options) {
  absl::Status status = impl_->RunGet(Kind::kGet, key, {&value->data, {}}, options);
  value->version = impl_->get.version;
  return status;
}

absl::StatusOr<Value> Client::Get(std::string_view key, const GetOptions& options) {
  Value value;
  if (absl::Status status = Get(key, &value, options); !status.ok()) return status;
  return value;
}

absl::StatusOr<size_t> Client::GetInto(std::string_view key, std::span<char> buffer, const GetOptions& options,
                                       uint64_t* version) {
  const client::Destination to = {nullptr, absl::MakeSpan(buffer.data(), buffer.size())};
  if (absl::Status status = impl_->RunGet(Kind::kGet, key, to, options); !status.ok()) return status;
  if (version != nullptr) *version = impl_->get.version;
  return impl_->get.value_bytes;
}

absl::StatusOr<bool> Client::Exists(std::string_view key, const GetOptions& options) {
  absl::Status status = impl_->RunGet(Kind::kExists, key, {}, options);
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

absl::StatusOr<uint64_t> Client::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  client::Operation operation;
  operation.value = View(value);
  operation.condition = options.condition;
  operation.ttl_ms = options.ttl_ms;
  operation.keep_ttl = options.keep_ttl;
  operation.keep = options.keep;
  operation.refill = options.refill;
  if (absl::Status status = impl_->RunTimed(&operation, Kind::kPut, key, options.timeout_ms); !status.ok()) {
    return status;
  }
  return operation.version;
}

// ---- Expiry.

absl::Status Client::Touch(std::string_view key, int64_t ttl_ms, const TouchOptions& options) {
  client::Operation operation;
  operation.ttl_ms = ttl_ms;
  return impl_->RunTimed(&operation, Kind::kTouch, key, options.timeout_ms);
}

absl::Status Client::Persist(std::string_view key, const TouchOptions& options) {
  client::Operation operation;
  return impl_->RunTimed(&operation, Kind::kPersist, key, options.timeout_ms);
}

absl::StatusOr<int64_t> Client::Ttl(std::string_view key, const GetOptions& options) {
  client::Operation operation;
  if (absl::Status status = impl_->RunTimed(&operation, Kind::kTtl, key, options.timeout_ms); !status.ok()) {
    return status;
  }
  return operation.left_ms;
}

absl::StatusOr<Value> Client::GetAndTouch(std::string_view key, int64_t ttl_ms, const TouchOptions& options) {
  Value value;
  client::Operation operation;
  operation.ttl_ms = ttl_ms;
  operation.to.string = &value.data;
  if (absl::Status status = impl_->RunTimed(&operation, Kind::kGetAndTouch, key, options.timeout_ms); !status.ok()) {
    return status;
  }
  value.version = operation.version;
  return value;
}

absl::Status Client::Delete(std::string_view key, const DeleteOptions& options) {
  client::Operation operation;
  operation.condition = options.condition;
  return impl_->RunTimed(&operation, Kind::kDelete, key, options.timeout_ms);
}

// ---- Batches.

absl::Status Client::MultiGet(std::span<const std::string_view> keys, std::vector<Result<Value>>* results,
                              const GetOptions& options) {
  results->resize(keys.size());
  Result<Value>* const to = results->data();
  return impl_->batch.Run(
      Kind::kGet, keys.size(), options.timeout_ms,
      [&](size_t i, client::Operation* operation) {
        operation->key = View(keys[i]);
        operation->to.string = &to[i].value.data;
      },
      [&](size_t i, client::Operation* operation) {
        to[i].value.version = operation->version;
        if (!operation->status.ok()) [[unlikely]]
          to[i].value.data.clear();
        client::TakeStatus(operation, &to[i].status);
      });
}

absl::Status Client::MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                              std::vector<Result<uint64_t>>* results, const PutOptions& options) {
  if (values.size() != keys.size()) return NotAsMany("values", values.size(), keys.size());
  results->resize(keys.size());
  return impl_->batch.Run(
      Kind::kPut, keys.size(), options.timeout_ms,
      [&](size_t i, client::Operation* operation) {
        operation->key = View(keys[i]);
        operation->value = View(values[i]);
        operation->condition = options.condition;
        operation->ttl_ms = options.ttl_ms;
        operation->keep_ttl = options.keep_ttl;
        operation->keep = options.keep;
        operation->refill = options.refill;
      },
      [&](size_t i, client::Operation* operation) { TakeVersion(operation, &(*results)[i]); });
}

absl::Status Client::MultiTouch(std::span<const std::string_view> keys, int64_t ttl_ms,
                                std::vector<Result<uint64_t>>* results, const TouchOptions& options) {
  results->resize(keys.size());
  return impl_->batch.Run(
      Kind::kTouch, keys.size(), options.timeout_ms,
      [&](size_t i, client::Operation* operation) {
        operation->key = View(keys[i]);
        operation->ttl_ms = ttl_ms;
      },
      [&](size_t i, client::Operation* operation) { TakeVersion(operation, &(*results)[i]); });
}

absl::Status Client::MultiDelete(std::span<const std::string_view> keys, std::vector<Result<uint64_t>>* results,
                                 const DeleteOptions& options) {
  results->resize(keys.size());
  return impl_->batch.Run(
      Kind::kDelete, keys.size(), options.timeout_ms,
      [&](size_t i, client::Operation* operation) {
        operation->key = View(keys[i]);
        operation->condition = options.condition;
      },
      [&](size_t i, client::Operation* operation) { TakeVersion(operation, &(*results)[i]); });
}

absl::Status Client::MultiCreateCounter(std::span<const std::string_view> keys, std::span<const int64_t> initials,
                                        std::vector<Result<int64_t>>* results, const CounterOptions& options) {
  return impl_->CountAll(Kind::kCreateCounter, keys, initials, results, options);
}

absl::Status Client::MultiFetchAdd(std::span<const std::string_view> keys, std::span<const int64_t> deltas,
                                   std::vector<Result<int64_t>>* results, const CounterOptions& options) {
  return impl_->CountAll(Kind::kFetchAdd, keys, deltas, results, options);
}

absl::Status Client::MultiReadCounter(std::span<const std::string_view> keys, std::vector<Result<int64_t>>* results,
                                      const CounterOptions& options) {
  return impl_->CountAll(Kind::kReadCounter, keys, std::nullopt, results, options);
}

// ---- Counters.

absl::Status Client::CreateCounter(std::string_view key, int64_t initial, const CounterOptions& options) {
  client::Operation operation;
  operation.operand = initial;
  operation.ttl_ms = options.ttl_ms;
  return impl_->Count(&operation, Kind::kCreateCounter, key, options).status();
}

absl::StatusOr<int64_t> Client::FetchAdd(std::string_view key, int64_t delta, const CounterOptions& options) {
  client::Operation operation;
  operation.operand = delta;
  return impl_->Count(&operation, Kind::kFetchAdd, key, options);
}

absl::StatusOr<int64_t> Client::CompareSwap(std::string_view key, int64_t expected, int64_t desired,
                                            const CounterOptions& options) {
  client::Operation operation;
  operation.expected = expected;
  operation.operand = desired;
  return impl_->Count(&operation, Kind::kCompareSwap, key, options);
}

absl::StatusOr<int64_t> Client::ReadCounter(std::string_view key, const CounterOptions& options) {
  client::Operation operation;
  return impl_->Count(&operation, Kind::kReadCounter, key, options);
}

absl::StatusOr<int64_t> Client::DeleteCounter(std::string_view key, const CounterOptions& options) {
  client::Operation operation;
  return impl_->Count(&operation, Kind::kDeleteCounter, key, options);
}

// ---- The server.

absl::Status Client::Ping(const ServerOptions& options) {
  if (options.group.empty()) return impl_->RunOnAll(Kind::kPing, options.timeout_ms);
  client::Operation operation;
  return impl_->RunAt(options.group, &operation, Kind::kPing, {}, options.timeout_ms);
}

absl::Status Client::Warm(const WarmOptions& options) { return impl_->RunOnAll(Kind::kWarm, options.timeout_ms); }

absl::StatusOr<std::string> Client::ServerStats(const ServerOptions& options) {
  const absl::StatusOr<client::ClientCore*> core = impl_->cores.OfGroup(View(options.group));
  if (!core.ok()) return core.status();
  return impl_->AskText(*core, {}, options.timeout_ms);
}

// ---- Operations that do not wait.

void Client::Start(AsyncOperation* operation) {
  client::Operation* const record = ClientImpl::RecordOf(operation);
  client::ClientCore& core = impl_->cores.Of(record);
  core.StartUntil(record, core.DeadlineFromNow(record->timeout_ms));
}

void Client::Start(AsyncOperation* operation, std::function<void(AsyncOperation*)> then) {
  ClientImpl::SetThen(operation, std::move(then));
  Start(operation);
}

void Client::Start(std::span<AsyncOperation* const> operations) {
  impl_->records.clear();
  for (AsyncOperation* operation : operations) impl_->records.push_back(ClientImpl::RecordOf(operation));
  impl_->cores.Start(impl_->records);
}

size_t Client::Poll(std::span<AsyncOperation*> done) { return impl_->Poll(done); }
size_t Client::Wait(std::span<AsyncOperation*> done) { return impl_->Wait(done); }
size_t Client::in_flight() const { return impl_->cores.in_flight() + impl_->ready(); }
bool Client::Arm() { return impl_->ready() == 0 && impl_->cores.Arm(); }
int Client::fd() const { return impl_->cores.fd(); }
int64_t Client::wait_ms() const { return impl_->cores.wait_ms(); }

const ClientStats& Client::stats() const { return impl_->cores.stats(); }
uint64_t Client::incarnation() const { return impl_->cores.home().incarnation(); }
uint64_t Client::memory_bytes() const { return impl_->cores.memory_bytes(); }

}  // namespace farlook
