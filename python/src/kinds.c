#include "kinds.h"

#include <string.h>

#define PREPARE(name, ...)                                                                         \
  static int prepare_##name(farlook_operation* operation, const Bytes* key, const Bytes* memory,   \
                            const int64_t* numbers, const farlook_options* options) {              \
    (void)memory;                                                                                  \
    (void)numbers;                                                                                 \
    return farlook_prepare_##name(operation, key->data, key->bytes, __VA_ARGS__);                  \
  }
PREPARE(get, options)
PREPARE(get_into, options, (void*)(uintptr_t)memory->data, memory->bytes)
PREPARE(get_and_touch, numbers[0], options)
static int prepare_ping(farlook_operation* operation, const Bytes* key, const Bytes* memory, const int64_t* numbers,
                        const farlook_options* options) {
  (void)key;
  (void)memory;
  (void)numbers;
  return farlook_prepare_ping(operation, options);
}
static int prepare_warm(farlook_operation* operation, const Bytes* key, const Bytes* memory, const int64_t* numbers,
                        const farlook_options* options) {
  (void)key;
  (void)memory;
  (void)numbers;
  return farlook_prepare_warm(operation, options);
}
static int prepare_server_stats(farlook_operation* operation, const Bytes* key, const Bytes* memory,
                                const int64_t* numbers, const farlook_options* options) {
  (void)key;
  (void)memory;
  return farlook_prepare_server_stats(operation, (uint64_t)numbers[0], options);
}
PREPARE(put, memory->data, memory->bytes, options)
PREPARE(exists, options)
PREPARE(delete, options)
PREPARE(touch, numbers[0], options)
PREPARE(persist, options)
PREPARE(ttl, options)
PREPARE(create_counter, numbers[0], options)
PREPARE(fetch_add, numbers[0], options)
PREPARE(compare_swap, numbers[0], numbers[1], options)
PREPARE(read_counter, options)
PREPARE(delete_counter, options)

static PyObject* failed(const farlook_operation* operation, int code) {
  return raise_code(code, farlook_operation_error(operation));
}

static PyObject* to_bytes(const farlook_operation* operation, int code) {
  if (code == FARLOOK_NOT_FOUND) return Py_NewRef(Py_None);
  if (code != FARLOOK_OK) return failed(operation, code);
  return PyBytes_FromStringAndSize(farlook_operation_data(operation), (Py_ssize_t)farlook_operation_bytes(operation));
}
static PyObject* to_bytes_and_version(const farlook_operation* operation, int code) {
  PyObject* const bytes = to_bytes(operation, code);
  if (bytes == NULL || bytes == Py_None) return bytes;
  return Py_BuildValue("(NK)", bytes, (unsigned long long)farlook_operation_version(operation));
}
static PyObject* to_length(const farlook_operation* operation, int code) {
  if (code == FARLOOK_NOT_FOUND) return Py_NewRef(Py_None);
  return code != FARLOOK_OK ? failed(operation, code) : PyLong_FromSize_t(farlook_operation_bytes(operation));
}
// Returns (lines, number of remaining lines).
static PyObject* to_lines(const farlook_operation* operation, int code) {
  if (code != FARLOOK_OK) return failed(operation, code);
  return Py_BuildValue("(s#L)", farlook_operation_data(operation), (Py_ssize_t)farlook_operation_bytes(operation),
                       (long long)farlook_operation_number(operation));
}
static PyObject* to_version(const farlook_operation* operation, int code) {
  return code != FARLOOK_OK ? failed(operation, code)
                            : PyLong_FromUnsignedLongLong(farlook_operation_version(operation));
}
static PyObject* to_version_or_none(const farlook_operation* operation, int code) {
  return code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None) : to_version(operation, code);
}
static PyObject* to_true(const farlook_operation* operation, int code) {
  if (code == FARLOOK_NOT_FOUND) return Py_NewRef(Py_None);
  return code != FARLOOK_OK ? failed(operation, code) : Py_NewRef(Py_True);
}
static PyObject* to_none(const farlook_operation* operation, int code) {
  return code != FARLOOK_OK ? failed(operation, code) : Py_NewRef(Py_None);
}
static PyObject* to_bool(const farlook_operation* operation, int code) {
  if (code != FARLOOK_OK && code != FARLOOK_NOT_FOUND) return failed(operation, code);
  return PyBool_FromLong(code == FARLOOK_OK);
}
static PyObject* to_number(const farlook_operation* operation, int code) {
  return code != FARLOOK_OK ? failed(operation, code) : PyLong_FromLongLong(farlook_operation_number(operation));
}
static PyObject* to_number_or_none(const farlook_operation* operation, int code) {
  return code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None) : to_number(operation, code);
}
static PyObject* to_time(const farlook_operation* operation, int code) {
  const int64_t left_ms = farlook_operation_number(operation);
  return code == FARLOOK_OK && left_ms == FARLOOK_FOREVER ? Py_NewRef(Py_None) : to_number(operation, code);
}

static const char* const kNothing[] = {NULL};
static const char* const kKey[] = {"key", NULL};
static const char* const kBuffer[] = {"key", "buffer", NULL};
static const char* const kRow[] = {"key", "array", "row", NULL};
static const char* const kValue[] = {"key", "value", NULL};
static const char* const kTtl[] = {"key", "ttl_ms", NULL};
static const char* const kInitial[] = {"key", "initial", NULL};
static const char* const kDelta[] = {"key", "delta", NULL};
static const char* const kFrom[] = {"from_line", NULL};
static const char* const kSwap[] = {"key", "expected", "desired", NULL};

static const Kind kinds[] = {
    {{"get", kKey, 1, 1, NULL}, 0, 0, prepare_get, to_bytes},
    {{"get_with_version", kKey, 1, 1, NULL}, 0, 0, prepare_get, to_bytes_and_version},
    {{"get_into", kBuffer, 2, 2, NULL}, 0, 2, prepare_get_into, to_length},
    {{"get_row", kRow, 3, 3, NULL}, 0, 3, prepare_get_into, to_true},
    {{"get_and_touch", kTtl, 2, 2, NULL}, 0, 0, prepare_get_and_touch, to_bytes},
    {{"put", kValue, 2, 2, NULL}, 0, 1, prepare_put, to_version},
    {{"put_if_there", kValue, 2, 2, NULL}, 0, 1, prepare_put, to_version_or_none},
    {{"exists", kKey, 1, 1, NULL}, 0, 0, prepare_exists, to_bool},
    {{"delete", kKey, 1, 1, NULL}, 0, 0, prepare_delete, to_bool},
    {{"touch", kTtl, 2, 2, NULL}, 0, 0, prepare_touch, to_bool},
    {{"persist", kKey, 1, 1, NULL}, 0, 0, prepare_persist, to_bool},
    {{"ttl", kKey, 1, 1, NULL}, 0, 0, prepare_ttl, to_time},
    {{"create_counter", kInitial, 2, 2, NULL}, 0, 0, prepare_create_counter, to_number},
    {{"fetch_add", kDelta, 2, 2, NULL}, 0, 0, prepare_fetch_add, to_number},
    {{"compare_swap", kSwap, 3, 3, NULL}, 0, 0, prepare_compare_swap, to_number},
    {{"fetch_add_if_there", kDelta, 2, 2, NULL}, 0, 0, prepare_fetch_add, to_number_or_none},
    {{"read_counter_if_there", kKey, 1, 1, NULL}, 0, 0, prepare_read_counter, to_number_or_none},
    {{"read_counter", kKey, 1, 1, NULL}, 0, 0, prepare_read_counter, to_number},
    {{"delete_counter", kKey, 1, 1, NULL}, 0, 0, prepare_delete_counter, to_number},
    {{"ping", kNothing, 0, 0, NULL}, 1, 0, prepare_ping, to_none},
    {{"warm", kNothing, 0, 0, NULL}, 1, 0, prepare_warm, to_none},
    {{"server_stats", kFrom, 1, 1, NULL}, 1, 0, prepare_server_stats, to_lines},
};

const Kind* kind_named(const char* name) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    if (strcmp(kinds[i].signature.name, name) == 0) return &kinds[i];
  }
  PyErr_Format(PyExc_ValueError, "no operation %s", name);
  return NULL;
}
