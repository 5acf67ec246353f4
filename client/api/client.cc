// The blocking calls: each starts an operation, or a batch of them, on the core and waits until it has ended.
// Asynchronous operations go to the core directly.
#include "farlook/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/api/batch.h"
#include "client/api/client_impl.h"
#include "client/op/operation.h"
#include "client/op/view.h"
#include "farlook/async.h"

namespace farlook {

using client::Kind;
using client::NotAsMany;
using client::View;

void ClientImpl::LeaveToParent(std::unique_ptr<ClientImpl> impl) {
  // State that another thread was changing at the fork is left alone.
  bool may_destroy = !impl->waiter.one_thread()->other_inside();
  may_destroy &= impl->first->LeaveToParent();
  for (const auto& other : impl->others) may_destroy &= other->LeaveToParent();
  if (may_destroy) return;
  // Kept until the process ends, and reachable, so that leak detectors do not report it.
  static auto* const kept = new std::vector<std::unique_ptr<ClientImpl>>;
  kept->push_back(std::move(impl));
}

absl::Status ClientImpl::RunOnAll(Kind kind, int64_t timeout_ms) {
  if (in_child()) return client::OfParent();
  [[maybe_unused]] const client::OneThread::DebugCall call(waiter.one_thread());
  const auto all = cores.all();
  std::vector<client::Operation> operations(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    operations[i].kind = kind;
    // A group without slots may have been stopped.
    operations[i].done = !cores.one() && !all[i]->ready() && !cores.HasSlots(i);
    if (operations[i].done) continue;
    operations[i].blocking = true;
    all[i]->StartUntil(&operations[i], all[i]->DeadlineFromNow(timeout_ms));
    all[i]->ProgressNowAndThen();
  }
  waiter.WaitFor(operations);
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
Client::~Client() {
  if (impl_->in_child()) ClientImpl::LeaveToParent(std::move(impl_));
}

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

// ---- Asynchronous operations.

void Client::Start(AsyncOperation* operation) {
  if (impl_->in_child()) [[unlikely]]
    return impl_->Refuse(operation);
  [[maybe_unused]] const client::OneThread::DebugCall call(impl_->waiter.one_thread());
  client::Operation* const record = impl_->TakeOff(operation);
  const int64_t deadline_ns = impl_->cores.home().DeadlineFromNow(record->timeout_ms);
  client::ClientCore* const core = impl_->cores.Of(record);
  if (core == nullptr) [[unlikely]]
    return impl_->cores.moved()->Start(record, deadline_ns);
  core->StartUntil(record, deadline_ns);
}

void Client::Start(AsyncOperation* operation, std::function<void(AsyncOperation*)> then) {
  ClientImpl::SetThen(operation, std::move(then));
  Start(operation);
}

void Client::Start(std::span<AsyncOperation* const> operations) {
  if (impl_->in_child()) [[unlikely]] {
    for (AsyncOperation* operation : operations) impl_->Refuse(operation);
    return;
  }
  [[maybe_unused]] const client::OneThread::DebugCall call(impl_->waiter.one_thread());
  impl_->records.clear();
  for (AsyncOperation* operation : operations) impl_->records.push_back(impl_->TakeOff(operation));
  impl_->cores.Start(impl_->records);
}

size_t Client::Poll(std::span<AsyncOperation*> done) { return impl_->Poll(done); }
size_t Client::Wait(std::span<AsyncOperation*> done) { return impl_->Wait(done); }

size_t Client::in_flight() const {
  return impl_->in_child() ? impl_->refused() : impl_->cores.in_flight() + impl_->ready();
}

bool Client::Arm() { return impl_->in_child() ? impl_->refused() == 0 : impl_->ready() == 0 && impl_->cores.Arm(); }

int Client::fd() const { return impl_->in_child() ? -1 : impl_->cores.fd(); }
int64_t Client::wait_ms() const { return impl_->in_child() ? -1 : impl_->cores.wait_ms(); }

const ClientStats& Client::stats() const { return impl_->cores.stats(); }
uint64_t Client::incarnation() const { return impl_->cores.home().incarnation(); }
uint64_t Client::memory_bytes() const { return impl_->cores.memory_bytes(); }

}  // namespace farlook
