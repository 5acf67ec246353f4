// Many keys in one call.
#include <string.h>

#include "module.h"

// A batch: its keys, the other arguments for each, and a code for each.
typedef struct {
  Column keys;
  Column others;
  Options options;
  int* codes;
  PyObject* args[2];
} Batch;

static void end_batch(Batch* batch) {
  release_column(&batch->keys);
  release_column(&batch->others);
  farlook_options_free(batch->options.handle);
  PyMem_Free(batch->codes);
}

// Takes both arguments from the first, a dict: new lists, which the caller releases.
static int take_dict(const Signature* signature, PyObject** args, PyObject** keys, PyObject** others) {
  if (!PyDict_Check(args[0])) {
    PyErr_Format(PyExc_TypeError, "%s() missing argument '%s', or a dict", signature->name, signature->names[1]);
    return 0;
  }
  *keys = PyDict_Keys(args[0]);
  *others = *keys != NULL ? PyDict_Values(args[0]) : NULL;
  if (*others == NULL) {
    Py_CLEAR(*keys);
    return 0;
  }
  args[0] = *keys;
  args[1] = *others;
  return 1;
}

// `writable` is the type of the second argument: 0: a sequence of values; 1: of buffers; -1: the caller takes it.
static int begin_batch(Batch* batch, const Signature* signature, int writable, PyObject* const* values,
                       Py_ssize_t count, PyObject* keywords) {
  memset(batch, 0, sizeof *batch);
  if (!take_arguments(signature, values, count, keywords, batch->args, &batch->options)) return 0;
  PyObject *keys = NULL, *others = NULL;  // of a dict
  if (signature->most == 2 && batch->args[1] == NULL && !take_dict(signature, batch->args, &keys, &others)) goto fail;
  const int took_keys = take_column(batch->args[0], 0, &batch->keys);
  Py_XDECREF(keys);
  if (!took_keys) {
    Py_XDECREF(others);
    goto fail;
  }
  if (signature->most == 2 && writable >= 0) {
    const int took_others = take_column(batch->args[1], writable, &batch->others);
    Py_XDECREF(others);
    if (!took_others) goto fail;
    if (batch->others.count != batch->keys.count) {
      raise_code(FARLOOK_INVALID_ARGUMENT, "there are not as many of each as there are keys");
      goto fail;
    }
  }
  batch->codes = PyMem_Calloc((size_t)batch->keys.count + 1, sizeof *batch->codes);
  if (batch->codes != NULL) return 1;
  PyErr_NoMemory();
fail:
  end_batch(batch);
  return 0;
}

// Fills a list with the results of `make`, and None for absent keys. Returns the list; on an exception releases it and
// returns NULL.
static PyObject* fill(PyObject* list, const Batch* batch, PyObject* (*make)(const void*, Py_ssize_t), const void* of) {
  for (Py_ssize_t i = 0; list != NULL && i < batch->keys.count; ++i) {
    PyObject* const item = batch->codes[i] == FARLOOK_NOT_FOUND ? Py_NewRef(Py_None) : make(of, i);
    if (item == NULL || PyList_SetItem(list, i, item) < 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject* results(const Batch* batch, PyObject* (*make)(const void*, Py_ssize_t), const void* of) {
  return fill(PyList_New(batch->keys.count), batch, make, of);
}

static PyObject* make_bytes(const void* of, Py_ssize_t i) {
  const farlook_value* const value = ((farlook_value* const*)of)[i];
  return PyBytes_FromStringAndSize(farlook_value_data(value), (Py_ssize_t)farlook_value_bytes(value));
}
static PyObject* make_length(const void* of, Py_ssize_t i) { return PyLong_FromSize_t(((const size_t*)of)[i]); }
static PyObject* make_version(const void* of, Py_ssize_t i) {
  return PyLong_FromUnsignedLongLong(((const uint64_t*)of)[i]);
}
static PyObject* make_number(const void* of, Py_ssize_t i) { return PyLong_FromLongLong(((const int64_t*)of)[i]); }
static PyObject* make_true(const void* of, Py_ssize_t i) {
  (void)of;
  (void)i;
  return Py_NewRef(Py_True);
}

static PyObject* get_many_(ARGUMENTS) {
  static const char* const names[] = {"keys"};
  static const Signature signature = {"get_many", names, 1, 1, TIMEOUT};
  Client* const self = (Client*)self_;
  Batch batch;
  PyObject* result = NULL;
  if (!begin_batch(&batch, &signature, 0, values, count, keywords)) return NULL;
  const size_t keys = (size_t)batch.keys.count;
  PyObject* list = PyList_New(batch.keys.count);
  if (list != NULL && enter(self, &batch.options)) {
    int code = FARLOOK_OK;
    if (reserve_values(self, batch.keys.count)) {
      UNLOCKED(code = farlook_get_many_values(self->client, keys, batch.keys.data, batch.keys.bytes, batch.options.handle,
                                              self->values, batch.codes));
      if (code == FARLOOK_OK) {
        result = fill(list, &batch, make_bytes, self->values);
        list = NULL;
      }
      trim_values(self, batch.keys.count);
    }
    code = leave(self, code);
    if (code != FARLOOK_OK) {
      Py_CLEAR(result);
      raise_error(code);
    }
  }
  Py_XDECREF(list);
  end_batch(&batch);
  return result;
}

// Reads the values of batch.keys into the buffers of batch.others.
static PyObject* get_into_all(Client* self, Batch* batch, const char* row) {
  const size_t keys = (size_t)batch->keys.count;
  size_t* const bytes = PyMem_Calloc(keys + 1, sizeof *bytes);
  PyObject* result = NULL;
  if (bytes == NULL) return PyErr_NoMemory();
  if (enter(self, &batch->options)) {
    int code;
    UNLOCKED(code = farlook_get_many(self->client, keys, batch->keys.data, batch->keys.bytes, batch->options.handle,
                                     (void* const*)batch->others.data, batch->others.bytes, bytes, NULL, batch->codes));
    code = leave(self, code);
    if (code != FARLOOK_OK) {
      result = raise_error(code);
    } else if (row == NULL) {
      result = results(batch, make_length, bytes);
    } else {
      size_t i = 0;
      while (i < keys && (batch->codes[i] != FARLOOK_OK || bytes[i] == batch->others.bytes[i])) ++i;
      result = i < keys ? raise_code(FARLOOK_OUT_OF_RANGE, row) : results(batch, make_true, NULL);
    }
  }
  PyMem_Free(bytes);
  return result;
}

static PyObject* get_many_into_(ARGUMENTS) {
  static const char* const names[] = {"keys", "buffers"};
  static const Signature signature = {"get_many_into", names, 2, 2, TIMEOUT};
  Batch batch;
  if (!begin_batch(&batch, &signature, 1, values, count, keywords)) return NULL;
  PyObject* const result = get_into_all((Client*)self_, &batch, NULL);
  end_batch(&batch);
  return result;
}

static PyObject* get_rows_(ARGUMENTS) {
  static const char* const names[] = {"keys", "array"};
  static const Signature signature = {"get_rows", names, 2, 2, TIMEOUT};
  Batch batch;
  Bytes array = {0};
  PyObject* result = NULL;
  if (!begin_batch(&batch, &signature, -1, values, count, keywords)) return NULL;
  const Py_ssize_t keys = batch.keys.count;
  if (!take_writable(batch.args[1], &array)) goto end;
  if (array.view.ndim < 2 || array.view.shape[0] != keys) {
    raise_code(FARLOOK_INVALID_ARGUMENT, "get_rows() wants an array with a row for each key");
    goto end;
  }
  batch.others.data = PyMem_Calloc((size_t)keys + 1, sizeof(void*));
  batch.others.bytes = PyMem_Calloc((size_t)keys + 1, sizeof(size_t));
  if (batch.others.data == NULL || batch.others.bytes == NULL) {
    PyErr_NoMemory();
  } else {
    const size_t row = keys > 0 ? array.bytes / (size_t)keys : 0;
    for (Py_ssize_t i = 0; i < keys; ++i) {
      batch.others.data[i] = (const char*)array.data + (size_t)i * row;
      batch.others.bytes[i] = row;
    }
    result = get_into_all((Client*)self_, &batch, "a value is shorter than a row of the array");
  }
  PyMem_Free(batch.others.data);
  PyMem_Free(batch.others.bytes);
  memset(&batch.others, 0, sizeof batch.others);
end:
  release_bytes(&array);
  end_batch(&batch);
  return result;
}

static PyObject* put_many_(ARGUMENTS) {
  static const char* const names[] = {"keys", "values"};
  static const Signature signature = {"put_many", names, 1, 2, PUT_OPTIONS};
  Client* const self = (Client*)self_;
  Batch batch;
  PyObject* result = NULL;
  if (!begin_batch(&batch, &signature, 0, values, count, keywords)) return NULL;
  const size_t keys = (size_t)batch.keys.count;
  uint64_t* const versions = PyMem_Calloc(keys + 1, sizeof *versions);
  if (versions == NULL) {
    PyErr_NoMemory();
  } else if (enter(self, &batch.options)) {
    int code;
    UNLOCKED(code = farlook_put_many(self->client, keys, batch.keys.data, batch.keys.bytes, batch.others.data,
                                     batch.others.bytes, batch.options.handle, versions, batch.codes));
    code = leave(self, code);
    result = code == FARLOOK_OK ? results(&batch, make_version, versions) : raise_error(code);
  }
  PyMem_Free(versions);
  end_batch(&batch);
  return result;
}

// Returns a list of whether each key was present, for a batch that ended with `code`.
static PyObject* yes_or_no(const Batch* batch, int code) {
  PyObject* const result = code == FARLOOK_OK ? PyList_New(batch->keys.count) : raise_error(code);
  for (Py_ssize_t i = 0; result != NULL && i < batch->keys.count; ++i) {
    PyList_SetItem(result, i, PyBool_FromLong(batch->codes[i] == FARLOOK_OK));
  }
  return result;
}

// `call` is the library's function; its arguments are `client`, `batch` and those behind the keys and their lengths.
#define YES_OR_NO(call, ...)                                                                                  \
  PyObject* result = NULL;                                                                                    \
  if (enter(self, &batch.options)) {                                                                                          \
    int code;                                                                                                 \
    UNLOCKED(code = call(self->client, (size_t)batch.keys.count, batch.keys.data, batch.keys.bytes, __VA_ARGS__)); \
    code = leave(self, code);                                                                                 \
    result = yes_or_no(&batch, code);                                                                         \
  }                                                                                                           \
  end_batch(&batch);                                                                                          \
  return result

static PyObject* delete_many_(ARGUMENTS) {
  static const char* const names[] = {"keys"};
  static const Signature signature = {"delete_many", names, 1, 1, DELETE_OPTIONS};
  Client* const self = (Client*)self_;
  Batch batch;
  if (!begin_batch(&batch, &signature, 0, values, count, keywords)) return NULL;
  YES_OR_NO(farlook_delete_many, batch.options.handle, batch.codes);
}

static PyObject* exists_many_(ARGUMENTS) {
  static const char* const names[] = {"keys"};
  static const Signature signature = {"exists_many", names, 1, 1, TIMEOUT};
  Client* const self = (Client*)self_;
  Batch batch;
  if (!begin_batch(&batch, &signature, 0, values, count, keywords)) return NULL;
  YES_OR_NO(farlook_exists_many, batch.options.handle, batch.codes);
}

static PyObject* touch_many_(ARGUMENTS) {
  static const char* const names[] = {"keys", "ttl_ms"};
  static const Signature signature = {"touch_many", names, 2, 2, TIMEOUT};
  Client* const self = (Client*)self_;
  Batch batch;
  int64_t ttl_ms = 0;
  if (!begin_batch(&batch, &signature, -1, values, count, keywords)) return NULL;
  if (!take_number(batch.args[1], &ttl_ms)) {
    end_batch(&batch);
    return NULL;
  }
  YES_OR_NO(farlook_touch_many, ttl_ms, batch.options.handle, batch.codes);
}

// ---- Counters.

typedef int (*Count)(farlook_client*, size_t, const void* const*, const size_t*, const int64_t*, const farlook_options*,
                     int64_t*, int*);

static int read_counters(farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                         const int64_t* unused, const farlook_options* options, int64_t* numbers, int* codes) {
  (void)unused;
  return farlook_read_counter_many(client, count, keys, key_bytes, options, numbers, codes);
}

// Takes a number for each key, from a sequence of the same length. Returns false with an exception set.
static int take_numbers(PyObject* sequence, Py_ssize_t count, int64_t* numbers) {
  PyObject* const list = PySequence_List(sequence);
  int fine = list != NULL;
  if (fine && PyList_Size(list) != count) {
    raise_code(FARLOOK_INVALID_ARGUMENT, "there are not as many numbers as there are keys");
    fine = 0;
  }
  for (Py_ssize_t i = 0; fine && i < count; ++i) fine = take_number(PyList_GetItem(list, i), &numbers[i]);
  Py_XDECREF(list);
  return fine;
}

// Returns each counter's value before. The second argument, if there is one, has a number for each.
static PyObject* count_all(ARGUMENTS, const Signature* signature, Count do_) {
  Client* const self = (Client*)self_;
  Batch batch;
  PyObject* result = NULL;
  if (!begin_batch(&batch, signature, -1, values, count, keywords)) return NULL;
  const size_t keys = (size_t)batch.keys.count;
  int64_t* const numbers = PyMem_Calloc(2 * keys + 1, sizeof *numbers);
  if (numbers == NULL) {
    PyErr_NoMemory();
  } else if ((signature->most == 1 || take_numbers(batch.args[1], batch.keys.count, numbers + keys)) &&
             enter(self, &batch.options)) {
    int code;
    UNLOCKED(code = do_(self->client, keys, batch.keys.data, batch.keys.bytes, numbers + keys, batch.options.handle,
                        numbers, batch.codes));
    code = leave(self, code);
    result = code == FARLOOK_OK ? results(&batch, make_number, numbers) : raise_error(code);
  }
  PyMem_Free(numbers);
  end_batch(&batch);
  return result;
}

static PyObject* create_counter_many_(ARGUMENTS) {
  static const char* const names[] = {"keys", "initials"};
  static const Signature signature = {"create_counter_many", names, 2, 2, CREATE_OPTIONS};
  return count_all(self_, values, count, keywords, &signature, farlook_create_counter_many);
}
static PyObject* fetch_add_many_(ARGUMENTS) {
  static const char* const names[] = {"keys", "deltas"};
  static const Signature signature = {"fetch_add_many", names, 2, 2, ADD_OPTIONS};
  return count_all(self_, values, count, keywords, &signature, farlook_fetch_add_many);
}
static PyObject* read_counter_many_(ARGUMENTS) {
  static const char* const names[] = {"keys"};
  static const Signature signature = {"read_counter_many", names, 1, 1, COUNT_OPTIONS};
  return count_all(self_, values, count, keywords, &signature, read_counters);
}

PyMethodDef batch_methods[] = {
    METHOD(get_many, "keys, *, " TIMEOUT, "Returns the keys' values; None for those that are absent."),
    METHOD(get_many_into, "keys, buffers, *, " TIMEOUT,
           "Reads each value into a buffer. Returns their lengths; None for those that are absent."),
    METHOD(get_rows, "keys, array, *, " TIMEOUT,
           "Reads each value into a row of an array. Returns True for each, or None if it is absent."),
    METHOD(put_many, "keys, values=None, *, " PUT_OPTIONS,
           "Writes a value for each key, or the items of a dict. Returns their versions."),
    METHOD(delete_many, "keys, *, " DELETE_OPTIONS, "Deletes keys. Returns whether each was there."),
    METHOD(exists_many, "keys, *, " TIMEOUT, "Returns whether each key is there."),
    METHOD(touch_many, "keys, ttl_ms, *, " TIMEOUT,
           "Has the keys' items live for ttl_ms. Returns whether each is there."),
    METHOD(create_counter_many, "keys, initials, *, " CREATE_OPTIONS,
           "Makes a counter for each key. Returns their values."),
    METHOD(fetch_add_many, "keys, deltas, *, " ADD_OPTIONS,
           "Adds to counters. Returns what each was before; None for those that are absent."),
    METHOD(read_counter_many, "keys, *, " COUNT_OPTIONS,
           "Returns what each counter holds; None for those that are absent."),
    {NULL, NULL, 0, NULL},
};
