// Asynchronous operations.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>

#include "client/c/handles.h"
#include "kv/layout/limits.h"

using farlook::client::Kind;
using farlook::client::Operation;
using State = farlook_operation::State;

namespace farlook::c {
namespace {

constexpr size_t kAtOnce = 64;

absl::Status InFlight() { return absl::FailedPreconditionError("the operation is in flight"); }

// `rest(record)` sets everything except kind, key and options.
template <typename Rest>
int Prepare(farlook_operation* operation, Kind kind, const void* key, size_t key_bytes, const farlook_options* options,
            Rest rest) {
  return Guarded([&] {
    if (operation == nullptr) return Invalid("the operation is NULL");
    if (operation->state == State::kInFlight) return Fail(InFlight());
    operation->state = State::kBlank;
    Operation& record = operation->record();
    record.version = 0;
    record.value_bytes = 0;
    record.counter = 0;
    record.left_ms = 0;
    if (const int code = Fill(&record, kind, key, key_bytes, options); code != FARLOOK_OK) return code;
    // A key that is too long may have a wrong length: copy just enough bytes for the operation to refuse it.
    operation->set_key(std::string_view(record.key.data(), std::min(record.key.size(), kv::kMaxKeyBytes + 1)));
    rest(&record);
    operation->state = State::kPrepared;
    return 0;
  });
}

constexpr auto kNoMore = [](Operation*) {};

void Back(AsyncOperation* ended) {
  auto* const operation = static_cast<farlook_operation*>(ended);
  operation->Linked<StartedTag>::Unlink();
  operation->state = State::kEnded;
}

// `take(client, room)` returns operations that ended; if it fills all the room, there may be more.
template <typename Take>
int GiveBack(farlook_client* client, farlook_operation** done, size_t room, Take take) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (done == nullptr && room > 0) return Invalid("the place for operations is NULL");
    room = std::min<size_t>(room, std::numeric_limits<int>::max());
    AsyncOperation* ended[kAtOnce];
    size_t count = 0;
    for (bool first = true;; first = false) {
      const size_t some = std::min(room - count, kAtOnce);
      const size_t taken = take(std::span(ended).first(some), first);
      for (size_t i = 0; i < taken; ++i) {
        Back(ended[i]);
        done[count++] = static_cast<farlook_operation*>(ended[i]);
      }
      if (taken < some || count == room) return static_cast<int>(count);
    }
  });
}

int CheckStart(const farlook_operation* operation) {
  if (operation == nullptr) return Invalid("an operation is NULL");
  // In the client's list: in flight, or listed twice among the operations to be started.
  if (operation->Linked<StartedTag>::linked()) return Fail(InFlight());
  if (operation->state == State::kBlank) return Invalid("an operation was not prepared");
  return FARLOOK_OK;
}

}  // namespace
}  // namespace farlook::c

// NOLINTNEXTLINE(google-build-using-namespace): what follows has C's names
using namespace farlook::c;

extern "C" {

farlook_operation* farlook_operation_new(void) {
  return GuardedOr<farlook_operation*>(nullptr, [] { return new farlook_operation; });
}

int farlook_operation_free(farlook_operation* operation) {
  return Guarded([&] {
    if (operation != nullptr && operation->state == State::kInFlight) return Fail(InFlight());
    delete operation;
    return 0;
  });
}

int farlook_prepare_get(farlook_operation* operation, const void* key, size_t key_bytes,
                        const farlook_options* options) {
  return Prepare(operation, Kind::kGet, key, key_bytes, options, [&](Operation* record) {
    record->to = {&operation->value, {}};
  });
}

int farlook_prepare_get_into(farlook_operation* operation, const void* key, size_t key_bytes,
                             const farlook_options* options, void* buffer, size_t buffer_bytes) {
  if (buffer == nullptr && buffer_bytes > 0) return Invalid("the buffer is NULL");
  return Prepare(operation, Kind::kGet, key, key_bytes, options, [&](Operation* record) {
    record->to = {nullptr, absl::MakeSpan(static_cast<char*>(buffer), buffer_bytes)};
  });
}

int farlook_prepare_exists(farlook_operation* operation, const void* key, size_t key_bytes,
                           const farlook_options* options) {
  return Prepare(operation, Kind::kExists, key, key_bytes, options, kNoMore);
}

int farlook_prepare_put(farlook_operation* operation, const void* key, size_t key_bytes, const void* value,
                        size_t value_bytes, const farlook_options* options) {
  if (value == nullptr && value_bytes > 0) return Invalid("the value is NULL");
  return Prepare(operation, Kind::kPut, key, key_bytes, options,
                 [&](Operation* record) { record->value = Bytes(value, value_bytes); });
}

int farlook_prepare_delete(farlook_operation* operation, const void* key, size_t key_bytes,
                           const farlook_options* options) {
  return Prepare(operation, Kind::kDelete, key, key_bytes, options, kNoMore);
}

int farlook_prepare_touch(farlook_operation* operation, const void* key, size_t key_bytes, int64_t ttl_ms,
                          const farlook_options* options) {
  return Prepare(operation, Kind::kTouch, key, key_bytes, options, [&](Operation* record) { record->ttl_ms = ttl_ms; });
}

int farlook_prepare_persist(farlook_operation* operation, const void* key, size_t key_bytes,
                            const farlook_options* options) {
  return Prepare(operation, Kind::kPersist, key, key_bytes, options, kNoMore);
}

int farlook_prepare_ttl(farlook_operation* operation, const void* key, size_t key_bytes,
                        const farlook_options* options) {
  return Prepare(operation, Kind::kTtl, key, key_bytes, options, kNoMore);
}

int farlook_prepare_get_and_touch(farlook_operation* operation, const void* key, size_t key_bytes, int64_t ttl_ms,
                                  const farlook_options* options) {
  return Prepare(operation, Kind::kGetAndTouch, key, key_bytes, options, [&](Operation* record) {
    record->to = {&operation->value, {}};
    record->ttl_ms = ttl_ms;
  });
}

int farlook_prepare_ping(farlook_operation* operation, const farlook_options* options) {
  return Prepare(operation, Kind::kPing, nullptr, 0, options, kNoMore);
}

int farlook_prepare_warm(farlook_operation* operation, const farlook_options* options) {
  return Prepare(operation, Kind::kWarm, nullptr, 0, options, kNoMore);
}

int farlook_prepare_server_stats(farlook_operation* operation, uint64_t from_line, const farlook_options* options) {
  return Guarded([&] {
    const std::string from = from_line == 0 ? "" : "@" + std::to_string(from_line);
    return Prepare(operation, Kind::kStat, from.data(), from.size(), options, [&](Operation* record) {
      record->to = {&operation->value, {}};
    });
  });
}

int farlook_prepare_create_counter(farlook_operation* operation, const void* key, size_t key_bytes, int64_t initial,
                                   const farlook_options* options) {
  return Prepare(operation, Kind::kCreateCounter, key, key_bytes, options,
                 [&](Operation* record) { record->operand = initial; });
}

int farlook_prepare_fetch_add(farlook_operation* operation, const void* key, size_t key_bytes, int64_t delta,
                              const farlook_options* options) {
  return Prepare(operation, Kind::kFetchAdd, key, key_bytes, options,
                 [&](Operation* record) { record->operand = delta; });
}

int farlook_prepare_compare_swap(farlook_operation* operation, const void* key, size_t key_bytes, int64_t expected,
                                 int64_t desired, const farlook_options* options) {
  return Prepare(operation, Kind::kCompareSwap, key, key_bytes, options, [&](Operation* record) {
    record->expected = expected;
    record->operand = desired;
  });
}

int farlook_prepare_read_counter(farlook_operation* operation, const void* key, size_t key_bytes,
                                 const farlook_options* options) {
  return Prepare(operation, Kind::kReadCounter, key, key_bytes, options, kNoMore);
}

int farlook_prepare_delete_counter(farlook_operation* operation, const void* key, size_t key_bytes,
                                   const farlook_options* options) {
  return Prepare(operation, Kind::kDeleteCounter, key, key_bytes, options, kNoMore);
}

int farlook_start(farlook_client* client, farlook_operation* const* operations, size_t count) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (operations == nullptr && count > 0) return Invalid("the operations are NULL");
    auto& records = client->impl->records;
    records.clear();
    if (count > records.max_size()) return Invalid("there are no so many operations");
    records.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (const int code = CheckStart(operations[i]); code != FARLOOK_OK) {
        for (size_t j = 0; j < i; ++j) operations[j]->Linked<StartedTag>::Unlink();
        return code;
      }
      client->started.Push(operations[i]);
      records.push_back(&operations[i]->record());
    }
    for (size_t i = 0; i < count; ++i) operations[i]->state = State::kInFlight;
    client->impl->cores.Start(records);
    return 0;
  });
}

int farlook_poll(farlook_client* client, farlook_operation** done, size_t room) {
  return GiveBack(client, done, room, [&](auto ended, bool) { return client->client->Poll(ended); });
}

int farlook_wait(farlook_client* client, farlook_operation** done, size_t room) {
  if (room == 0) return Invalid("there is no room for an operation");
  return GiveBack(client, done, room, [&](auto ended, bool first) {
    return first ? client->client->Wait(ended) : client->client->Poll(ended);
  });
}

size_t farlook_in_flight(farlook_client* client) {
  return GuardedOr<size_t>(0, [&] { return Check(client) == FARLOOK_OK ? client->client->in_flight() : 0; });
}

int farlook_arm(farlook_client* client) {
  return GuardedWith(client, [&] {
    const int code = Check(client);
    return code != FARLOOK_OK ? code : static_cast<int>(client->client->Arm());
  });
}

int farlook_fd(farlook_client* client) {
  return Guarded([&] {
    const int code = Check(client);
    return code != FARLOOK_OK ? code : client->client->fd();
  });
}

int64_t farlook_wait_ms(farlook_client* client) {
  return GuardedOr<int64_t>(0, [&] { return Check(client) == FARLOOK_OK ? client->client->wait_ms() : 0; });
}

int farlook_operation_code(const farlook_operation* operation) {
  if (operation == nullptr) return Invalid("the operation is NULL");
  return operation->state == State::kEnded ? CodeOf(operation->status()) : 1;
}

const char* farlook_operation_error(const farlook_operation* operation) {
  if (operation == nullptr || operation->state != State::kEnded || operation->status().ok()) return "";
  // A status without a message is the one of farlook_close().
  if (operation->status().message().empty()) return "the client was closed";
  try {
    auto* const error = &const_cast<farlook_operation*>(operation)->error;
    *error = std::string(operation->status().message());
    return error->c_str();
  } catch (const std::bad_alloc&) {
    return farlook_code_name(CodeOf(operation->status()));
  }
}

const void* farlook_operation_data(const farlook_operation* operation) {
  const bool has = operation != nullptr && operation->state == State::kEnded && operation->status().ok() &&
                   operation->record().to.string != nullptr;
  return has ? operation->value.data() : "";
}

size_t farlook_operation_bytes(const farlook_operation* operation) {
  if (operation == nullptr || operation->state != State::kEnded) return 0;
  const int code = CodeOf(operation->status());
  if (code == FARLOOK_OUT_OF_RANGE) return operation->record().value_bytes;
  const Operation& record = operation->record();
  const bool has = farlook::client::WantsValue(record.kind) || record.kind == Kind::kStat;
  if (code != FARLOOK_OK || !has) return 0;
  return record.to.string != nullptr ? operation->value.size() : record.value_bytes;
}

uint64_t farlook_operation_version(const farlook_operation* operation) {
  if (operation == nullptr || operation->state != State::kEnded || operation->record().kind == Kind::kStat) return 0;
  return operation->version();
}

int64_t farlook_operation_number(const farlook_operation* operation) {
  if (operation == nullptr || operation->state != State::kEnded) return 0;
  const Operation& record = operation->record();
  if (record.kind == Kind::kTtl) return operation->status().ok() ? record.left_ms : 0;
  if (record.kind == Kind::kStat) return operation->status().ok() ? static_cast<int64_t>(record.version) : 0;
  return farlook::client::IsCounter(record.kind) && HasCounterValue(CodeOf(record.status)) ? record.counter : 0;
}

void farlook_operation_set_tag(farlook_operation* operation, void* tag) {
  if (operation != nullptr) operation->set_tag(tag);
}

void* farlook_operation_tag(const farlook_operation* operation) {
  return operation != nullptr ? operation->tag() : nullptr;
}

}  // extern "C"
