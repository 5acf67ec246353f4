// Scans, for farlook.Client.scan() and the like: _scan() begins one, _scan_next() returns its next items.
#include "module.h"

static const char kScan[] = "farlook.scan";

static void free_scan(PyObject* capsule) {
  farlook_scanner_free(PyCapsule_GetPointer(capsule, kScan));
  Py_XDECREF((PyObject*)PyCapsule_GetContext(capsule));
}

// The capsule keeps the client.
static PyObject* new_scan(Client* self, farlook_scanner* scanner) {
  PyObject* const capsule = PyCapsule_New(scanner, kScan, free_scan);
  if (capsule == NULL) {
    farlook_scanner_free(scanner);
  } else if (PyCapsule_SetContext(capsule, Py_NewRef((PyObject*)self)) < 0) {
    Py_DECREF((PyObject*)self);
    Py_DECREF(capsule);
    return NULL;
  }
  return capsule;
}

// Returns the scanner of one of this client's scans. NULL: an exception is set.
static farlook_scanner* scanner_of(Client* self, PyObject* capsule) {
  farlook_scanner* const scanner = PyCapsule_GetPointer(capsule, kScan);
  if (scanner != NULL && PyCapsule_GetContext(capsule) != self) {
    raise_code(FARLOOK_INVALID_ARGUMENT, "the scan is another client's");
    return NULL;
  }
  return scanner;
}

static PyObject* _scan_(ARGUMENTS) {
  static const char* const names[] = {"prefix"};
  static const Signature signature = {"scan", names, 1, 1, SCAN_OPTIONS};
  Client* const self = (Client*)self_;
  PyObject *args[1], *result = NULL;
  Options options;
  Bytes prefix = {0};
  farlook_scanner* scanner = NULL;
  if (!take_arguments(&signature, values, count, keywords, args, &options)) return NULL;
  if (!take_bytes(args[0], &prefix) || !enter(self, NULL)) goto end;
  const int code = leave(self, farlook_scan(self->client, prefix.data, prefix.bytes, options.handle, &scanner));
  if (code == FARLOOK_OK) {
    result = new_scan(self, scanner);
  } else {
    farlook_scanner_free(scanner);
    raise_error(code);
  }
end:
  release_bytes(&prefix);
  farlook_options_free(options.handle);
  return result;
}

// An item during the turn, in which no tuple may be made.
typedef struct {
  PyObject *key, *value;
  farlook_item item;
} Found;

// Fetches at most `most` items. Returns their number; *code: FARLOOK_OK, or why there are no more.
static Py_ssize_t fetch(Client* self, farlook_scanner* scanner, Found* found, Py_ssize_t most, int* code) {
  Py_ssize_t count = 0;
  *code = 1;
  while (count < most) {
    Found* const next = &found[count];
    UNLOCKED(*code = farlook_scan_next(scanner, &next->item));
    if (*code != 1) break;
    next->key = PyBytes_FromStringAndSize(next->item.key, (Py_ssize_t)next->item.key_bytes);
    next->value = PyBytes_FromStringAndSize(next->item.value, (Py_ssize_t)next->item.value_bytes);
    ++count;
    if (next->key == NULL || next->value == NULL) break;
  }
  *code = leave(self, *code == 1 ? FARLOOK_OK : *code);
  return count;
}

static PyObject* item_of(const Found* found) {
  const farlook_item* const item = &found->item;
  return Py_BuildValue("(OOKKLii)", found->key, found->value, (unsigned long long)item->item_bytes,
                       (unsigned long long)item->version, (long long)item->left_ms, item->keep, item->counter);
}

// The exception that is set.
static PyObject* take_exception(void) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return error;
}

// _scan_next(scan). Returns a list of items, as tuples, and the exception that ended it early or None. At the end of the
// scan the list is empty.
static PyObject* _scan_next_(PyObject* self_, PyObject* capsule) {
  enum { kMost = 256 };
  Client* const self = (Client*)self_;
  farlook_scanner* const scanner = scanner_of(self, capsule);
  if (scanner == NULL) return NULL;
  Found* const found = PyMem_Calloc(kMost, sizeof *found);
  if (found == NULL) return PyErr_NoMemory();
  PyObject *list = NULL, *error = NULL;
  if (!enter(self, NULL)) goto end;
  int code;
  const Py_ssize_t count = fetch(self, scanner, found, kMost, &code);
  if (code != FARLOOK_OK) {
    raise_error(code);
    error = take_exception();
  }
  list = PyList_New(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = list != NULL && found[i].key != NULL && found[i].value != NULL ? item_of(&found[i]) : NULL;
    Py_XDECREF(found[i].key);
    Py_XDECREF(found[i].value);
    if (item == NULL) {
      Py_CLEAR(list);
    } else if (PyList_SetItem(list, i, item) < 0) {
      Py_CLEAR(list);
    }
  }
end:
  PyMem_Free(found);
  if (list == NULL) {
    if (error != NULL && !PyErr_Occurred()) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
  }
  return Py_BuildValue("(NN)", list, error != NULL ? error : Py_NewRef(Py_None));
}

// _scan_place(scan). Returns the cursor, and how much is done: from 0 to 1.
static PyObject* _scan_place_(PyObject* self_, PyObject* capsule) {
  Client* const self = (Client*)self_;
  farlook_scanner* const scanner = scanner_of(self, capsule);
  if (scanner == NULL || !enter(self, NULL)) return NULL;
  PyObject* const cursor = PyUnicode_FromString(farlook_scan_cursor(scanner));
  const double progress = farlook_scan_progress(scanner);
  leave(self, FARLOOK_OK);
  return cursor != NULL ? Py_BuildValue("(Nd)", cursor, progress) : NULL;
}

#define SCAN_METHOD(name, doc) \
  { #name, name##_, METH_O, #name "($self, scan, /)\n--\n\n" doc }

PyMethodDef scan_methods[] = {
    METHOD(_scan, "prefix, *, " SCAN_OPTIONS, "For scan() and the like: begins a scan."),
    SCAN_METHOD(_scan_next, "For scan() and the like: its next items, and an exception or None."),
    SCAN_METHOD(_scan_place, "For scan() and the like: (cursor, progress)."),
    {NULL, NULL, 0, NULL},
};
