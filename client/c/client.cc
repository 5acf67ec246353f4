// Connecting, and the calls for one value.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "farlook/memory.h"
#include "farlook/stats.h"

namespace farlook::c {
namespace {

using client::Kind;
using client::Operation;

struct Figure {
  const char* name;
  uint64_t ClientStats::*figure;
};

#define FARLOOK_FIGURE(name) \
  { #name, &ClientStats::name }
constexpr Figure kFigures[] = {
    FARLOOK_FIGURE(gets),
    FARLOOK_FIGURE(hits),
    FARLOOK_FIGURE(misses),
    FARLOOK_FIGURE(bucket_reads),
    FARLOOK_FIGURE(item_reads),
    FARLOOK_FIGURE(read_retries),
    FARLOOK_FIGURE(cached_hits),
    FARLOOK_FIGURE(stale_locations),
    FARLOOK_FIGURE(directory_refreshes),
    FARLOOK_FIGURE(warming_reads),
    FARLOOK_FIGURE(server_gets),
    FARLOOK_FIGURE(puts),
    FARLOOK_FIGURE(pulled_values),
    FARLOOK_FIGURE(reconnects),
    FARLOOK_FIGURE(resent_requests),
    FARLOOK_FIGURE(timeouts),
    FARLOOK_FIGURE(incarnation_changes),
    FARLOOK_FIGURE(atomics),
    FARLOOK_FIGURE(counter_requests),
    FARLOOK_FIGURE(dead_cells),
    FARLOOK_FIGURE(unknown_atomics),
};
#undef FARLOOK_FIGURE
static_assert(sizeof(kFigures) / sizeof(Figure) * sizeof(uint64_t) + 3 * sizeof(LatencyHistogram) ==
                  sizeof(ClientStats),
              "each count has a name");

// Runs an operation of `kind`, from the checks to its end.
int Call(farlook_client* client, Operation* operation, Kind kind, const void* key, size_t key_bytes,
         const farlook_options* options) {
  if (const int code = Check(client); code != FARLOOK_OK) return code;
  if (const int code = Fill(operation, kind, key, key_bytes, options); code != FARLOOK_OK) return code;
  return Run(client, operation);
}

// The same for an operation without other parameters or results.
int CallPlainly(farlook_client* client, Kind kind, const void* key, size_t key_bytes, const farlook_options* options) {
  return GuardedWith(client, [&] {
    Operation operation;
    return Call(client, &operation, kind, key, key_bytes, options);
  });
}

int GetValue(farlook_client* client, Operation* operation, Kind kind, const void* key, size_t key_bytes,
             const farlook_options* options, farlook_value* value) {
  if (value == nullptr) return Invalid("the value is NULL");
  operation->to.string = &value->value.data;
  const int code = Call(client, operation, kind, key, key_bytes, options);
  value->value.version = code == FARLOOK_OK ? operation->version : 0;
  if (code != FARLOOK_OK) value->value.data.clear();
  return code;
}

}  // namespace
}  // namespace farlook::c

// NOLINTNEXTLINE(google-build-using-namespace): what follows has C's names
using namespace farlook::c;
using farlook::client::Kind;
using farlook::client::Operation;

extern "C" {

int farlook_connect(const char* address, const farlook_options* options, farlook_client** client) {
  return Guarded([&] {
    if (client == nullptr) return Invalid("the pointer to the client is NULL");
    *client = nullptr;
    if (address == nullptr) return Invalid("the address is NULL");
    if (const int code = CheckOptions(options, kFarlookTimeout | kFarlookConnect); code != FARLOOK_OK) return code;
    auto connected =
        farlook::Client::Connect(address, options != nullptr ? options->connect : farlook::ClientOptions());
    if (!connected.ok()) return Fail(connected.status());
    auto made = std::make_unique<farlook_client>();
    made->client = *std::move(connected);
    made->impl = &farlook::ClientImpl::Of(*made->client);
    *client = made.release();
    return 0;
  });
}

void farlook_close(farlook_client* client) {
  if (client == nullptr) return;
  client->client = nullptr;
  while (farlook_operation* const operation = client->started.Pop()) {
    operation->state = farlook_operation::State::kEnded;
    operation->record().status = absl::Status(absl::StatusCode::kCancelled, absl::string_view());
  }
  delete client;
}

farlook_value* farlook_value_new(void) {
  return GuardedOr<farlook_value*>(nullptr, [] { return new farlook_value; });
}
void farlook_value_free(farlook_value* value) { delete value; }
const void* farlook_value_data(const farlook_value* value) { return value != nullptr ? value->value.data.data() : ""; }
size_t farlook_value_bytes(const farlook_value* value) { return value != nullptr ? value->value.data.size() : 0; }
uint64_t farlook_value_version(const farlook_value* value) { return value != nullptr ? value->value.version : 0; }

int farlook_get(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options, void* buffer,
                size_t buffer_bytes, size_t* value_bytes, uint64_t* version) {
  return GuardedWith(client, [&] {
    if (buffer == nullptr && buffer_bytes > 0) return Invalid("the buffer is NULL");
    Operation operation;
    operation.to.buffer = absl::MakeSpan(static_cast<char*>(buffer), buffer_bytes);
    const int code = Call(client, &operation, Kind::kGet, key, key_bytes, options);
    const bool tells = code == FARLOOK_OK || code == FARLOOK_OUT_OF_RANGE;
    if (value_bytes != nullptr) *value_bytes = tells ? operation.value_bytes : 0;
    if (version != nullptr) *version = code == FARLOOK_OK ? operation.version : 0;
    return code;
  });
}

int farlook_get_value(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                      farlook_value* value) {
  return GuardedWith(client, [&] {
    Operation operation;
    return GetValue(client, &operation, Kind::kGet, key, key_bytes, options, value);
  });
}

int farlook_exists(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options) {
  return CallPlainly(client, Kind::kExists, key, key_bytes, options);
}

int farlook_put(farlook_client* client, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                const farlook_options* options, uint64_t* version) {
  return GuardedWith(client, [&] {
    if (value == nullptr && value_bytes > 0) return Invalid("the value is NULL");
    Operation operation;
    operation.value = Bytes(value, value_bytes);
    const int code = Call(client, &operation, Kind::kPut, key, key_bytes, options);
    if (version != nullptr) *version = operation.version;
    return code;
  });
}

int farlook_delete(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options) {
  return CallPlainly(client, Kind::kDelete, key, key_bytes, options);
}

int farlook_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                  const farlook_options* options) {
  return GuardedWith(client, [&] {
    Operation operation;
    operation.ttl_ms = ttl_ms;
    return Call(client, &operation, Kind::kTouch, key, key_bytes, options);
  });
}

int farlook_persist(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options) {
  return CallPlainly(client, Kind::kPersist, key, key_bytes, options);
}

int farlook_ttl(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                int64_t* left_ms) {
  return GuardedWith(client, [&] {
    if (left_ms == nullptr) return Invalid("the pointer to the milliseconds is NULL");
    Operation operation;
    const int code = Call(client, &operation, Kind::kTtl, key, key_bytes, options);
    *left_ms = code == FARLOOK_OK ? operation.left_ms : 0;
    return code;
  });
}

int farlook_get_and_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                          const farlook_options* options, farlook_value* value) {
  return GuardedWith(client, [&] {
    Operation operation;
    operation.ttl_ms = ttl_ms;
    return GetValue(client, &operation, Kind::kGetAndTouch, key, key_bytes, options, value);
  });
}

int farlook_register(farlook_client* client, void* memory, size_t bytes) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    return Ended(farlook::RegisterMemory(client->client.get(), std::span(static_cast<char*>(memory), bytes)));
  });
}

int farlook_unregister(farlook_client* client, const void* memory) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    return Ended(farlook::UnregisterMemory(client->client.get(), static_cast<const char*>(memory)));
  });
}

int farlook_ping(farlook_client* client, const farlook_options* options) {
  return CallPlainly(client, Kind::kPing, nullptr, 0, options);
}

int farlook_warm(farlook_client* client, const farlook_options* options) {
  return CallPlainly(client, Kind::kWarm, nullptr, 0, options);
}

int farlook_server_stats(farlook_client* client, const farlook_options* options, farlook_value* text) {
  return GuardedWith(client, [&] {
    if (text == nullptr) return Invalid("the value is NULL");
    text->value = {};
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (const int code = CheckOptions(options, kFarlookTimeout); code != FARLOOK_OK) return code;
    const bool timed = options != nullptr && (options->set & kFarlookTimeout) != 0;
    auto stats = client->client->ServerStats({.timeout_ms = timed ? options->connect.timeout_ms : 0});
    if (!stats.ok()) return Fail(stats.status());
    text->value.data = *std::move(stats);
    return 0;
  });
}

int farlook_stat(farlook_client* client, const char* name, uint64_t* figure) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (name == nullptr || figure == nullptr) return Invalid("the figure, or its name, is NULL");
    for (const Figure& known : kFigures) {
      if (known.name == absl::string_view(name)) {
        *figure = client->client->stats().*known.figure;
        return 0;
      }
    }
    return Fail(absl::NotFoundError(absl::StrCat("a client has no figure ", name)));
  });
}

const char* farlook_stat_name(size_t index) { return index < std::size(kFigures) ? kFigures[index].name : nullptr; }

const char* farlook_address(const farlook_client* client) {
  return GuardedOr<const char*>("",
                                [&] { return Check(client) == FARLOOK_OK ? client->client->address().c_str() : ""; });
}

int farlook_incarnation(farlook_client* client, uint64_t* incarnation) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (incarnation == nullptr) return Invalid("the pointer to the incarnation is NULL");
    *incarnation = client->client->incarnation();
    return 0;
  });
}

int farlook_memory_bytes(farlook_client* client, uint64_t* bytes) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (bytes == nullptr) return Invalid("the pointer to the bytes is NULL");
    *bytes = client->client->memory_bytes();
    return 0;
  });
}

}  // extern "C"
