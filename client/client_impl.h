// What a Client is made of: the calls that wait start an operation, or a batch of them, on the core and wait until it
// is done. The C library (client/c) uses it as the Client does, where its columns have another form than the Client's
// calls.
#ifndef FARLOOK_CLIENT_CLIENT_IMPL_H_
#define FARLOOK_CLIENT_CLIENT_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/batch.h"
#include "client/core.h"
#include "client/cores.h"
#include "client/operation.h"
#include "client/view.h"
#include "client/waiter.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook {

namespace client {

inline absl::Status NotAsMany(absl::string_view what, size_t count, size_t keys) {
  return absl::InvalidArgumentError(absl::StrCat("a batch of ", keys, " keys has ", count, " ", what));
}

}  // namespace client

class ClientImpl {
 public:
  ClientImpl(std::unique_ptr<client::ClientCore> core, std::string_view address, const ClientOptions& options)
      : reached(address),
        first(std::move(core)),
        cores(first.get()),
        waiter(&cores, options.spin_us),
        batch(&cores, &waiter) {}

  // The cores let go of the operations first.
  ~ClientImpl() {
    others.clear();
    first.reset();
  }

  static ClientImpl& Of(Client& client) { return *client.impl_; }

  // Starts a get and waits until it is done. Most are at once, and then no clock is read.
  absl::Status Run(client::Operation* operation, client::Kind kind) {
    operation->kind = kind;
    operation->blocking = true;
    client::ClientCore& core = cores.OfKey(operation);
    core.StartUntimed(operation, kind);
    core.ProgressNowAndThen();
    if (!operation->done) [[unlikely]] {
      core.SetDeadline(operation);
      waiter.Wait([operation] { return operation->done; });
    }
    cores.Tend();
    return std::exchange(operation->status, absl::OkStatus());
  }
  // The same of one that is made here. What it found beside the value stands in `get`.
  absl::Status RunGet(client::Kind kind, std::string_view key, client::Destination to, const GetOptions& options) {
    get.key = client::View(key);
    get.to = to;
    get.timeout_ms = options.timeout_ms;
    return Run(&get, kind);
  }

  // The same for what is no get: its request bears the deadline.
  absl::Status RunTimed(client::Operation* operation, client::Kind kind, std::string_view key, int64_t timeout_ms) {
    operation->kind = kind;
    operation->key = client::View(key);
    client::ClientCore& core = cores.Of(operation);
    return RunUntil(&core, operation, core.DeadlineFromNow(timeout_ms));
  }
  absl::Status RunUntil(client::ClientCore* core, client::Operation* operation, int64_t deadline_ns) {
    operation->blocking = true;
    core->StartUntil(operation, deadline_ns);
    core->ProgressNowAndThen();
    if (!operation->done) waiter.Wait([operation] { return operation->done; });
    cores.Tend();
    return std::move(operation->status);
  }
  // The same of a group of the cluster, by its name.
  absl::Status RunAt(std::string_view group, client::Operation* operation, client::Kind kind, std::string_view key,
                     int64_t timeout_ms) {
    const absl::StatusOr<client::ClientCore*> core = cores.OfGroup(client::View(group));
    if (!core.ok()) return core.status();
    operation->kind = kind;
    operation->key = client::View(key);
    return RunUntil(*core, operation, (*core)->DeadlineFromNow(timeout_ms));
  }
  // A text that a server tells in pages (client::Pages), all in this time.
  absl::StatusOr<std::string> AskText(client::ClientCore* core, std::string_view what, int64_t timeout_ms) {
    client::Pages pages(client::View(what));
    const int64_t deadline_ns = core->DeadlineFromNow(timeout_ms);
    for (;;) {
      client::Operation operation;
      pages.Ask(&operation);
      if (absl::Status status = RunUntil(core, &operation, deadline_ns); !status.ok()) return status;
      if (!pages.Take(operation)) return pages.text();
    }
  }
  // One for each group, at once. Returns the first error.
  absl::Status RunOnAll(client::Kind kind, int64_t timeout_ms);

  absl::StatusOr<int64_t> Count(client::Operation* operation, client::Kind kind, std::string_view key,
                                const CounterOptions& options) {
    operation->exactly_once = options.exactly_once;
    if (absl::Status status = RunTimed(operation, kind, key, options.timeout_ms); !status.ok()) return status;
    return operation->counter;
  }

  // A batch of them, with an operand for each, or without.
  absl::Status CountAll(client::Kind kind, std::span<const std::string_view> keys,
                        std::optional<std::span<const int64_t>> operands, std::vector<Result<int64_t>>* results,
                        const CounterOptions& options) {
    if (operands.has_value() && operands->size() != keys.size()) {
      return client::NotAsMany("numbers", operands->size(), keys.size());
    }
    results->resize(keys.size());
    return batch.Run(
        kind, keys.size(), options.timeout_ms,
        [&](size_t i, client::Operation* operation) {
          operation->key = client::View(keys[i]);
          if (operands.has_value()) operation->operand = (*operands)[i];
          if (kind == client::Kind::kCreateCounter) operation->ttl_ms = options.ttl_ms;
          operation->exactly_once = options.exactly_once;
        },
        [&](size_t i, client::Operation* operation) {
          client::TakeStatus(operation, &(*results)[i].status);
          (*results)[i].value = operation->counter;
        });
  }

  // ---- Operations that do not wait.

  static client::Operation* RecordOf(AsyncOperation* operation) { return &operation->record(); }

  size_t Poll(std::span<AsyncOperation*> done) {
    size_t count = 0;
    while (ready_first_ != nullptr && count < done.size()) done[count++] = PopReady();
    client::Operation* ended[64];
    size_t taken = 0;
    do {
      taken = cores.Poll(absl::MakeSpan(ended));
      for (size_t i = 0; i < taken; ++i) {
        auto* const operation = static_cast<AsyncOperation*>(ended[i]->owner);
        if (operation->then_) [[unlikely]] {
          Call(operation);
        } else if (count < done.size()) {
          done[count++] = operation;
        } else {
          PushReady(operation);
        }
      }
    } while (taken == std::size(ended));
    return count;
  }

  size_t Wait(std::span<AsyncOperation*> done) {
    const uint64_t calls_before = calls_;
    for (;;) {
      const size_t count = Poll(done);
      if (count > 0 || calls_ != calls_before || ready_first_ != nullptr || cores.in_flight() == 0) return count;
      waiter.Wait([this] { return cores.has_ended(); });
    }
  }

  static void SetThen(AsyncOperation* operation, std::function<void(AsyncOperation*)> then) {
    operation->then_ = std::move(then);
  }

  size_t ready() const { return ready_; }

  std::string reached;                      // see Client::address()
  client::Operation get;                    // of RunGet(): such calls come one after the other
  std::vector<client::Operation*> records;  // scratch
  std::unique_ptr<client::ClientCore> first;
  std::vector<std::unique_ptr<client::ClientCore>> others;  // of the other groups, where there is a cluster
  client::Cores cores;
  client::Waiter waiter;
  client::Batch batch;

 private:
  // The operation is its callback's from here on, which may destroy it or start it again.
  void Call(AsyncOperation* operation) {
    ++calls_;
    const std::function<void(AsyncOperation*)> then = std::exchange(operation->then_, nullptr);
    then(operation);
  }

  // Those that have ended while callbacks were looked for, and found no room.
  void PushReady(AsyncOperation* operation) {
    operation->next_ = nullptr;
    (ready_first_ == nullptr ? ready_first_ : ready_last_->next_) = operation;
    ready_last_ = operation;
    ++ready_;
  }
  AsyncOperation* PopReady() {
    --ready_;
    return std::exchange(ready_first_, ready_first_->next_);
  }

  AsyncOperation* ready_first_ = nullptr;
  AsyncOperation* ready_last_ = nullptr;  // undefined while there is none
  size_t ready_ = 0;
  uint64_t calls_ = 0;  // of callbacks
};

}  // namespace farlook

#endif  // FARLOOK_CLIENT_CLIENT_IMPL_H_
