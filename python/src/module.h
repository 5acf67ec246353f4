// What the sources of farlook._farlook share. It uses the limited API of CPython 3.11, so that one build serves all
// later versions, and Farlook's C library, of which it knows nothing that farlook.h does not say.
#ifndef FARLOOK_PYTHON_MODULE_H_
#define FARLOOK_PYTHON_MODULE_H_

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <farlook.h>

typedef struct Pending Pending;
typedef struct Registered Registered;

// A client and its lock: threads that share it take turns, with the interpreter's lock released.
typedef struct {
  PyObject_HEAD farlook_client* client;  // NULL: closed
  PyThread_type_lock lock;
  unsigned forks;  // what farlook_python_forks was when it connected
  // What values are read into, under the lock; handles keep their memory.
  farlook_value** values;
  Py_ssize_t values_count;
  Pending* pending;        // operations that were started, and have not been told of (operations.c)
  Registered* registered;  // memory.c
} Client;

// ---- errors.c

// Makes the exceptions, a class for each code, and adds them to the module. False: an exception is set.
int add_exceptions(PyObject* module);
// Sets the exception of a code, with this text. Returns NULL.
PyObject* raise_code(int code, const char* text);
// The same with what farlook_error() says.
PyObject* raise_error(int code);

// ---- arguments.c

// Bytes that an argument refers to, from any object with a buffer, or a str as UTF-8.
typedef struct {
  const void* data;
  size_t bytes;
  Py_buffer view;
  int has_view;
} Bytes;

// The bytes of `object`, which has to outlive them. False: an exception is set.
int take_bytes(PyObject* object, Bytes* bytes);
// The same for memory that is written to.
int take_writable(PyObject* object, Bytes* bytes);
void release_bytes(Bytes* bytes);

// A list of keys, values or buffers as a batch wants them.
typedef struct {
  PyObject* list;
  Py_ssize_t count;
  const void** data;
  size_t* bytes;
  Bytes* items;
} Column;

int take_column(PyObject* sequence, int writable, Column* column);
void release_column(Column* column);

// Options from keyword arguments; *options is NULL where there are none. None stands for an option that is not given.
// Names that are among `positional` (NULL at the end) are arguments, which go to slots[]; may be NULL.
int take_options(PyObject* const* values, PyObject* names, const char* const* positional, PyObject** slots,
                 farlook_options** options);
// Of a call with `least` to `most` arguments that are no options: fills args[most], those not given with NULL.
int take_arguments(const char* call, const char* const* names, Py_ssize_t least, Py_ssize_t most,
                   PyObject* const* values, Py_ssize_t count, PyObject* keywords, PyObject** args,
                   farlook_options** options);
// A str as the C library takes it. NULL, and an exception: it is none, or has a NUL in it.
const char* take_text(PyObject* object);
// An int64_t. False: an exception is set.
int take_number(PyObject* object, int64_t* number);

// ---- client.c

extern unsigned farlook_python_forks;

// Takes the client's lock. False: it is closed, or of a parent, and an exception is set. Under the lock nothing is made
// that CPython's collector looks after (lists, tuples, exceptions): it may run then, and a finalizer that uses the same
// client would wait for ever.
int enter(Client* self);
void leave(Client* self);
// At least so many handles in self->values. False: an exception is set. REQUIRES enter().
int reserve_values(Client* self, Py_ssize_t count);
// Gives back the memory of large values among the first so many.
void trim_values(Client* self, Py_ssize_t count);

extern PyMethodDef client_methods[];
extern PyMethodDef batch_methods[];
extern PyMethodDef operation_methods[];
extern PyMethodDef memory_methods[];

// ---- operations.c

// Lets go of what was in flight. REQUIRES the client is closed, and what was in flight has so ended.
void drop_pending(Client* self);

// ---- memory.c

// Lets go of what was registered. REQUIRES the client is closed.
void drop_registered(Client* self);

// Calls the library without the interpreter's lock.
#define UNLOCKED(call)      \
  do {                      \
    Py_BEGIN_ALLOW_THREADS; \
    call;                   \
    Py_END_ALLOW_THREADS;   \
  } while (0)

#define ARGUMENTS PyObject *self_, PyObject *const *values, Py_ssize_t count, PyObject *keywords
#define METHOD(name, doc) \
  { #name, (PyCFunction)(void (*)(void))name##_, METH_FASTCALL | METH_KEYWORDS, doc }

#endif  // FARLOOK_PYTHON_MODULE_H_
