// A class of exceptions for each code. Some also derive from the equivalent exception of Python.
#include "module.h"

typedef struct {
  int code;
  const char* name;
  PyObject** base;  // a builtin that it also derives from; may be NULL
  PyObject* type;
} Exception;

static PyObject* error_type;
static Exception exceptions[] = {
    {FARLOOK_CANCELLED, "Cancelled", NULL, NULL},
    {FARLOOK_UNKNOWN, "Unknown", NULL, NULL},
    {FARLOOK_INVALID_ARGUMENT, "InvalidArgument", &PyExc_ValueError, NULL},
    {FARLOOK_DEADLINE_EXCEEDED, "DeadlineExceeded", &PyExc_TimeoutError, NULL},
    {FARLOOK_NOT_FOUND, "NotFound", &PyExc_LookupError, NULL},
    {FARLOOK_ALREADY_EXISTS, "AlreadyExists", NULL, NULL},
    {FARLOOK_PERMISSION_DENIED, "PermissionDenied", &PyExc_PermissionError, NULL},
    {FARLOOK_RESOURCE_EXHAUSTED, "ResourceExhausted", NULL, NULL},
    {FARLOOK_FAILED_PRECONDITION, "FailedPrecondition", NULL, NULL},
    {FARLOOK_ABORTED, "Aborted", NULL, NULL},
    {FARLOOK_OUT_OF_RANGE, "OutOfRange", NULL, NULL},
    {FARLOOK_INTERNAL, "Internal", NULL, NULL},
    {FARLOOK_UNAVAILABLE, "Unavailable", &PyExc_ConnectionError, NULL},
    {FARLOOK_DATA_LOSS, "DataLoss", NULL, NULL},
    {FARLOOK_UNAUTHENTICATED, "Unauthenticated", NULL, NULL},
};
enum { kExceptions = sizeof exceptions / sizeof exceptions[0] };

int add_exceptions(PyObject* module) {
  error_type = PyErr_NewExceptionWithDoc("farlook.Error", "What every error of Farlook is.", NULL, NULL);
  if (error_type == NULL || PyModule_AddObjectRef(module, "Error", error_type) < 0) return 0;
  for (int i = 0; i < kExceptions; ++i) {
    Exception* const each = &exceptions[i];
    char name[64];
    PyOS_snprintf(name, sizeof name, "farlook.%s", each->name);
    PyObject* const bases = each->base != NULL ? PyTuple_Pack(2, error_type, *each->base) : PyTuple_Pack(1, error_type);
    if (bases == NULL) return 0;
    each->type = PyErr_NewExceptionWithDoc(name, farlook_code_name(each->code), bases, NULL);
    Py_DECREF(bases);
    if (each->type == NULL || PyModule_AddObjectRef(module, each->name, each->type) < 0) return 0;
  }
  return 1;
}

static PyObject* type_of(int code) {
  for (int i = 0; i < kExceptions; ++i) {
    if (exceptions[i].code == code) return exceptions[i].type;
  }
  return error_type;
}

PyObject* raise_code(int code, const char* text) {
  PyErr_SetString(type_of(code), text);
  return NULL;
}

PyObject* raise_error(int code) { return code == kInterrupted ? NULL : raise_code(code, farlook_error()); }
