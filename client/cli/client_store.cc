#include "client/cli/client_store.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace farlook::cli {
namespace {

constexpr int64_t kMaxWaitMs = 100;

// What a command asks for, as an operation of the client's.
std::unique_ptr<AsyncOperation> OperationOf(const Request& request) {
  using Type = Request::Type;
  const std::string& key = request.key;
  const int64_t timeout_ms = request.timeout_ms;
  const GetOptions get{.timeout_ms = timeout_ms};
  // Of one command there is no next that an atomic would be faster for.
  const CounterOptions counter{.exactly_once = true, .timeout_ms = timeout_ms};
  const auto put = [&](Condition condition) {
    return std::make_unique<PutOperation>(key, Borrowed{request.value},
                                          PutOptions{.condition = condition, .timeout_ms = timeout_ms});
  };
  switch (request.type) {
    case Type::kGet:
      return std::make_unique<GetOperation>(key, get);
    case Type::kExists:
      return std::make_unique<ExistsOperation>(key, get);
    case Type::kPut:
      return put(Condition::Always());
    case Type::kInsert:
      return put(Condition::IfAbsent());
    case Type::kReplace:
      return put(Condition::IfPresent());
    case Type::kCompareAndSet:
      return put(Condition::IfVersion(request.version));
    case Type::kDelete:
      return std::make_unique<DeleteOperation>(key, DeleteOptions{.timeout_ms = timeout_ms});
    case Type::kCreateCounter:
      return std::make_unique<CreateCounterOperation>(key, request.operand, counter);
    case Type::kFetchAdd:
      return std::make_unique<FetchAddOperation>(key, request.operand, counter);
    case Type::kCompareSwap:
      return std::make_unique<CompareSwapOperation>(key, request.expected, request.operand, counter);
    case Type::kReadCounter:
      return std::make_unique<ReadCounterOperation>(key, counter);
    case Type::kDeleteCounter:
      return std::make_unique<DeleteCounterOperation>(key, counter);
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ClientStore::Connect(const Options& options) {
  ClientOptions client_options;
  client_options.timeout_ms = options.timeout_ms;
  client_options.read_only = options.read_only;
  // As many as the command keeps in flight: the window is there.
  client_options.max_in_flight = static_cast<uint32_t>(std::max<int64_t>(options.in_flight, 1));
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options.address, client_options);
  if (!client.ok()) return client.status();
  return std::make_unique<ClientStore>(*std::move(client));
}

void ClientStore::Start(Request* request) {
  std::unique_ptr<AsyncOperation>& operation = in_flight_[request];
  operation = OperationOf(*request);
  operation->set_tag(request);
  if (request->type == Request::Type::kGet) static_cast<GetOperation&>(*operation).Into(&request->value);
  client_->Start(operation.get());
}

Request* ClientStore::Poll() {
  AsyncOperation* ended = nullptr;
  if (client_->Poll({&ended, 1}) == 0) return nullptr;
  auto* request = static_cast<Request*>(ended->tag());
  request->status = ended->status();
  request->version = ended->version();
  if (IsCounter(request->type)) request->counter = static_cast<CounterOperation*>(ended)->value();
  in_flight_.erase(request);
  return request;
}

void ClientStore::Wait() {
  if (!client_->Arm()) return;
  const int64_t wait_ms = client_->wait_ms();
  const int64_t bounded_ms = wait_ms < 0 ? kMaxWaitMs : std::min(wait_ms, kMaxWaitMs);
  struct pollfd poll_fd = {.fd = client_->fd(), .events = POLLIN, .revents = 0};
  // The result does not matter: whatever ended the wait, the caller polls.
  poll(&poll_fd, 1, static_cast<int>(bounded_ms));
}

std::string ClientStore::ClientStats() const {
  const farlook::ClientStats& s = client_->stats();
  std::string text;
  const auto add = [&](absl::string_view name, uint64_t value) { absl::StrAppend(&text, name, " ", value, "\n"); };
  add("gets", s.gets);
  add("hits", s.hits);
  add("misses", s.misses);
  add("puts", s.puts);
  add("bucket_reads", s.bucket_reads);
  add("item_reads", s.item_reads);
  add("read_retries", s.read_retries);
  add("cached_hits", s.cached_hits);
  add("stale_locations", s.stale_locations);
  add("directory_refreshes", s.directory_refreshes);
  add("server_gets", s.server_gets);
  add("pulled_values", s.pulled_values);
  add("reconnects", s.reconnects);
  add("resent_requests", s.resent_requests);
  add("timeouts", s.timeouts);
  add("incarnation_changes", s.incarnation_changes);
  add("atomics", s.atomics);
  add("counter_requests", s.counter_requests);
  add("dead_cells", s.dead_cells);
  add("unknown_atomics", s.unknown_atomics);
  add("memory_bytes", client_->memory_bytes());
  return text;
}

}  // namespace farlook::cli
