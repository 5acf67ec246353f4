// The blocking calls: each starts an operation on the core and waits until it is done.
#include "client/client.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/core.h"
#include "client/multi_get.h"
#include "client/waiter.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook {

using client::ClientCore;

class ClientImpl {
 public:
  ClientImpl(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address, const ClientOptions& options)
      : core(std::move(endpoint), address, options, rdma::Clock::Real(), std::random_device()()),
        waiter(&core, options.spin_us),
        multi_get(&core, &waiter) {}

  // Says to the engines what a public operation is.
  static client::Operation* Prepare(Operation* operation, bool blocking) {
    using Type = Operation::Type;
    using client::Kind;
    static constexpr Kind kKinds[] = {Kind::kGet,         Kind::kExists,        Kind::kPut,      Kind::kPut,
                                      Kind::kPut,         Kind::kPut,           Kind::kDelete,   Kind::kPing,
                                      Kind::kStat,        Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap,
                                      Kind::kReadCounter, Kind::kDeleteCounter};
    if (operation->type == Type::kPut) [[likely]] {
      operation->kind = Kind::kPut;
      operation->condition = Condition();
    } else {
      operation->kind = kKinds[static_cast<size_t>(operation->type)];
      operation->condition = Condition();
      if (operation->type == Type::kInsert) operation->condition = Condition::IfAbsent();
      if (operation->type == Type::kReplace) operation->condition = Condition::IfPresent();
      if (operation->type == Type::kCompareAndSet) operation->condition = Condition::IfVersion(operation->version);
    }
    operation->to = {operation->string, operation->buffer};
    operation->blocking = blocking;
    return operation;
  }

  // Starts an operation and waits until it is done.
  absl::Status Run(client::Operation* operation) {
    operation->blocking = true;
    core.StartUntimed(absl::MakeSpan(&operation, 1));
    core.ProgressNowAndThen();
    if (!operation->done) [[unlikely]] {
      core.SetDeadlines(absl::MakeSpan(&operation, 1));
      waiter.Wait([operation] { return operation->done; });
    }
    return std::move(operation->status);
  }

  absl::StatusOr<uint64_t> Write(client::Kind kind, absl::string_view key, absl::string_view value, Condition condition,
                                 int64_t timeout_ms) {
    client::Operation operation;
    operation.kind = kind;
    operation.key = key;
    operation.value = value;
    operation.condition = condition;
    operation.timeout_ms = timeout_ms;
    if (absl::Status status = Run(&operation); !status.ok()) return status;
    return operation.version;
  }

  // The same for many.
  void RunAll(absl::Span<Operation> operations) {
    pointers.clear();
    for (Operation& operation : operations) pointers.push_back(Prepare(&operation, /*blocking=*/true));
    core.StartUntimed(pointers);
    core.Progress();
    size_t done = 0;  // all before this are
    const auto all_done = [&] {
      while (done < operations.size() && pointers[done]->done) ++done;
      return done == operations.size();
    };
    if (!all_done()) {
      core.SetDeadlines(pointers);
      waiter.Wait(all_done);
    }
  }

  absl::StatusOr<int64_t> Count(client::Operation* operation, absl::string_view key, int64_t timeout_ms) {
    operation->key = key;
    operation->timeout_ms = timeout_ms;
    if (absl::Status status = Run(operation); !status.ok()) return status;
    return operation->counter;
  }

  absl::Status CountMany(absl::Span<const absl::string_view> keys, std::vector<Client::CounterResult>* results) {
    RunAll(absl::MakeSpan(batch));
    absl::Status first_error;
    results->resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      Client::CounterResult& result = (*results)[i];
      result.status = std::move(batch[i].status);
      result.value = batch[i].counter;
      if (!result.status.ok() && !absl::IsNotFound(result.status) && first_error.ok()) first_error = result.status;
    }
    return first_error;
  }

  std::vector<Operation> batch;  // of a call for many counters
  std::vector<client::Operation*> pointers;
  ClientCore core;
  client::Waiter waiter;
  client::MultiGetter multi_get;
};

Client::Client(std::unique_ptr<ClientImpl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address, const ClientOptions& options) {
  rdma::TransportOptions transport;
  transport.liveness_ms = options.liveness_ms;
  transport.max_outstanding = options.max_outstanding;
  auto endpoint = rdma::CreateEndpoint(address, transport);
  if (!endpoint.ok()) return endpoint.status();
  auto impl = std::make_unique<ClientImpl>(*std::move(endpoint), address, options);
  if (absl::Status status = impl->waiter.Connect(options.timeout_ms); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot connect to ", address, ": ", status.message()));
  }
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

absl::Status Client::Get(absl::string_view key, std::string* value, uint64_t* version, int64_t timeout_ms) {
  client::Operation operation;
  operation.key = key;
  operation.to.string = value;
  operation.timeout_ms = timeout_ms;
  absl::Status status = impl_->Run(&operation);
  if (version != nullptr && status.ok()) *version = operation.version;
  return status;
}

absl::StatusOr<Value> Client::Get(absl::string_view key, int64_t timeout_ms) {
  Value value;
  if (absl::Status status = Get(key, &value.data, &value.version, timeout_ms); !status.ok()) return status;
  return value;
}

absl::StatusOr<size_t> Client::GetInto(absl::string_view key, absl::Span<char> buffer, uint64_t* version,
                                       int64_t timeout_ms) {
  client::Operation operation;
  operation.key = key;
  operation.to.buffer = buffer;
  operation.timeout_ms = timeout_ms;
  if (absl::Status status = impl_->Run(&operation); !status.ok()) return status;
  if (version != nullptr) *version = operation.version;
  return operation.value_bytes;
}

absl::Status Client::MultiGet(absl::Span<const absl::string_view> keys, std::vector<Result>* results,
                              int64_t timeout_ms) {
  results->resize(keys.size());
  return impl_->multi_get.Run(keys, absl::MakeSpan(*results), timeout_ms);
}

absl::StatusOr<bool> Client::Exists(absl::string_view key, int64_t timeout_ms) {
  client::Operation operation;
  operation.kind = client::Kind::kExists;
  operation.key = key;
  operation.timeout_ms = timeout_ms;
  absl::Status status = impl_->Run(&operation);
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

absl::StatusOr<uint64_t> Client::Put(absl::string_view key, absl::string_view value, int64_t timeout_ms) {
  return impl_->Write(client::Kind::kPut, key, value, Condition::Always(), timeout_ms);
}

absl::StatusOr<uint64_t> Client::Insert(absl::string_view key, absl::string_view value, int64_t timeout_ms) {
  return impl_->Write(client::Kind::kPut, key, value, Condition::IfAbsent(), timeout_ms);
}

absl::StatusOr<uint64_t> Client::Replace(absl::string_view key, absl::string_view value, int64_t timeout_ms) {
  return impl_->Write(client::Kind::kPut, key, value, Condition::IfPresent(), timeout_ms);
}

absl::StatusOr<uint64_t> Client::CompareAndSet(absl::string_view key, absl::string_view value, uint64_t version,
                                               int64_t timeout_ms) {
  return impl_->Write(client::Kind::kPut, key, value, Condition::IfVersion(version), timeout_ms);
}

absl::Status Client::Delete(absl::string_view key, int64_t timeout_ms) {
  return impl_->Write(client::Kind::kDelete, key, absl::string_view(), Condition::Always(), timeout_ms).status();
}

absl::Status Client::Ping(int64_t timeout_ms) {
  return impl_->Write(client::Kind::kPing, absl::string_view(), absl::string_view(), Condition::Always(), timeout_ms)
      .status();
}

absl::StatusOr<std::string> Client::ServerStats(int64_t timeout_ms) {
  std::string text;
  client::Operation operation;
  operation.kind = client::Kind::kStat;
  operation.to.string = &text;
  operation.timeout_ms = timeout_ms;
  if (absl::Status status = impl_->Run(&operation); !status.ok()) return status;
  return text;
}

absl::Status Client::CreateCounter(absl::string_view key, int64_t initial, int64_t timeout_ms) {
  client::Operation operation;
  operation.kind = client::Kind::kCreateCounter;
  operation.operand = initial;
  return impl_->Count(&operation, key, timeout_ms).status();
}

absl::StatusOr<int64_t> Client::FetchAdd(absl::string_view key, int64_t delta, const FetchAddOptions& options) {
  client::Operation operation;
  operation.kind = client::Kind::kFetchAdd;
  operation.operand = delta;
  operation.exactly_once = options.exactly_once;
  return impl_->Count(&operation, key, options.timeout_ms);
}

absl::StatusOr<int64_t> Client::CompareSwap(absl::string_view key, int64_t expected, int64_t desired,
                                            int64_t timeout_ms) {
  client::Operation operation;
  operation.kind = client::Kind::kCompareSwap;
  operation.expected = expected;
  operation.operand = desired;
  return impl_->Count(&operation, key, timeout_ms);
}

absl::StatusOr<int64_t> Client::ReadCounter(absl::string_view key, int64_t timeout_ms) {
  client::Operation operation;
  operation.kind = client::Kind::kReadCounter;
  return impl_->Count(&operation, key, timeout_ms);
}

absl::Status Client::DeleteCounter(absl::string_view key, int64_t timeout_ms) {
  client::Operation operation;
  operation.kind = client::Kind::kDeleteCounter;
  return impl_->Count(&operation, key, timeout_ms).status();
}

absl::Status Client::MultiFetchAdd(absl::Span<const absl::string_view> keys, absl::Span<const int64_t> deltas,
                                   std::vector<CounterResult>* results, const FetchAddOptions& options) {
  impl_->batch.assign(keys.size(), Operation());
  for (size_t i = 0; i < keys.size(); ++i) {
    Operation& operation = impl_->batch[i];
    operation.type = Operation::Type::kFetchAdd;
    operation.key = keys[i];
    operation.operand = deltas[i];
    operation.exactly_once = options.exactly_once;
    operation.timeout_ms = options.timeout_ms;
  }
  return impl_->CountMany(keys, results);
}

absl::Status Client::MultiReadCounter(absl::Span<const absl::string_view> keys, std::vector<CounterResult>* results,
                                      int64_t timeout_ms) {
  impl_->batch.assign(keys.size(), Operation());
  for (size_t i = 0; i < keys.size(); ++i) {
    impl_->batch[i].type = Operation::Type::kReadCounter;
    impl_->batch[i].key = keys[i];
    impl_->batch[i].timeout_ms = timeout_ms;
  }
  return impl_->CountMany(keys, results);
}

void Client::RunAll(absl::Span<Operation> operations) { impl_->RunAll(operations); }

void Client::Start(Operation* operation) { impl_->core.Start(ClientImpl::Prepare(operation, /*blocking=*/false)); }
void Client::Start(absl::Span<Operation* const> operations) {
  std::vector<client::Operation*>& records = impl_->pointers;
  records.clear();
  for (Operation* operation : operations) records.push_back(ClientImpl::Prepare(operation, /*blocking=*/false));
  impl_->core.Start(records);
}
size_t Client::Poll(absl::Span<Operation*> done) {
  static_assert(sizeof(Operation*) == sizeof(client::Operation*));  // a base, and nothing virtual: the same bits
  return impl_->core.Poll(absl::MakeSpan(reinterpret_cast<client::Operation**>(done.data()), done.size()));
}
size_t Client::in_flight() const { return impl_->core.in_flight(); }
bool Client::Arm() { return impl_->core.Arm(); }
int Client::fd() const { return impl_->core.fd(); }
int64_t Client::wait_ms() const { return impl_->core.wait_ms(); }
const ClientStats& Client::stats() const { return impl_->core.stats(); }
uint64_t Client::incarnation() const { return impl_->core.incarnation(); }
uint64_t Client::memory_bytes() const { return impl_->core.memory_bytes(); }

}  // namespace farlook
