// Declarations that the sources of farlook._farlook share. The module uses the limited API of CPython 3.11, so that one
// build serves all later versions. Of Farlook it uses only the C library, as described in farlook.h.
#ifndef FARLOOK_PYTHON_MODULE_H_
#define FARLOOK_PYTHON_MODULE_H_

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <farlook.h>
#include <pthread.h>

typedef struct Pending Pending;
typedef struct Registered Registered;
typedef struct Turn Turn;

// A client, and the thread whose turn it is to use it (turns.c) without the interpreter's lock.
typedef struct {
  PyObject_HEAD farlook_client* client;  // NULL: closed
  PyObject* address;                     // a str
  int64_t timeout_ms;                    // of calls that give none
  unsigned forks;                        // farlook_python_forks at the time of connecting
  // Protected by the mutex.
  pthread_mutex_t mutex;
  int busy;                   // a thread has the turn
  unsigned long thread;       // that thread
  unsigned depth;             // number of its calls around the present one
  Turn* turns;                // threads that wait for their turn
  unsigned long main_thread;  // it handles signals
  // For the thread that has the turn.
  unsigned calls;  // that have begun and not ended
  int closing;     // no more calls may begin
  // Memory that values are read into; handles keep their memory.
  farlook_value** values;
  Py_ssize_t values_count;
  Pending* pending;        // operations that were started and not returned (operations.c)
  Registered* registered;  // memory.c
} Client;

// ---- errors.c

// Makes the exceptions, a class for each code, and adds them to the module. Returns false with an exception set.
int add_exceptions(PyObject* module);
// Sets the exception of a code, with this text. Returns NULL.
PyObject* raise_code(int code, const char* text);
// The same with the text of farlook_error(); kInterrupted keeps the exception that is set.
PyObject* raise_error(int code);
// The code of a call that was ended by an exception, which is set.
enum { kInterrupted = 1 };

// ---- arguments.c

// Bytes of an argument: of any object with a buffer, or of a str as UTF-8. They keep the object alive, and its buffer
// in place, until release_bytes(): an operation in flight uses them after the call that started it has returned.
typedef struct {
  const void* data;
  size_t bytes;
  PyObject* owner;  // a reference to the object, if it is bytes or str; else NULL
  Py_buffer view;   // keeps any other object alive
  int has_view;
} Bytes;

// Takes the bytes of `object`. Returns false with an exception set; then nothing needs release.
int take_bytes(PyObject* object, Bytes* bytes);
// Takes writable memory.
int take_writable(PyObject* object, Bytes* bytes);
// May run a finalizer of the object. Releasing again does nothing.
void release_bytes(Bytes* bytes);

// A list of keys, values or buffers, in the form of a batch.
typedef struct {
  PyObject* list;
  Py_ssize_t count;
  const void** data;
  size_t* bytes;
  Bytes* items;
} Column;

int take_column(PyObject* sequence, int writable, Column* column);
void release_column(Column* column);

// The options of a call.
typedef struct {
  farlook_options* handle;  // NULL: none was given
  int64_t timeout_ms;       // 0: the client's
} Options;

// Signature of a call, for its documentation and its arguments: the names of its options with their defaults, such as
// "timeout_ms=None", separated by ", ". NULL: the caller handles options.
#define TIMEOUT "timeout_ms=None"
#define PUT_OPTIONS \
  "if_absent=None, if_present=None, if_version=None, ttl_ms=None, keep_ttl=None, keep=None, refill=None, " TIMEOUT
#define DELETE_OPTIONS "if_present=None, if_version=None, " TIMEOUT
#define COUNT_OPTIONS "exactly_once=None, " TIMEOUT
#define CREATE_OPTIONS "ttl_ms=None, " COUNT_OPTIONS
#define SCAN_OPTIONS                                                                                                   \
  "values=None, limit=None, min_value_bytes=None, max_value_bytes=None, only_expiring=None, batch_bytes=None, "        \
  "bytes_per_s=None, cursor=None, " TIMEOUT
#define ADD_OPTIONS "create=None, initial=None, " CREATE_OPTIONS

typedef struct {
  const char* name;
  const char* const* names;  // of the arguments that are not options
  Py_ssize_t least, most;    // their minimum and maximum number
  const char* options;
} Signature;

// Parses the arguments of a call: fills args[most], with NULL for missing ones, and options from keywords. None means
// that an option is not given. Returns false with an exception set; then nothing needs to be freed.
int take_arguments(const Signature* signature, PyObject* const* values, Py_ssize_t count, PyObject* keywords,
                   PyObject** args, Options* options);
// Returns a str in the form of the C library. Returns NULL with an exception set if it is no str, or contains a NUL.
const char* take_text(PyObject* object);
// Converts to an int64_t. Returns false with an exception set.
int take_number(PyObject* object, int64_t* number);

// ---- client.c

extern unsigned farlook_python_forks;

// Ensures at least `count` handles in self->values. Returns false with an exception set. REQUIRES enter().
int reserve_values(Client* self, Py_ssize_t count);
// Releases the memory of large values among the first `count`.
void trim_values(Client* self, Py_ssize_t count);

extern PyMethodDef client_methods[];
extern PyGetSetDef client_properties[];
extern PyMethodDef batch_methods[];
extern PyMethodDef operation_methods[];
extern PyMethodDef memory_methods[];
extern PyMethodDef scan_methods[];

// ---- turns.c

// For a client that connects: the caller has the turn, and leave() gives it up. Returns false with an exception set.
int begin_turns(Client* self);
// Waits for the caller's turn, at most for the timeout of the call. Sets `options`, which may be NULL, to the remaining
// time. Returns false if it timed out, the client is closed or a parent's, or a signal's handler raised an exception.
// During a turn, create no objects that CPython's collector tracks (lists, tuples, exceptions). Otherwise a finalizer
// that uses the same client would find it in the middle of a call.
int enter(Client* self, Options* options);
// The same for a call that no other call may overlap. Afterwards enter() fails, as if the client were closed.
int enter_alone(Client* self);
// The call has ended. Returns `code`, or kInterrupted if an exception is set.
int leave(Client* self, int code);
// For farlook_options_set_while_waiting(), with the client.
int64_t while_waiting(void* client);

// ---- operations.c

// Releases operations in flight. REQUIRES the client is closed, which has ended them.
void drop_pending(Client* self);

// ---- memory.c

// Releases registered memory. REQUIRES the client is closed.
void drop_registered(Client* self);

// Calls the library without the interpreter's lock.
#define UNLOCKED(call)      \
  do {                      \
    Py_BEGIN_ALLOW_THREADS; \
    call;                   \
    Py_END_ALLOW_THREADS;   \
  } while (0)

#define ARGUMENTS PyObject *self_, PyObject *const *values, Py_ssize_t count, PyObject *keywords
// `parameters` in the form that help() shows.
#define METHOD(name, parameters, doc)                                             \
  {                                                                               \
#name, (PyCFunction)(void (*)(void))name##_, METH_FASTCALL | METH_KEYWORDS, \
        #name "($self, " parameters ")\n--\n\n" doc                               \
  }
#define PLAIN_METHOD(name, doc) \
  { #name, name##_, METH_NOARGS, #name "($self)\n--\n\n" doc }

#endif  // FARLOOK_PYTHON_MODULE_H_
