// Operations that do not wait, for farlook.aio: _start() begins one, _poll() tells which have ended.
#include <string.h>

#include "module.h"

typedef struct Kind Kind;

struct Pending {
  Pending* next;
  Pending** link;  // what points to this
  farlook_operation* operation;
  const Kind* kind;
  long long token;
  Bytes memory;  // a value, or a buffer, which the operation uses until it has ended
};

// What an operation is told, and what its end is to Python.
struct Kind {
  const char* name;
  const char* const* arguments;
  Py_ssize_t count;
  // The first argument is a key, unless numbers are all that there is.
  int keyless;
  // The second argument is 1: a value; 2: a buffer; 3: an array, of which the third says the row; 0: a number, if any.
  int memory;
  int (*prepare)(farlook_operation*, const Bytes* key, const Bytes* memory, const int64_t* numbers,
                 const farlook_options*);
  PyObject* (*result)(const farlook_operation*, int code);
};

#define PREPARE(name, ...)                                                                         \
  static int prepare_##name(farlook_operation* operation, const Bytes* key, const Bytes* memory,   \
                            const int64_t* numbers, const farlook_options* options) {              \
    (void)memory;                                                                                  \
    (void)numbers;                                                                                 \
    return farlook_prepare_##name(operation, key->data, key->bytes, __VA_ARGS__);                  \
  }
PREPARE(get, options)
PREPARE(get_into, options, (void*)memory->data, memory->bytes)
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
// (lines, how many are left)
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
    {"get", kKey, 1, 0, 0, prepare_get, to_bytes},
    {"get_with_version", kKey, 1, 0, 0, prepare_get, to_bytes_and_version},
    {"get_into", kBuffer, 2, 0, 2, prepare_get_into, to_length},
    {"get_row", kRow, 3, 0, 3, prepare_get_into, to_true},
    {"get_and_touch", kTtl, 2, 0, 0, prepare_get_and_touch, to_bytes},
    {"put", kValue, 2, 0, 1, prepare_put, to_version},
    {"put_if_there", kValue, 2, 0, 1, prepare_put, to_version_or_none},
    {"exists", kKey, 1, 0, 0, prepare_exists, to_bool},
    {"delete", kKey, 1, 0, 0, prepare_delete, to_bool},
    {"touch", kTtl, 2, 0, 0, prepare_touch, to_bool},
    {"persist", kKey, 1, 0, 0, prepare_persist, to_bool},
    {"ttl", kKey, 1, 0, 0, prepare_ttl, to_time},
    {"create_counter", kInitial, 2, 0, 0, prepare_create_counter, to_number},
    {"fetch_add", kDelta, 2, 0, 0, prepare_fetch_add, to_number},
    {"compare_swap", kSwap, 3, 0, 0, prepare_compare_swap, to_number},
    {"fetch_add_if_there", kDelta, 2, 0, 0, prepare_fetch_add, to_number_or_none},
    {"read_counter_if_there", kKey, 1, 0, 0, prepare_read_counter, to_number_or_none},
    {"read_counter", kKey, 1, 0, 0, prepare_read_counter, to_number},
    {"delete_counter", kKey, 1, 0, 0, prepare_delete_counter, to_number},
    {"ping", kNothing, 0, 1, 0, prepare_ping, to_none},
    {"warm", kNothing, 0, 1, 0, prepare_warm, to_none},
    {"server_stats", kFrom, 1, 1, 0, prepare_server_stats, to_lines},
};

static const Kind* kind_named(const char* name) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  }
  PyErr_Format(PyExc_ValueError, "no operation %s", name);
  return NULL;
}

static void unlink_pending(Pending* pending) {
  if (pending->link == NULL) return;
  *pending->link = pending->next;
  if (pending->next != NULL) pending->next->link = pending->link;
  pending->link = NULL;
}

static void free_pending(Pending* pending) {
  farlook_operation_free(pending->operation);
  release_bytes(&pending->memory);
  PyMem_Free(pending);
}

void drop_pending(Client* self) {
  while (self->pending != NULL) {
    Pending* const first = self->pending;
    unlink_pending(first);
    free_pending(first);
  }
}

// Leaves of pending->memory, an array, the row that `number` names.
static int take_row(Pending* pending, PyObject* number) {
  Bytes* const memory = &pending->memory;
  int64_t row;
  if (!take_number(number, &row)) return 0;
  if (memory->view.ndim < 2 || row < 0 || row >= memory->view.shape[0]) {
    raise_code(FARLOOK_INVALID_ARGUMENT, "the array has no such row");
    return 0;
  }
  memory->bytes /= (size_t)memory->view.shape[0];
  memory->data = (const char*)memory->data + (size_t)row * memory->bytes;
  return 1;
}

// Fills pending->memory, or numbers[], from the arguments behind the key, if there is one.
static int take_rest(Pending* pending, PyObject* const* args, int64_t* numbers) {
  const Kind* const kind = pending->kind;
  if (kind->memory != 0 && !(kind->memory == 1 ? take_bytes : take_writable)(args[1], &pending->memory)) return 0;
  if (kind->memory != 0) return kind->memory != 3 || take_row(pending, args[2]);
  for (Py_ssize_t i = !kind->keyless; i < kind->count; ++i) {
    if (!take_number(args[i], numbers++)) return 0;
  }
  return 1;
}

static int start(Client* self, Pending* pending) {
  int code;
  if (!enter(self)) return 0;
  UNLOCKED(code = farlook_start(self->client, &pending->operation, 1));
  if (code == FARLOOK_OK) {
    pending->next = self->pending;
    pending->link = &self->pending;
    if (pending->next != NULL) pending->next->link = &pending->next;
    self->pending = pending;
  }
  leave(self);
  if (code != FARLOOK_OK) raise_error(code);
  return code == FARLOOK_OK;
}

static PyObject* _start_(ARGUMENTS) {
  PyObject* args[3] = {NULL, NULL, NULL};
  farlook_options* options = NULL;
  Bytes key = {0};
  int64_t numbers[2] = {0, 0};
  int started = 0;
  if (count < 2) return PyErr_Format(PyExc_TypeError, "_start() wants a token and a kind");
  const long long token = PyLong_AsLongLong(values[0]);
  const char* const name = PyErr_Occurred() ? NULL : take_text(values[1]);
  const Kind* const kind = name != NULL ? kind_named(name) : NULL;
  if (kind == NULL) return NULL;
  if (!take_arguments(name, kind->arguments, kind->count, kind->count, values + 2, count - 2, keywords, args, &options))
    return NULL;
  Pending* const pending = PyMem_Calloc(1, sizeof *pending);
  if (pending == NULL || (pending->operation = farlook_operation_new()) == NULL) {
    PyErr_NoMemory();
    goto end;
  }
  pending->kind = kind;
  pending->token = token;
  farlook_operation_set_tag(pending->operation, pending);
  if ((!kind->keyless && !take_bytes(args[0], &key)) || !take_rest(pending, args, numbers)) goto end;
  const int code = kind->prepare(pending->operation, &key, &pending->memory, numbers, options);
  if (code != FARLOOK_OK) {
    raise_error(code);
  } else {
    started = start((Client*)self_, pending);
  }
end:
  release_bytes(&key);
  farlook_options_free(options);
  if (!started && pending != NULL) free_pending(pending);
  return started ? Py_NewRef(Py_None) : NULL;
}

// (token, whether it succeeded, its result or the exception); lets go of the operation.
static PyObject* ended(Pending* pending) {
  const int code = farlook_operation_code(pending->operation);
  const int is_short = pending->kind->memory == 3 && code == FARLOOK_OK &&
                       farlook_operation_bytes(pending->operation) != pending->memory.bytes;
  PyObject* result = is_short ? raise_code(FARLOOK_OUT_OF_RANGE, "a value is shorter than a row of the array")
                              : pending->kind->result(pending->operation, code);
  const int good = result != NULL;
  if (!good) {
    PyObject *type, *trace;
    PyErr_Fetch(&type, &result, &trace);
    PyErr_NormalizeException(&type, &result, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
  }
  PyObject* const told = Py_BuildValue("(LON)", pending->token, good ? Py_True : Py_False, result);
  free_pending(pending);
  return told;
}

static PyObject* _poll_(PyObject* self_, PyObject* unused) {
  enum { kRoom = 64 };
  (void)unused;
  Client* const self = (Client*)self_;
  farlook_operation* done[kRoom];
  int count;
  if (!enter(self)) return NULL;
  UNLOCKED(count = farlook_poll(self->client, done, kRoom));
  for (int i = 0; i < count; ++i) unlink_pending(farlook_operation_tag(done[i]));
  leave(self);
  if (count < 0) return raise_error(count);
  PyObject* list = PyList_New(count);
  for (int i = 0; i < count; ++i) {
    Pending* const pending = farlook_operation_tag(done[i]);
    PyObject* const told = list != NULL ? ended(pending) : (free_pending(pending), NULL);
    if (told == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, i, told);
  }
  return list;
}

// Milliseconds to wait for _fd() to be readable, -1 for ever; None: there is something to poll already.
static PyObject* _arm_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  if (!enter(self)) return NULL;
  const int armed = farlook_arm(self->client);
  const int64_t wait_ms = armed == 1 ? farlook_wait_ms(self->client) : 0;
  leave(self);
  if (armed < 0) return raise_error(armed);
  return armed == 1 ? PyLong_FromLongLong(wait_ms) : Py_NewRef(Py_None);
}

static PyObject* _fd_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  if (!enter(self)) return NULL;
  const int fd = farlook_fd(self->client);
  leave(self);
  return fd < 0 ? raise_error(fd) : PyLong_FromLong(fd);
}

PyMethodDef operation_methods[] = {
    METHOD(_start, "For farlook.aio: starts an operation that is known by a token."),
    {"_poll", _poll_, METH_NOARGS, "For farlook.aio: (token, succeeded, result or exception) of those that ended."},
    {"_arm", _arm_, METH_NOARGS, "For farlook.aio: milliseconds to wait for _fd(); None: poll at once."},
    {"_fd", _fd_, METH_NOARGS, "For farlook.aio: the descriptor to wait for."},
    {NULL, NULL, 0, NULL},
};
