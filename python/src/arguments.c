// Conversion of Python's arguments for the C library.
#include <string.h>

#include "module.h"

static int take(PyObject* object, int writable, Bytes* bytes) {
  bytes->has_view = 0;
  bytes->owner = NULL;
  if (!writable && PyBytes_Check(object)) {
    bytes->data = PyBytes_AsString(object);
    bytes->bytes = (size_t)PyBytes_Size(object);
    bytes->owner = Py_NewRef(object);
    return 1;
  }
  if (!writable && PyUnicode_Check(object)) {
    Py_ssize_t length = 0;
    bytes->data = PyUnicode_AsUTF8AndSize(object, &length);
    if (bytes->data == NULL) return 0;
    bytes->bytes = (size_t)length;
    bytes->owner = Py_NewRef(object);
    return 1;
  }
  if (PyObject_GetBuffer(object, &bytes->view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0) return 0;
  bytes->has_view = 1;
  bytes->data = bytes->view.buf != NULL ? bytes->view.buf : "";
  bytes->bytes = (size_t)bytes->view.len;
  return 1;
}

int take_bytes(PyObject* object, Bytes* bytes) { return take(object, 0, bytes); }
int take_writable(PyObject* object, Bytes* bytes) { return take(object, 1, bytes); }

void release_bytes(Bytes* bytes) {
  if (bytes->has_view) PyBuffer_Release(&bytes->view);
  bytes->has_view = 0;
  Py_CLEAR(bytes->owner);
}

int take_column(PyObject* sequence, int writable, Column* column) {
  memset(column, 0, sizeof *column);
  if (PyUnicode_Check(sequence) || PyBytes_Check(sequence)) {
    PyErr_SetString(PyExc_TypeError, "a batch wants a sequence of keys, not one");
    return 0;
  }
  // A copy of the list, which does not change while the interpreter's lock is released.
  column->list = PySequence_List(sequence);
  if (column->list == NULL) return 0;
  const Py_ssize_t count = PyList_Size(column->list);
  const size_t each = sizeof(void*) + sizeof(size_t) + sizeof(Bytes);
  char* const memory = PyMem_Calloc((size_t)count + 1, each);
  if (memory == NULL) {
    PyErr_NoMemory();
    release_column(column);
    return 0;
  }
  column->items = (Bytes*)(void*)memory;
  column->data = (const void**)(column->items + count + 1);
  column->bytes = (size_t*)(column->data + count + 1);
  for (; column->count < count; ++column->count) {
    Bytes* const item = &column->items[column->count];
    if (!take(PyList_GetItem(column->list, column->count), writable, item)) {
      release_column(column);
      return 0;
    }
    column->data[column->count] = item->data;
    column->bytes[column->count] = item->bytes;
  }
  return 1;
}

void release_column(Column* column) {
  for (Py_ssize_t i = 0; i < column->count; ++i) release_bytes(&column->items[i]);
  PyMem_Free(column->items);
  Py_XDECREF(column->list);
  memset(column, 0, sizeof *column);
}

int take_number(PyObject* object, int64_t* number) {
  const long long taken = PyLong_AsLongLong(object);
  if (taken == -1 && PyErr_Occurred()) return 0;
  *number = taken;
  return 1;
}

const char* take_text(PyObject* object) {
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object, &length);
  if (text == NULL || strlen(text) == (size_t)length) return text;
  PyErr_SetString(PyExc_ValueError, "embedded null character");
  return NULL;
}

// Returns whether a call has an option.
static int has_option(const char* options, const char* name) {
  const size_t length = strlen(name);
  for (const char* at = options; at != NULL; at = strstr(at, ", ") != NULL ? strstr(at, ", ") + 2 : NULL) {
    if (strncmp(at, name, length) == 0 && at[length] == '=') return 1;
  }
  return 0;
}

// *conditions counts those that were set.
static int set_option(Options* options, const char* name, PyObject* value, int* conditions) {
  int code;
  if (options->handle == NULL && (options->handle = farlook_options_new()) == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  if (PyUnicode_Check(value)) {
    const char* const text = take_text(value);
    if (text == NULL) return 0;
    code = farlook_options_set_text(options->handle, name, text);
  } else {
    int64_t number = 0;
    if (!take_number(value, &number)) return 0;
    code = farlook_options_set(options->handle, name, number);
    const int is_condition = strcmp(name, "if_version") == 0 || (number != 0 && strncmp(name, "if_", 3) == 0);
    if (code == FARLOOK_OK && is_condition && ++*conditions > 1) {
      // The library would take the last of them.
      raise_code(FARLOOK_INVALID_ARGUMENT, "of if_absent, if_present and if_version one may be given");
      return 0;
    }
    if (strcmp(name, "timeout_ms") == 0) options->timeout_ms = number;
  }
  if (code == FARLOOK_OK) return 1;
  raise_error(code);
  return 0;
}

// Takes an argument that is given by its name.
static int take_named(const Signature* signature, const char* name, PyObject* value, PyObject** args, Options* options,
                      int* conditions) {
  Py_ssize_t place = 0;
  while (place < signature->most && strcmp(signature->names[place], name) != 0) ++place;
  if (place < signature->most) {
    if (args[place] != NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", signature->name, name);
      return 0;
    }
    args[place] = value;
    return 1;
  }
  if (signature->options != NULL && !has_option(signature->options, name)) {
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'; its options: %s", signature->name, name,
                 signature->options);
    return 0;
  }
  return value == Py_None || set_option(options, name, value, conditions);
}

int take_arguments(const Signature* signature, PyObject* const* values, Py_ssize_t count, PyObject* keywords,
                   PyObject** args, Options* options) {
  memset(options, 0, sizeof *options);
  if (count > signature->most) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, and options by name", signature->name, signature->most);
    return 0;
  }
  for (Py_ssize_t i = 0; i < signature->most; ++i) args[i] = i < count ? values[i] : NULL;
  int conditions = 0;
  const Py_ssize_t named = keywords != NULL ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* const name = take_text(PyTuple_GetItem(keywords, i));
    if (name == NULL || !take_named(signature, name, values[count + i], args, options, &conditions)) goto fail;
  }
  for (Py_ssize_t i = 0; i < signature->least; ++i) {
    if (args[i] != NULL) continue;
    PyErr_Format(PyExc_TypeError, "%s() missing argument '%s'", signature->name, signature->names[i]);
    goto fail;
  }
  return 1;
fail:
  farlook_options_free(options->handle);
  options->handle = NULL;
  return 0;
}
