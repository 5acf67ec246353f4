// Batches: the engines' operations are filled from the caller's columns, and their results are written there.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"

using farlook::client::Kind;
using farlook::client::Operation;

namespace farlook::c {
namespace {

// The columns that all batches have.
struct Batch {
  farlook_client* client;
  Kind kind;
  size_t count;
  const void* const* keys;
  const size_t* key_bytes;
  const farlook_options* options;
  int* codes;
};

// Checks a column of pointers and their lengths: none may be NULL unless its length is 0.
int CheckColumn(absl::string_view what, const void* const* pointers, const size_t* bytes, size_t count) {
  if (pointers == nullptr || bytes == nullptr)
    return Invalid(absl::StrCat("the ", what, "s, or their bytes, are NULL"));
  for (size_t i = 0; i < count; ++i) {
    if (pointers[i] == nullptr && bytes[i] > 0) [[unlikely]]
      return Invalid(absl::StrCat(what, " ", i, " is NULL"));
  }
  return FARLOOK_OK;
}

int CheckBatch(const Batch& batch) {
  if (const int code = Check(batch.client); code != FARLOOK_OK || batch.count == 0) return code;
  if (batch.codes == nullptr) return Invalid("the codes are NULL");
  return CheckColumn("key", batch.keys, batch.key_bytes, batch.count);
}

// `fill(i, operation)` sets everything except key and options; `take(i, operation, code)` stores everything except the
// code. REQUIRES CheckBatch().
template <typename FillRest, typename Take>
int RunBatch(const Batch& batch, FillRest fill, Take take) {
  Operation like;
  like.kind = batch.kind;
  if (const int code = TakeOptions(batch.options, &like); code != FARLOOK_OK) return code;
  return Ended(batch.client->impl->batch.Run(
      batch.kind, batch.count, like.timeout_ms,
      [&](size_t i, Operation* operation) {
        operation->key = Bytes(batch.keys[i], batch.key_bytes[i]);
        if (!client::IsGet(batch.kind)) {
          operation->condition = like.condition;
          operation->ttl_ms = like.ttl_ms;
          operation->keep_ttl = like.keep_ttl;
          operation->keep = like.keep;
          operation->refill = like.refill;
          operation->exactly_once = like.exactly_once;
          operation->create = like.create;
          operation->expected = like.expected;
        }
        fill(i, operation);
      },
      [&](size_t i, Operation* operation) {
        const int code = operation->status.ok() ? FARLOOK_OK : CodeOf(operation->status);
        if (code != FARLOOK_OK) operation->status = absl::OkStatus();
        batch.codes[i] = code;
        take(i, operation, code);
      }));
}

constexpr auto kNoMore = [](auto...) {};

int Plain(const Batch& batch) {
  return GuardedWith(batch.client, [&] {
    const int code = CheckBatch(batch);
    return code != FARLOOK_OK || batch.count == 0 ? code : RunBatch(batch, kNoMore, kNoMore);
  });
}

int Count(const Batch& batch, const int64_t* operands, bool has_operands, int64_t* values) {
  return GuardedWith(batch.client, [&] {
    if (const int code = CheckBatch(batch); code != FARLOOK_OK || batch.count == 0) return code;
    if (has_operands && operands == nullptr) return Invalid("the numbers are NULL");
    return RunBatch(
        batch,
        [&](size_t i, Operation* operation) {
          if (has_operands) operation->operand = operands[i];
        },
        [&](size_t i, const Operation* operation, int code) {
          if (values != nullptr) values[i] = HasCounterValue(code) ? operation->counter : 0;
        });
  });
}

}  // namespace
}  // namespace farlook::c

// NOLINTNEXTLINE(google-build-using-namespace): what follows has C's names
using namespace farlook::c;

extern "C" {

int farlook_get_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                     const farlook_options* options, void* const* buffers, const size_t* buffer_bytes,
                     size_t* value_bytes, uint64_t* versions, int* codes) {
  return GuardedWith(client, [&] {
    const Batch batch{client, Kind::kGet, count, keys, key_bytes, options, codes};
    if (const int code = CheckBatch(batch); code != FARLOOK_OK || count == 0) return code;
    if (value_bytes == nullptr) return Invalid("the values' bytes are NULL");
    if (const int code = CheckColumn("buffer", buffers, buffer_bytes, count); code != FARLOOK_OK) return code;
    return RunBatch(
        batch,
        [&](size_t i, Operation* operation) {
          operation->to = {nullptr, absl::MakeSpan(static_cast<char*>(buffers[i]), buffer_bytes[i])};
        },
        [&](size_t i, const Operation* operation, int code) {
          value_bytes[i] = code == FARLOOK_OK || code == FARLOOK_OUT_OF_RANGE ? operation->value_bytes : 0;
          if (versions != nullptr) versions[i] = code == FARLOOK_OK ? operation->version : 0;
        });
  });
}

int farlook_get_many_values(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                            const farlook_options* options, farlook_value* const* values, int* codes) {
  return GuardedWith(client, [&] {
    const Batch batch{client, Kind::kGet, count, keys, key_bytes, options, codes};
    if (const int code = CheckBatch(batch); code != FARLOOK_OK || count == 0) return code;
    if (values == nullptr) return Invalid("the values are NULL");
    for (size_t i = 0; i < count; ++i) {
      if (values[i] == nullptr) return Invalid(absl::StrCat("value ", i, " is NULL"));
    }
    return RunBatch(
        batch,
        [&](size_t i, Operation* operation) {
          operation->to = {&values[i]->value.data, {}};
        },
        [&](size_t i, const Operation* operation, int code) {
          values[i]->value.version = code == FARLOOK_OK ? operation->version : 0;
          if (code != FARLOOK_OK) values[i]->value.data.clear();
        });
  });
}

int farlook_put_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                     const void* const* values, const size_t* value_bytes, const farlook_options* options,
                     uint64_t* versions, int* codes) {
  return GuardedWith(client, [&] {
    const Batch batch{client, Kind::kPut, count, keys, key_bytes, options, codes};
    if (const int code = CheckBatch(batch); code != FARLOOK_OK || count == 0) return code;
    if (const int code = CheckColumn("value", values, value_bytes, count); code != FARLOOK_OK) return code;
    return RunBatch(
        batch, [&](size_t i, Operation* operation) { operation->value = Bytes(values[i], value_bytes[i]); },
        [&](size_t i, const Operation* operation, int) {
          if (versions != nullptr) versions[i] = operation->version;
        });
  });
}

int farlook_delete_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                        const farlook_options* options, int* codes) {
  return Plain({client, Kind::kDelete, count, keys, key_bytes, options, codes});
}

int farlook_touch_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                       int64_t ttl_ms, const farlook_options* options, int* codes) {
  return GuardedWith(client, [&] {
    const Batch batch{client, Kind::kTouch, count, keys, key_bytes, options, codes};
    if (const int code = CheckBatch(batch); code != FARLOOK_OK || count == 0) return code;
    return RunBatch(
        batch, [&](size_t, Operation* operation) { operation->ttl_ms = ttl_ms; }, kNoMore);
  });
}

int farlook_exists_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                        const farlook_options* options, int* codes) {
  return Plain({client, Kind::kExists, count, keys, key_bytes, options, codes});
}

int farlook_create_counter_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                                const int64_t* initials, const farlook_options* options, int64_t* values, int* codes) {
  return Count({client, Kind::kCreateCounter, count, keys, key_bytes, options, codes}, initials, true, values);
}

int farlook_fetch_add_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                           const int64_t* deltas, const farlook_options* options, int64_t* values, int* codes) {
  return Count({client, Kind::kFetchAdd, count, keys, key_bytes, options, codes}, deltas, true, values);
}

int farlook_read_counter_many(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                              const farlook_options* options, int64_t* values, int* codes) {
  if (values == nullptr && count > 0) return Invalid("the counters' values are NULL");
  return Count({client, Kind::kReadCounter, count, keys, key_bytes, options, codes}, nullptr, false, values);
}

}  // extern "C"
