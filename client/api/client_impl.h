// The implementation of Client: a blocking call starts an operation, or a batch of them, on the core and waits until it
// has ended. The C library (client/c) also uses it directly, where its columns differ from the Client's calls.
#ifndef FARLOOK_CLIENT_API_CLIENT_IMPL_H_
#define FARLOOK_CLIENT_API_CLIENT_IMPL_H_

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
#include "client/api/batch.h"
#include "client/api/misuse.h"
#include "client/api/waiter.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/op/forks.h"
#include "client/op/operation.h"
#include "client/op/view.h"
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
        waiter(&cores, options.spin_us, options.while_waiting),
        batch(&cores, &waiter) {}

  // The cores release the operations first.
  ~ClientImpl() {
    others.clear();
    first.reset();
  }

  static ClientImpl& Of(Client& client) { return *client.impl_; }

  // Returns whether this process is a child of the one that connected: then every call fails with client::OfParent().
  bool in_child() const { return fork_mark_.in_child(); }
  // Releases this process's copy of its parent's client: memory and descriptors. REQUIRES in_child().
  static void LeaveToParent(std::unique_ptr<ClientImpl> impl);

  // Runs a get to its end. Most end at once, and then no clock is read.
  absl::Status Run(client::Operation* operation, client::Kind kind) {
    if (in_child()) [[unlikely]]
      return client::OfParent();
    [[maybe_unused]] const client::OneThread::DebugCall call(waiter.one_thread());
    operation->kind = kind;
    operation->blocking = true;
    client::ClientCore* const core = cores.OfKey(operation);
    if (core == nullptr) [[unlikely]]
      return RunUntil(core, operation, client::ClientCore::kNoDeadline);
    core->StartUntimed(operation, kind);
    core->ProgressNowAndThen();
    if (!operation->done) [[unlikely]] {
      core->SetDeadline(operation);
      waiter.WaitFor({operation, 1});
    }
    cores.Tend();
    return std::exchange(operation->status, absl::OkStatus());
  }
  // The same for the get made here. `get` then contains what it found besides the value.
  absl::Status RunGet(client::Kind kind, std::string_view key, client::Destination to, const GetOptions& options) {
    get.key = client::View(key);
    get.to = to;
    get.timeout_ms = options.timeout_ms;
    return Run(&get, kind);
  }

  // The same for other operations: their requests carry the deadline.
  absl::Status RunTimed(client::Operation* operation, client::Kind kind, std::string_view key, int64_t timeout_ms) {
    operation->kind = kind;
    operation->key = client::View(key);
    client::ClientCore* const core = cores.Of(operation);
    return RunUntil(core, operation, cores.home().DeadlineFromNow(timeout_ms));
  }
  // `core`: null if the operation's slot moves.
  absl::Status RunUntil(client::ClientCore* core, client::Operation* operation, int64_t deadline_ns) {
    if (in_child()) [[unlikely]]
      return client::OfParent();
    [[maybe_unused]] const client::OneThread::DebugCall call(waiter.one_thread());
    operation->blocking = true;
    if (core == nullptr) [[unlikely]] {
      cores.moved()->Start(operation, deadline_ns);
    } else {
      core->StartUntil(operation, deadline_ns);
      core->ProgressNowAndThen();
    }
    if (!operation->done) waiter.WaitFor({operation, 1});
    cores.Tend();
    return std::move(operation->status);
  }
  // The same for a group of the cluster, by its name.
  absl::Status RunAt(std::string_view group, client::Operation* operation, client::Kind kind, std::string_view key,
                     int64_t timeout_ms) {
    const absl::StatusOr<client::ClientCore*> core = cores.OfGroup(client::View(group));
    if (!core.ok()) return core.status();
    operation->kind = kind;
    operation->key = client::View(key);
    return RunUntil(*core, operation, (*core)->DeadlineFromNow(timeout_ms));
  }
  // Returns a text that a server sends in pages (client::Pages); the timeout applies to all pages together.
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
  // Runs one operation for each group, concurrently. Returns the first error.
  absl::Status RunOnAll(client::Kind kind, int64_t timeout_ms);

  absl::StatusOr<int64_t> Count(client::Operation* operation, client::Kind kind, std::string_view key,
                                const CounterOptions& options) {
    client::TakeOptions(options, kind, operation);
    if (absl::Status status = RunTimed(operation, kind, key, options.timeout_ms); !status.ok()) return status;
    return operation->counter;
  }

  // Runs a batch of operations on counters, with or without an operand for each.
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
          client::TakeOptions(options, kind, operation);
        },
        [&](size_t i, client::Operation* operation) {
          client::TakeStatus(operation, &(*results)[i].status);
          (*results)[i].value = operation->counter;
        });
  }

  // ---- Asynchronous operations.

  // Marks an operation as in flight before it is started. Returns its record.
  client::Operation* TakeOff(AsyncOperation* operation) {
    if (operation->client_ != 0 && client::LiveClient::Lives(operation->client_)) [[unlikely]]
      client::EndForMisuse("Start() of an operation that is in flight (farlook/async.h says until when it is)");
    operation->client_ = live_.number();
    return &operation->raw_record();
  }

  size_t Poll(std::span<AsyncOperation*> done) {
    if (in_child()) [[unlikely]]
      return PollRefused(done);
    [[maybe_unused]] const client::OneThread::DebugCall call(waiter.one_thread());
    size_t count = 0;
    while (ready_first_ != nullptr && count < done.size()) done[count++] = Land(PopReady());
    client::Operation* ended[64];
    size_t taken = 0;
    do {
      taken = cores.Poll(absl::MakeSpan(ended));
      for (size_t i = 0; i < taken; ++i) {
        auto* const operation = static_cast<AsyncOperation*>(ended[i]->owner);
        if (operation->then_) [[unlikely]] {
          Call(operation);
        } else if (count < done.size()) {
          done[count++] = Land(operation);
        } else {
          PushReady(operation);
        }
      }
    } while (taken == std::size(ended));
    return count;
  }

  size_t Wait(std::span<AsyncOperation*> done) {
    if (in_child()) return PollRefused(done);
    const uint64_t calls_before = calls_;
    for (;;) {
      const size_t count = Poll(done);
      if (count > 0 || calls_ != calls_before || ready_first_ != nullptr || cores.in_flight() == 0) return count;
      if (!waiter.Wait([this] { return cores.has_ended(); })) return 0;
    }
  }

  static void SetThen(AsyncOperation* operation, std::function<void(AsyncOperation*)> then) {
    operation->then_ = std::move(then);
  }

  size_t ready() const { return ready_; }

  // In a child: ends the operation with client::OfParent(), for Poll() to return.
  void Refuse(AsyncOperation* operation) {
    ForgetParents();
    Land(operation)->record().status = client::OfParent();
    PushReady(operation);
  }
  // In a child: returns how many operations were refused and not returned.
  size_t refused() const { return forgot_parents_ ? ready_ : 0; }

  std::string reached;                      // see Client::address()
  client::Operation get;                    // for RunGet(): such calls are sequential
  std::vector<client::Operation*> records;  // scratch
  std::unique_ptr<client::ClientCore> first;
  std::vector<std::unique_ptr<client::ClientCore>> others;  // of a cluster's other groups
  client::Cores cores;
  client::Waiter waiter;
  client::Batch batch;

 private:
  // Drops operations that the parent's calls would have returned.
  void ForgetParents() {
    if (std::exchange(forgot_parents_, true)) return;
    ready_first_ = nullptr;
    ready_ = 0;
  }
  size_t PollRefused(std::span<AsyncOperation*> done) {
    ForgetParents();
    size_t count = 0;
    while (ready_first_ != nullptr && count < done.size()) {
      AsyncOperation* const operation = PopReady();
      if (operation->then_) {
        Call(operation);
      } else {
        done[count++] = operation;
      }
    }
    return count;
  }

  // Calls the callback. From here on it owns the operation: it may destroy it or start it again.
  void Call(AsyncOperation* operation) {
    ++calls_;
    Land(operation);
    const std::function<void(AsyncOperation*)> then = std::exchange(operation->then_, nullptr);
    then(operation);
  }

  // Marks the operation as no longer in flight.
  static AsyncOperation* Land(AsyncOperation* operation) {
    operation->client_ = 0;
    return operation;
  }

  // Operations that ended while callbacks were called, and that did not fit in `done`.
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
  AsyncOperation* ready_last_ = nullptr;  // undefined if the list is empty
  size_t ready_ = 0;
  const client::LiveClient live_;
  bool forgot_parents_ = false;
  const client::ForkMark fork_mark_;
  uint64_t calls_ = 0;  // number of calls of callbacks
};

}  // namespace farlook

#endif  // FARLOOK_CLIENT_API_CLIENT_IMPL_H_
