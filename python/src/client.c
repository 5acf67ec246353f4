// farlook.Client: connecting, and the calls for one key.
#include <pthread.h>

#include "module.h"

unsigned farlook_python_forks = 0;

static void count_forks(void) { ++farlook_python_forks; }

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

#define CONNECT_OPTIONS                                                                                             \
  TIMEOUT                                                                                                           \
  ", read_only=None, wait_for_server=None, lookups=None, fencing=None, max_in_flight=None, mirror_bytes=None, "     \
  "share_mirror=None, counter_cache_bytes=None, min_backoff_ms=None, max_backoff_ms=None, spin_us=None, "           \
  "liveness_ms=None, max_outstanding=None, user=None, secret=None, secret_file=None"

static PyObject* connect_(PyTypeObject* type, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  enum { kDefaultTimeoutMs = 1000 };  // as in ClientOptions
  static const char* const names[] = {"address"};
  static const Signature signature = {"connect", names, 1, 1, CONNECT_OPTIONS};
  static int counts_forks = 0;
  PyObject* args[1];
  Options options;
  if (!take_arguments(&signature, values, count, keywords, args, &options)) return NULL;
  int code = FARLOOK_OK;
  const char* const address = take_text(args[0]);
  Client* const self = address != NULL ? (Client*)PyType_GenericNew(type, NULL, NULL) : NULL;
  if (self == NULL || !begin_turns(self)) goto end;
  if (options.handle == NULL) options.handle = farlook_options_new();
  if (options.handle == NULL || farlook_options_set_while_waiting(options.handle, while_waiting, self) != FARLOOK_OK) {
    PyErr_NoMemory();
    goto end;
  }
  if (!counts_forks) counts_forks = pthread_atfork(NULL, NULL, count_forks) == 0;
  self->forks = farlook_python_forks;
  self->timeout_ms = options.timeout_ms > 0 ? options.timeout_ms : kDefaultTimeoutMs;
  UNLOCKED(code = farlook_connect(address, options.handle, &self->client));
  code = leave(self, code);
  if (code == FARLOOK_OK) {
    self->address = PyUnicode_FromString(farlook_address(self->client));
  } else {
    raise_error(code);
  }
end:
  farlook_options_free(options.handle);
  if (self != NULL && self->address != NULL) return (PyObject*)self;
  Py_XDECREF((PyObject*)self);
  return NULL;
}

static PyObject* close_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  if (self->forks != farlook_python_forks) {
    // In a child, where no other thread uses it: the parent's connection stays open.
    if (self->client != NULL) farlook_close(self->client);
  } else if (self->client != NULL) {
    if (!enter_alone(self)) {
      if (self->client != NULL) return NULL;
      PyErr_Clear();  // another thread was faster
      Py_RETURN_NONE;
    }
    UNLOCKED(farlook_close(self->client));
    self->client = NULL;
    leave(self, FARLOOK_OK);
    // Without the turn: releasing a buffer may run code. Nothing is added to the lists any more.
    drop_pending(self);
    drop_registered(self);
  }
  self->client = NULL;
  Py_RETURN_NONE;
}

// ---- Calls for one key. `call` uses `client`, the key's bytes `key` and `options`.

#define BEGIN(name, least, its_options, ...)                                                   \
  static const char* const names[] = {__VA_ARGS__};                                            \
  enum { kMost = sizeof names / sizeof names[0] };                                             \
  static const Signature signature = {name, names, least, kMost, its_options};                 \
  Client* const self = (Client*)self_;                                                         \
  PyObject *args[kMost], *result = NULL;                                                       \
  Options its;                                                                                 \
  Bytes key = {0};                                                                             \
  int code = FARLOOK_OK;                                                                       \
  if (!take_arguments(&signature, values, count, keywords, args, &its)) return NULL;           \
  if (!take_bytes(args[0], &key)) goto end

#define END                   \
  end:                        \
  release_bytes(&key);        \
  farlook_options_free(its.handle); \
  return result

// A call that only returns whether the key is present.
#define YES_OR_NO(name, its_options, ...)                    \
  BEGIN(#name, 1, its_options, "key");                       \
  if (!enter(self, &its)) goto end;                          \
  UNLOCKED(code = __VA_ARGS__);                              \
  code = leave(self, code);                                  \
  result = code == FARLOOK_OK          ? Py_NewRef(Py_True)  \
           : code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_False) \
                                       : raise_error(code);  \
  END

// Returns the client's value as bytes.
static PyObject* value_bytes(Client* self) {
  const farlook_value* const value = self->values[0];
  return PyBytes_FromStringAndSize(farlook_value_data(value), (Py_ssize_t)farlook_value_bytes(value));
}

// Returns the result of a call that reads into the client's value; None: the key is absent. NULL: an exception is set.
#define VALUE(with_version, ...)                                                       \
  unsigned long long version = 0;                                                      \
  if (!enter(self, &its)) goto end;                                                    \
  if (reserve_values(self, 1)) {                                                       \
    UNLOCKED(code = __VA_ARGS__);                                                      \
    version = farlook_value_version(self->values[0]);                                  \
    if (code == FARLOOK_OK) result = value_bytes(self);                                \
    trim_values(self, 1);                                                              \
  }                                                                                    \
  code = leave(self, code);                                                            \
  if (code != FARLOOK_OK) {                                                            \
    Py_CLEAR(result);                                                                  \
    result = code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None) : raise_error(code);       \
  } else if ((with_version) && result != NULL) {                                       \
    result = Py_BuildValue("(NK)", result, version);                                   \
  }

static PyObject* get_(ARGUMENTS) {
  BEGIN("get", 1, TIMEOUT, "key", "default");
  VALUE(0, farlook_get_value(self->client, key.data, key.bytes, its.handle, self->values[0]));
  if (result == Py_None && args[1] != NULL) {
    Py_DECREF(result);
    result = Py_NewRef(args[1]);
  }
  END;
}

static PyObject* get_with_version_(ARGUMENTS) {
  BEGIN("get_with_version", 1, TIMEOUT, "key");
  VALUE(1, farlook_get_value(self->client, key.data, key.bytes, its.handle, self->values[0]));
  END;
}

static PyObject* get_and_touch_(ARGUMENTS) {
  BEGIN("get_and_touch", 2, TIMEOUT, "key", "ttl_ms");
  int64_t ttl_ms = 0;
  if (!take_number(args[1], &ttl_ms)) goto end;
  VALUE(0, farlook_get_and_touch(self->client, key.data, key.bytes, ttl_ms, its.handle, self->values[0]));
  END;
}

static PyObject* get_into_(ARGUMENTS) {
  BEGIN("get_into", 2, TIMEOUT, "key", "buffer");
  Bytes buffer = {0};
  size_t bytes = 0;
  if (!take_writable(args[1], &buffer)) goto end;
  if (enter(self, &its)) {
    UNLOCKED(
        code = farlook_get(self->client, key.data, key.bytes, its.handle, (void*)buffer.data, buffer.bytes, &bytes, NULL));
    code = leave(self, code);
    result = code == FARLOOK_OK          ? PyLong_FromSize_t(bytes)
             : code == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None)
                                         : raise_error(code);
  }
  release_bytes(&buffer);
  END;
}

static PyObject* put_(ARGUMENTS) {
  BEGIN("put", 2, PUT_OPTIONS, "key", "value");
  Bytes value = {0};
  uint64_t version = 0;
  if (!take_bytes(args[1], &value)) goto end;
  if (enter(self, &its)) {
    UNLOCKED(code = farlook_put(self->client, key.data, key.bytes, value.data, value.bytes, its.handle, &version));
    code = leave(self, code);
    result = code == FARLOOK_OK ? PyLong_FromUnsignedLongLong(version) : raise_error(code);
  }
  release_bytes(&value);
  END;
}

static PyObject* exists_(ARGUMENTS) { YES_OR_NO(exists, TIMEOUT, farlook_exists(self->client, key.data, key.bytes, its.handle)); }
static PyObject* delete_(ARGUMENTS) { YES_OR_NO(delete, DELETE_OPTIONS, farlook_delete(self->client, key.data, key.bytes, its.handle)); }
static PyObject* persist_(ARGUMENTS) {
  YES_OR_NO(persist, TIMEOUT, farlook_persist(self->client, key.data, key.bytes, its.handle));
}

static PyObject* touch_(ARGUMENTS) {
  BEGIN("touch", 2, TIMEOUT, "key", "ttl_ms");
  int64_t ttl_ms = 0;
  if (!take_number(args[1], &ttl_ms) || !enter(self, &its)) goto end;
  UNLOCKED(code = farlook_touch(self->client, key.data, key.bytes, ttl_ms, its.handle));
  code = leave(self, code);
  result = code == FARLOOK_OK || code == FARLOOK_NOT_FOUND ? PyBool_FromLong(code == FARLOOK_OK) : raise_error(code);
  END;
}

static PyObject* ttl_(ARGUMENTS) {
  BEGIN("ttl", 1, TIMEOUT, "key");
  int64_t left_ms = 0;
  if (!enter(self, &its)) goto end;
  UNLOCKED(code = farlook_ttl(self->client, key.data, key.bytes, its.handle, &left_ms));
  code = leave(self, code);
  if (code != FARLOOK_OK) {
    result = raise_error(code);
  } else {
    result = left_ms == FARLOOK_FOREVER ? Py_NewRef(Py_None) : PyLong_FromLongLong(left_ms);
  }
  END;
}

// ---- Counters.

#define NUMBER(least, call, its_options, ...)                                                                \
  BEGIN(#call, least, its_options, __VA_ARGS__);                                                     \
  int64_t first = 0, second = 0, number = 0;                                                         \
  /* With fewer arguments, the index refers to another argument and is not used. */                  \
  if (kMost > 1 && args[kMost > 1] != NULL && !take_number(args[kMost > 1], &first)) goto end;       \
  if (kMost > 2 && !take_number(args[kMost > 2 ? 2 : 0], &second)) goto end;                         \
  if (!enter(self, &its)) goto end;                                                                  \
  UNLOCKED(code = CALL);                                                                             \
  code = leave(self, code);                                                                                 \
  result = code == FARLOOK_OK ? PyLong_FromLongLong(number) : raise_error(code);                     \
  END

static PyObject* create_counter_(ARGUMENTS) {
#define CALL farlook_create_counter(self->client, key.data, key.bytes, first, its.handle, &number)
  NUMBER(1, create_counter, CREATE_OPTIONS, "key", "initial");
#undef CALL
}
static PyObject* fetch_add_(ARGUMENTS) {
#define CALL farlook_fetch_add(self->client, key.data, key.bytes, first, its.handle, &number)
  NUMBER(2, fetch_add, ADD_OPTIONS, "key", "delta");
#undef CALL
}
static PyObject* compare_swap_(ARGUMENTS) {
#define CALL farlook_compare_swap(self->client, key.data, key.bytes, first, second, its.handle, &number)
  NUMBER(3, compare_swap, COUNT_OPTIONS, "key", "expected", "desired");
#undef CALL
}
static PyObject* read_counter_(ARGUMENTS) {
#define CALL farlook_read_counter(self->client, key.data, key.bytes, its.handle, &number)
  NUMBER(1, read_counter, COUNT_OPTIONS, "key");
#undef CALL
}
static PyObject* delete_counter_(ARGUMENTS) {
#define CALL farlook_delete_counter(self->client, key.data, key.bytes, its.handle, &number)
  NUMBER(1, delete_counter, COUNT_OPTIONS, "key");
#undef CALL
}

// ---- The server and the client.

// Runs a call that takes only options, and returns nothing.
static PyObject* call_plainly(Client* self, const char* name, int (*call)(farlook_client*, const farlook_options*),
                              PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  const Signature signature = {name, NULL, 0, 0, TIMEOUT};
  Options options;
  int code = FARLOOK_OK;
  if (!take_arguments(&signature, values, count, keywords, NULL, &options)) return NULL;
  const int entered = enter(self, &options);
  if (entered) {
    UNLOCKED(code = call(self->client, options.handle));
    code = leave(self, code);
  }
  farlook_options_free(options.handle);
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
  static const Signature signature = {"server_stats_text", NULL, 0, 0, TIMEOUT};
  Client* const self = (Client*)self_;
  Options options;
  PyObject* result = NULL;
  int code = FARLOOK_OK;
  if (!take_arguments(&signature, values, count, keywords, NULL, &options)) return NULL;
  if (enter(self, &options)) {
    if (reserve_values(self, 1)) {
      UNLOCKED(code = farlook_server_stats(self->client, options.handle, self->values[0]));
      if (code == FARLOOK_OK) {
        result = PyUnicode_FromStringAndSize(farlook_value_data(self->values[0]),
                                             (Py_ssize_t)farlook_value_bytes(self->values[0]));
      }
    }
    code = leave(self, code);
    if (code != FARLOOK_OK) {
      Py_CLEAR(result);
      raise_error(code);
    }
  }
  farlook_options_free(options.handle);
  return result;
}

static PyObject* stats_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  PyObject* const result = PyDict_New();
  if (result == NULL || !enter(self, NULL)) {
    Py_XDECREF(result);
    return NULL;
  }
  int fine = 1, code = FARLOOK_OK;
  const char* name;
  for (size_t i = 0; fine && (name = farlook_stat_name(i)) != NULL; ++i) {
    uint64_t figure = 0;
    farlook_stat(self->client, name, &figure);
    PyObject* const number = PyLong_FromUnsignedLongLong(figure);
    fine = number != NULL && PyDict_SetItemString(result, name, number) == 0;
    Py_XDECREF(number);
  }
  code = leave(self, code);
  if (fine && code == FARLOOK_OK) return result;
  Py_DECREF(result);
  return NULL;
}

static PyObject* figure(PyObject* self_, int (*get)(farlook_client*, uint64_t*)) {
  Client* const self = (Client*)self_;
  uint64_t number = 0;
  if (!enter(self, NULL)) return NULL;
  int code = get(self->client, &number);
  code = leave(self, code);
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

static PyObject* address_of(PyObject* self, void* unused) {
  (void)unused;
  return Py_NewRef(((Client*)self)->address);
}

PyGetSetDef client_properties[] = {
    {"address", address_of, NULL, "The address that the client is connected by; of auto:// the one that was taken.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyMethodDef client_methods[] = {
    {"connect", (PyCFunction)(void (*)(void))connect_, METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
     "connect($type, address, *, " CONNECT_OPTIONS ")\n--\n\nConnects to the server at an address."},
    PLAIN_METHOD(close, "Closes the connection. Closing again does nothing."),
    METHOD(get, "key, default=None, *, " TIMEOUT, "Returns the key's value, or the default."),
    METHOD(get_with_version, "key, *, " TIMEOUT, "Returns the key's value and its version, or None."),
    METHOD(get_into, "key, buffer, *, " TIMEOUT, "Reads the value into a buffer. Returns its length, or None."),
    METHOD(get_and_touch, "key, ttl_ms, *, " TIMEOUT, "Returns the key's value, or None. Its item then lives for ttl_ms."),
    METHOD(put, "key, value, *, " PUT_OPTIONS, "Writes a value, and returns its version."),
    METHOD(exists, "key, *, " TIMEOUT, "Returns whether the key is there."),
    METHOD(delete, "key, *, " DELETE_OPTIONS, "Deletes the key. Returns whether it was there."),
    METHOD(touch, "key, ttl_ms, *, " TIMEOUT, "Has the key's item live for ttl_ms. Returns whether it is there."),
    METHOD(persist, "key, *, " TIMEOUT, "Has the key's item never expire. Returns whether it is there."),
    METHOD(ttl, "key, *, " TIMEOUT, "Returns the milliseconds until the key's item expires; None: it never does."),
    METHOD(create_counter, "key, initial=0, *, " CREATE_OPTIONS, "Makes a counter. Returns its value."),
    METHOD(fetch_add, "key, delta, *, " ADD_OPTIONS, "Adds to a counter. Returns its value before."),
    METHOD(compare_swap, "key, expected, desired, *, " COUNT_OPTIONS,
           "Sets a counter if its value is the expected one. Returns its value before."),
    METHOD(read_counter, "key, *, " COUNT_OPTIONS, "Returns a counter's value."),
    METHOD(delete_counter, "key, *, " COUNT_OPTIONS, "Deletes a counter. Returns its value."),
    METHOD(ping, "*, " TIMEOUT, "Asks the server's processor for an answer."),
    METHOD(warm, "*, " TIMEOUT,
           "READs the index, so that the first get of a key is one READ (mirror_bytes, share_mirror)."),
    METHOD(server_stats_text, "*, " TIMEOUT, "Returns the server's figures, one in a line."),
    PLAIN_METHOD(stats, "Returns the client's figures, by name."),
    PLAIN_METHOD(incarnation, "Returns a random number of the server's life."),
    PLAIN_METHOD(memory_bytes, "Returns how many bytes the client has allocated."),
    {NULL, NULL, 0, NULL},
};
