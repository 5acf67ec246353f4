// farlook.Client: connecting, and the calls about one key.
#include <pthread.h>

#include "module.h"

unsigned farlook_python_forks = 0;

static void count_forks(void) { ++farlook_python_forks; }

int enter(Client* self) {
  // Before the lock, which a thread that is not in this process may hold for ever.
  if (self->forks != farlook_python_forks) {
    raise_code(FARLOOK_FAILED_PRECONDITION, "the client is of this process' parent: connect again after fork()");
    return 0;
  }
  if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) UNLOCKED(PyThread_acquire_lock(self->lock, WAIT_LOCK));
  if (self->client != NULL) return 1;
  PyThread_release_lock(self->lock);
  raise_code(FARLOOK_FAILED_PRECONDITION, "the client is closed");
  return 0;
}

void leave(Client* self) { PyThread_release_lock(self->lock); }

int reserve_values(Client* self, Py_ssize_t count) {
  if (count > self->values_count) {
    farlook_value** const more = PyMem_Realloc(self->values, (size_t)count * sizeof *more);
    if (more == NULL) goto fail;
    self->values = more;
    for (; self->values_count < count; ++self->values_count) more[self->values_count] = NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (self->values[i] == NULL && (self->values[i] = farlook_value_new()) == NULL) goto fail;
  }
  return 1;
fail:
  PyErr_NoMemory();
  return 0;
}

void trim_values(Client* self, Py_ssize_t count) {
  enum { kKept = 256, kLarge = 1 << 16 };
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (i < kKept && farlook_value_bytes(self->values[i]) <= kLarge) continue;
    farlook_value_free(self->values[i]);
    self->values[i] = NULL;
  }
}

static PyObject* connect_(PyTypeObject* type, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  static const char* const names[] = {"address", NULL};
  static int counts_forks = 0;
  PyObject* args[1];
  farlook_options* options;
  if (!take_arguments("connect", names, 1, 1, values, count, keywords, args, &options)) return NULL;
  const char* const address = take_text(args[0]);
  Client* const self = address != NULL ? (Client*)PyType_GenericNew(type, NULL, NULL) : NULL;
  if (self == NULL) goto fail;
  if (!counts_forks) counts_forks = pthread_atfork(NULL, NULL, count_forks) == 0;
  self->forks = farlook_python_forks;
  self->lock = PyThread_allocate_lock();
  if (self->lock == NULL) {
    PyErr_NoMemory();
    goto fail;
  }
  int code;
  UNLOCKED(code = farlook_connect(address, options, &self->client));
  farlook_options_free(options);
  if (code == FARLOOK_OK) return (PyObject*)self;
  raise_error(code);
  Py_DECREF(self);
  return NULL;
fail:
  farlook_options_free(options);
  Py_XDECREF((PyObject*)self);
  return NULL;
}

static PyObject* close_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  // In a child it is closed as far as it can be.
  if (self->forks == farlook_python_forks && self->client != NULL) {
    if (!enter(self)) {
      PyErr_Clear();  // another thread was faster
      Py_RETURN_NONE;
    }
    UNLOCKED(farlook_close(self->client));
    self->client = NULL;
    leave(self);
    // Outside: a buffer's end may run code. Nobody adds to them any more.
    drop_pending(self);
    drop_registered(self);
  }
  self->client = NULL;
  Py_RETURN_NONE;
}

// ---- Calls about one key. `call` is with `client`, the key's bytes `key` and `options`.

#define BEGIN(name, least, ...)                                                                         \
  static const char* const names[] = {__VA_ARGS__, NULL};                                               \
  enum { kMost = sizeof names / sizeof names[0] - 1 };                                                  \
  Client* const self = (Client*)self_;                                                                  \
  PyObject *args[kMost], *result = NULL;                                                                \
  farlook_options* options;                                                                             \
  Bytes key = {0};                                                                                      \
  int code = FARLOOK_OK;                                                                                \
  if (!take_arguments(name, names, least, kMost, values, count, keywords, args, &options)) return NULL; \
  if (!take_bytes(args[0], &key)) goto end

#define END                      \
  end:                           \
  release_bytes(&key);           \
  farlook_options_free(options); \
  return result

// A call that tells only whether the key is there.
#define YES_OR_NO(name, ...)                                 \
  BEGIN(#name, 1, "key");                                    \
  if (!enter(self)) goto end;                                \
  UNLOCKED(code = __VA_ARGS__);                              \
  leave(self);                                               \
  result = code == FARLOOK_OK          ? Py_NewRef(Py_True)  \
           : code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_False) \
                                       : raise_error(code);  \
  END

// The client's value as bytes.
static PyObject* value_bytes(Client* self) {
  const farlook_value* const value = self->values[0];
  return PyBytes_FromStringAndSize(farlook_value_data(value), (Py_ssize_t)farlook_value_bytes(value));
}

// What a call ended with that reads into the client's value; None: the key is absent. NULL: an exception is set.
#define VALUE(with_version, ...)                                                       \
  unsigned long long version = 0;                                                      \
  if (!enter(self)) goto end;                                                          \
  if (reserve_values(self, 1)) {                                                       \
    UNLOCKED(code = __VA_ARGS__);                                                      \
    version = farlook_value_version(self->values[0]);                                  \
    if (code == FARLOOK_OK) result = value_bytes(self);                                \
    trim_values(self, 1);                                                              \
  }                                                                                    \
  leave(self);                                                                         \
  if (code != FARLOOK_OK) {                                                            \
    result = code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None) : raise_error(code);       \
  } else if ((with_version) && result != NULL) {                                       \
    result = Py_BuildValue("(NK)", result, version);                                   \
  }

static PyObject* get_(ARGUMENTS) {
  BEGIN("get", 1, "key");
  VALUE(0, farlook_get_value(self->client, key.data, key.bytes, options, self->values[0]));
  END;
}

static PyObject* get_with_version_(ARGUMENTS) {
  BEGIN("get_with_version", 1, "key");
  VALUE(1, farlook_get_value(self->client, key.data, key.bytes, options, self->values[0]));
  END;
}

static PyObject* get_and_touch_(ARGUMENTS) {
  BEGIN("get_and_touch", 2, "key", "ttl_ms");
  int64_t ttl_ms = 0;
  if (!take_number(args[1], &ttl_ms)) goto end;
  VALUE(0, farlook_get_and_touch(self->client, key.data, key.bytes, ttl_ms, options, self->values[0]));
  END;
}

static PyObject* get_into_(ARGUMENTS) {
  BEGIN("get_into", 2, "key", "buffer");
  Bytes buffer = {0};
  size_t bytes = 0;
  if (!take_writable(args[1], &buffer)) goto end;
  if (enter(self)) {
    UNLOCKED(
        code = farlook_get(self->client, key.data, key.bytes, options, (void*)buffer.data, buffer.bytes, &bytes, NULL));
    leave(self);
    result = code == FARLOOK_OK          ? PyLong_FromSize_t(bytes)
             : code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None)
                                         : raise_error(code);
  }
  release_bytes(&buffer);
  END;
}

static PyObject* put_(ARGUMENTS) {
  BEGIN("put", 2, "key", "value");
  Bytes value = {0};
  uint64_t version = 0;
  if (!take_bytes(args[1], &value)) goto end;
  if (enter(self)) {
    UNLOCKED(code = farlook_put(self->client, key.data, key.bytes, value.data, value.bytes, options, &version));
    leave(self);
    result = code == FARLOOK_OK ? PyLong_FromUnsignedLongLong(version) : raise_error(code);
  }
  release_bytes(&value);
  END;
}

static PyObject* exists_(ARGUMENTS) { YES_OR_NO(exists, farlook_exists(self->client, key.data, key.bytes, options)); }
static PyObject* delete_(ARGUMENTS) { YES_OR_NO(delete, farlook_delete(self->client, key.data, key.bytes, options)); }
static PyObject* persist_(ARGUMENTS) {
  YES_OR_NO(persist, farlook_persist(self->client, key.data, key.bytes, options));
}

static PyObject* touch_(ARGUMENTS) {
  BEGIN("touch", 2, "key", "ttl_ms");
  int64_t ttl_ms = 0;
  if (!take_number(args[1], &ttl_ms) || !enter(self)) goto end;
  UNLOCKED(code = farlook_touch(self->client, key.data, key.bytes, ttl_ms, options));
  leave(self);
  result = code == FARLOOK_OK || code == FARLOOK_NOT_FOUND ? PyBool_FromLong(code == FARLOOK_OK) : raise_error(code);
  END;
}

static PyObject* ttl_(ARGUMENTS) {
  BEGIN("ttl", 1, "key");
  int64_t left_ms = 0;
  if (!enter(self)) goto end;
  UNLOCKED(code = farlook_ttl(self->client, key.data, key.bytes, options, &left_ms));
  leave(self);
  if (code != FARLOOK_OK) {
    result = raise_error(code);
  } else {
    result = left_ms == FARLOOK_FOREVER ? Py_NewRef(Py_None) : PyLong_FromLongLong(left_ms);
  }
  END;
}

// ---- Counters.

#define NUMBER(least, call, ...)                                                                     \
  BEGIN(#call, least, __VA_ARGS__);                                                                  \
  int64_t first = 0, second = 0, number = 0;                                                         \
  /* Where there are not so many arguments, the place is one that there is, and is not looked at. */ \
  if (kMost > 1 && args[kMost > 1] != NULL && !take_number(args[kMost > 1], &first)) goto end;       \
  if (kMost > 2 && !take_number(args[kMost > 2 ? 2 : 0], &second)) goto end;                         \
  if (!enter(self)) goto end;                                                                        \
  UNLOCKED(code = CALL);                                                                             \
  leave(self);                                                                                       \
  result = code == FARLOOK_OK ? PyLong_FromLongLong(number) : raise_error(code);                     \
  END

static PyObject* create_counter_(ARGUMENTS) {
#define CALL farlook_create_counter(self->client, key.data, key.bytes, first, options, &number)
  NUMBER(1, create_counter, "key", "initial");
#undef CALL
}
static PyObject* fetch_add_(ARGUMENTS) {
#define CALL farlook_fetch_add(self->client, key.data, key.bytes, first, options, &number)
  NUMBER(2, fetch_add, "key", "delta");
#undef CALL
}
static PyObject* compare_swap_(ARGUMENTS) {
#define CALL farlook_compare_swap(self->client, key.data, key.bytes, first, second, options, &number)
  NUMBER(3, compare_swap, "key", "expected", "desired");
#undef CALL
}
static PyObject* read_counter_(ARGUMENTS) {
#define CALL farlook_read_counter(self->client, key.data, key.bytes, options, &number)
  NUMBER(1, read_counter, "key");
#undef CALL
}
static PyObject* delete_counter_(ARGUMENTS) {
#define CALL farlook_delete_counter(self->client, key.data, key.bytes, options, &number)
  NUMBER(1, delete_counter, "key");
#undef CALL
}

// ---- The server and the client.

// A call that takes nothing and returns nothing.
static PyObject* call_plainly(Client* self, const char* name, int (*call)(farlook_client*, const farlook_options*),
                              PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  farlook_options* options;
  int code = FARLOOK_OK;
  if (!take_arguments(name, NULL, 0, 0, values, count, keywords, NULL, &options)) return NULL;
  const int entered = enter(self);
  if (entered) {
    UNLOCKED(code = call(self->client, options));
    leave(self);
  }
  farlook_options_free(options);
  if (!entered) return NULL;
  return code == FARLOOK_OK ? Py_NewRef(Py_None) : raise_error(code);
}

static PyObject* ping_(ARGUMENTS) {
  return call_plainly((Client*)self_, "ping", farlook_ping, values, count, keywords);
}

static PyObject* warm_(ARGUMENTS) {
  return call_plainly((Client*)self_, "warm", farlook_warm, values, count, keywords);
}

static PyObject* server_stats_text_(ARGUMENTS) {
  Client* const self = (Client*)self_;
  farlook_options* options;
  PyObject* result = NULL;
  int code = FARLOOK_OK;
  if (!take_arguments("server_stats", NULL, 0, 0, values, count, keywords, NULL, &options)) return NULL;
  if (enter(self)) {
    if (reserve_values(self, 1)) {
      UNLOCKED(code = farlook_server_stats(self->client, options, self->values[0]));
      if (code == FARLOOK_OK) {
        result = PyUnicode_FromStringAndSize(farlook_value_data(self->values[0]),
                                             (Py_ssize_t)farlook_value_bytes(self->values[0]));
      }
    }
    leave(self);
    if (code != FARLOOK_OK) raise_error(code);
  }
  farlook_options_free(options);
  return result;
}

static PyObject* stats_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  PyObject* const result = PyDict_New();
  if (result == NULL || !enter(self)) {
    Py_XDECREF(result);
    return NULL;
  }
  int fine = 1;
  const char* name;
  for (size_t i = 0; fine && (name = farlook_stat_name(i)) != NULL; ++i) {
    uint64_t figure = 0;
    farlook_stat(self->client, name, &figure);
    PyObject* const number = PyLong_FromUnsignedLongLong(figure);
    fine = number != NULL && PyDict_SetItemString(result, name, number) == 0;
    Py_XDECREF(number);
  }
  leave(self);
  if (fine) return result;
  Py_DECREF(result);
  return NULL;
}

static PyObject* figure(PyObject* self_, int (*get)(farlook_client*, uint64_t*)) {
  Client* const self = (Client*)self_;
  uint64_t number = 0;
  if (!enter(self)) return NULL;
  const int code = get(self->client, &number);
  leave(self);
  return code == FARLOOK_OK ? PyLong_FromUnsignedLongLong(number) : raise_error(code);
}

static PyObject* incarnation_(PyObject* self, PyObject* unused) {
  (void)unused;
  return figure(self, farlook_incarnation);
}
static PyObject* memory_bytes_(PyObject* self, PyObject* unused) {
  (void)unused;
  return figure(self, farlook_memory_bytes);
}

PyMethodDef client_methods[] = {
    {"connect", (PyCFunction)(void (*)(void))connect_, METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
     "Connects to the server at an address."},
    {"close", close_, METH_NOARGS, "Closes the connection. Once more does nothing."},
    METHOD(get, "The key's value, or None."),
    METHOD(get_with_version, "The key's value and its version, or None."),
    METHOD(get_into, "Reads the value into a buffer, and returns its length, or None."),
    METHOD(get_and_touch, "The key's value, or None; its item now lives for ttl_ms."),
    METHOD(put, "Writes a value, and returns its version."),
    METHOD(exists, "Whether the key is there."),
    METHOD(delete, "Deletes the key; False: it was not there."),
    METHOD(touch, "Has the key's item live for ttl_ms; False: it was not there."),
    METHOD(persist, "Has the key's item never expire; False: it was not there."),
    METHOD(ttl, "Milliseconds that the key's item lives still; None: it never expires."),
    METHOD(create_counter, "Makes a counter."),
    METHOD(fetch_add, "Adds to a counter, and returns what it was before."),
    METHOD(compare_swap, "Sets a counter if it is what is expected. Returns what it was before."),
    METHOD(read_counter, "What a counter holds."),
    METHOD(delete_counter, "Deletes a counter, and returns what it held."),
    METHOD(ping, "Asks the server's processor for an answer."),
    METHOD(warm, "READs the index, so that the first get of a key is one READ (mirror_bytes, share_mirror)."),
    METHOD(server_stats_text, "The server's figures, one a line."),
    {"stats", stats_, METH_NOARGS, "The client's figures, by name."},
    {"incarnation", incarnation_, METH_NOARGS, "A random number of the server's life."},
    {"memory_bytes", memory_bytes_, METH_NOARGS, "Bytes that the client has allocated."},
    {NULL, NULL, 0, NULL},
};
