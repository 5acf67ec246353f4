// Counters, one at a time.
#include <cstdint>

#include "client/c/handles.h"

using farlook::client::Kind;
using farlook::client::Operation;

namespace farlook::c {
namespace {

int Count(farlook_client* client, Kind kind, const void* key, size_t key_bytes, int64_t operand, int64_t expected,
          const farlook_options* options, int64_t* value) {
  return GuardedWith(client, [&] {
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    Operation operation;
    operation.operand = operand;
    operation.expected = expected;
    if (const int code = Fill(&operation, kind, key, key_bytes, options); code != FARLOOK_OK) return code;
    const int code = Run(client, &operation);
    if (value != nullptr) *value = HasCounterValue(code) ? operation.counter : 0;
    return code;
  });
}

}  // namespace
}  // namespace farlook::c

using farlook::c::Count;

extern "C" {

int farlook_create_counter(farlook_client* client, const void* key, size_t key_bytes, int64_t initial,
                           const farlook_options* options, int64_t* value) {
  return Count(client, Kind::kCreateCounter, key, key_bytes, initial, 0, options, value);
}

int farlook_fetch_add(farlook_client* client, const void* key, size_t key_bytes, int64_t delta,
                      const farlook_options* options, int64_t* value) {
  return Count(client, Kind::kFetchAdd, key, key_bytes, delta, 0, options, value);
}

int farlook_compare_swap(farlook_client* client, const void* key, size_t key_bytes, int64_t expected, int64_t desired,
                         const farlook_options* options, int64_t* value) {
  return Count(client, Kind::kCompareSwap, key, key_bytes, desired, expected, options, value);
}

int farlook_read_counter(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                         int64_t* value) {
  if (value == nullptr) return farlook::c::Invalid("the pointer to the counter's value is NULL");
  return Count(client, Kind::kReadCounter, key, key_bytes, 0, 0, options, value);
}

int farlook_delete_counter(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                           int64_t* value) {
  return Count(client, Kind::kDeleteCounter, key, key_bytes, 0, 0, options, value);
}

}  // extern "C"
