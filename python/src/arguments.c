// From Python's arguments to what the C library takes.
#include <string.h>

#include "module.h"

static int take(PyObject* object, int writable, Bytes* bytes) {
  bytes->has_view = 0;
  if (!writable && PyBytes_Check(object)) {
    bytes->data = PyBytes_AsString(object);
    bytes->bytes = (size_t)PyBytes_Size(object);
    return 1;
  }
  if (!writable && PyUnicode_Check(object)) {
    Py_ssize_t length = 0;
    bytes->data = PyUnicode_AsUTF8AndSize(object, &length);
    bytes->bytes = (size_t)length;
    return bytes->data != NULL;
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
}

int take_column(PyObject* sequence, int writable, Column* column) {
  memset(column, 0, sizeof *column);
  if (PyUnicode_Check(sequence) || PyBytes_Check(sequence)) {
    PyErr_SetString(PyExc_TypeError, "a batch wants a sequence of keys, not one");
    return 0;
  }
  // A list of its own: nobody changes it while the interpreter's lock is released.
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
  column->items = (Bytes*)memory;
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

// *conditions counts those that were set.
static int set_option(farlook_options* options, const char* name, PyObject* value, int* conditions) {
  int code;
  if (PyUnicode_Check(value)) {
    const char* const text = take_text(value);
    if (text == NULL) return 0;
    code = farlook_options_set_text(options, name, text);
  } else {
    int64_t number = 0;
    if (!take_number(value, &number)) return 0;
    code = farlook_options_set(options, name, number);
    if (code == FARLOOK_OK && number != 0 && strncmp(name, "if_", 3) == 0 && ++*conditions > 1) {
      // The library would take the last of them.
      raise_code(FARLOOK_INVALID_ARGUMENT, "of if_absent, if_present and if_version one may be given");
      return 0;
    }
  }
  if (code == FARLOOK_OK) return 1;
  raise_error(code);
  return 0;
}

int take_options(PyObject* const* values, PyObject* names, const char* const* positional, PyObject** slots,
                 farlook_options** options) {
  *options = NULL;
  int conditions = 0;
  const Py_ssize_t count = names != NULL ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const char* const name = take_text(PyTuple_GetItem(names, i));
    if (name == NULL) goto fail;
    Py_ssize_t place = 0;
    while (positional != NULL && positional[place] != NULL && strcmp(positional[place], name) != 0) ++place;
    if (positional != NULL && positional[place] != NULL) {
      if (slots[place] != NULL) {
        PyErr_Format(PyExc_TypeError, "the argument %s is given twice", name);
        goto fail;
      }
      slots[place] = values[i];
      continue;
    }
    if (values[i] == Py_None) continue;
    if (*options == NULL && (*options = farlook_options_new()) == NULL) {
      PyErr_NoMemory();
      return 0;
    }
    if (!set_option(*options, name, values[i], &conditions)) goto fail;
  }
  return 1;
fail:
  farlook_options_free(*options);
  *options = NULL;
  return 0;
}

int take_arguments(const char* call, const char* const* names, Py_ssize_t least, Py_ssize_t most,
                   PyObject* const* values, Py_ssize_t count, PyObject* keywords, PyObject** args,
                   farlook_options** options) {
  *options = NULL;
  if (count > most) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, and options by name", call, most);
    return 0;
  }
  for (Py_ssize_t i = 0; i < most; ++i) args[i] = i < count ? values[i] : NULL;
  if (keywords != NULL && !take_options(values + count, keywords, names, args, options)) return 0;
  for (Py_ssize_t i = 0; i < least; ++i) {
    if (args[i] != NULL) continue;
    PyErr_Format(PyExc_TypeError, "%s() wants %s", call, names[i]);
    farlook_options_free(*options);
    *options = NULL;
    return 0;
  }
  return 1;
}
