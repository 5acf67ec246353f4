// Asynchronous operations, for farlook.aio: _start() begins one, _start_many() a batch, _poll() returns those that have
// ended.
#include <string.h>

#include "kinds.h"
#include "module.h"

// An operation of a call.
typedef struct {
  farlook_operation* operation;
  Pending* call;
  Bytes memory;  // a value, or a buffer, which the operation uses until it has ended
} Item;

// A call, until all of its operations have ended.
struct Pending {
  Pending* next;
  Pending** link;  // the pointer to this
  const Kind* kind;
  long long token;
  int is_batch;     // its result is a list
  Bytes array;      // the items' memory is its rows
  Py_ssize_t left;  // items that have not ended
  Py_ssize_t count;
  Item items[];
};

static Pending* new_pending(const Kind* kind, long long token, Py_ssize_t count) {
  Pending* const pending = PyMem_Calloc(1, sizeof *pending + (size_t)count * sizeof(Item));
  if (pending == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  pending->kind = kind;
  pending->token = token;
  for (; pending->count < count; ++pending->count) {
    Item* const item = &pending->items[pending->count];
    item->call = pending;
    if ((item->operation = farlook_operation_new()) == NULL) break;
    farlook_operation_set_tag(item->operation, item);
  }
  pending->left = pending->count;
  return pending;
}

static void link_pending(Client* self, Pending* pending) {
  pending->next = self->pending;
  pending->link = &self->pending;
  if (pending->next != NULL) pending->next->link = &pending->next;
  self->pending = pending;
}

static void unlink_pending(Pending* pending) {
  *pending->link = pending->next;
  if (pending->next != NULL) pending->next->link = pending->link;
}

static void free_pending(Pending* pending) {
  for (Py_ssize_t i = 0; i < pending->count; ++i) {
    farlook_operation_free(pending->items[i].operation);
    release_bytes(&pending->items[i].memory);
  }
  release_bytes(&pending->array);
  PyMem_Free(pending);
}

void drop_pending(Client* self) {
  while (self->pending != NULL) {
    Pending* const first = self->pending;
    unlink_pending(first);
    free_pending(first);
  }
}

// ---- A call with one operation.

// Makes the item use one row of its array.
static int take_row(Item* item, PyObject* number) {
  Bytes* const memory = &item->memory;
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

// Fills the item's memory, or numbers[], from the arguments after the key, if there is one.
static int take_rest(const Kind* kind, Item* item, PyObject* const* args, int64_t* numbers) {
  if (kind->memory != 0 && !(kind->memory == 1 ? take_bytes : take_writable)(args[1], &item->memory)) return 0;
  if (kind->memory != 0) return kind->memory != 3 || take_row(item, args[2]);
  for (Py_ssize_t i = !kind->keyless; i < kind->signature.most; ++i) {
    if (!take_number(args[i], numbers++)) return 0;
  }
  return 1;
}

static int start(Client* self, Pending* pending, farlook_operation* const* operations) {
  int code;
  if (!enter(self, NULL)) return 0;
  UNLOCKED(code = farlook_start(self->client, operations, (size_t)pending->count));
  if (code == FARLOOK_OK) link_pending(self, pending);
  const int ended = leave(self, code);
  if (code != FARLOOK_OK) raise_error(ended);
  return code == FARLOOK_OK;
}

static const Kind* take_call(PyObject* const* values, Py_ssize_t count, long long* token) {
  if (count < 2) {
    PyErr_SetString(PyExc_TypeError, "an operation wants a token and a kind");
    return NULL;
  }
  *token = PyLong_AsLongLong(values[0]);
  const char* const name = PyErr_Occurred() ? NULL : take_text(values[1]);
  return name != NULL ? kind_named(name) : NULL;
}

static PyObject* _start_(ARGUMENTS) {
  PyObject* args[3] = {NULL, NULL, NULL};
  Options options;
  Bytes key = {0};
  int64_t numbers[2] = {0, 0};
  int started = 0;
  long long token;
  const Kind* const kind = take_call(values, count, &token);
  if (kind == NULL || !take_arguments(&kind->signature, values + 2, count - 2, keywords, args, &options)) return NULL;
  Pending* const pending = new_pending(kind, token, 1);
  if (pending == NULL || pending->count < 1) {
    PyErr_NoMemory();
    goto end;
  }
  Item* const item = &pending->items[0];
  if ((!kind->keyless && !take_bytes(args[0], &key)) || !take_rest(kind, item, args, numbers)) goto end;
  const int code = kind->prepare(item->operation, &key, &item->memory, numbers, options.handle);
  if (code != FARLOOK_OK) {
    raise_error(code);
  } else {
    started = start((Client*)self_, pending, &item->operation);
  }
end:
  release_bytes(&key);
  farlook_options_free(options.handle);
  if (!started && pending != NULL) free_pending(pending);
  return started ? Py_NewRef(Py_None) : NULL;
}

// ---- A batch.

static int not_as_many(void) {
  raise_code(FARLOOK_INVALID_ARGUMENT, "there are not as many of each as there are keys");
  return 0;
}

// Takes the array's rows, one for each item.
static int take_rows(Pending* pending, PyObject* object) {
  Bytes* const array = &pending->array;
  if (!take_writable(object, array)) return 0;
  if (array->view.ndim < 2 || array->view.shape[0] != pending->count) {
    raise_code(FARLOOK_INVALID_ARGUMENT, "get_rows() wants an array with a row for each key");
    return 0;
  }
  for (Py_ssize_t i = 0; i < pending->count; ++i) {
    Bytes* const row = &pending->items[i].memory;
    row->bytes = array->bytes / (size_t)pending->count;
    row->data = (const char*)array->data + (size_t)i * row->bytes;
  }
  return 1;
}

// Takes the second argument of each key: memory, to the items; or numbers, to numbers[], possibly one for all keys.
static int take_others(Pending* pending, PyObject* others, int64_t* numbers) {
  const Kind* const kind = pending->kind;
  if (kind->memory == 3) return take_rows(pending, others);
  if (kind->memory != 0) {
    Column column;
    if (!take_column(others, kind->memory == 2, &column)) return 0;
    const int fits = column.count == pending->count;
    for (Py_ssize_t i = 0; fits && i < column.count; ++i) {
      pending->items[i].memory = column.items[i];
      memset(&column.items[i], 0, sizeof column.items[i]);
    }
    release_column(&column);
    return fits || not_as_many();
  }
  if (PyLong_Check(others)) {
    if (!take_number(others, &numbers[0])) return 0;
    for (Py_ssize_t i = 1; i < pending->count; ++i) numbers[i] = numbers[0];
    return 1;
  }
  PyObject* const list = PySequence_List(others);
  int fine = list != NULL && (PyList_Size(list) == pending->count || not_as_many());
  for (Py_ssize_t i = 0; fine && i < pending->count; ++i) fine = take_number(PyList_GetItem(list, i), &numbers[i]);
  Py_XDECREF(list);
  return fine;
}

static int prepare_all(Pending* pending, const Column* keys, const int64_t* numbers, const farlook_options* options,
                       farlook_operation** operations) {
  for (Py_ssize_t i = 0; i < pending->count; ++i) {
    Item* const item = &pending->items[i];
    const int code = pending->kind->prepare(item->operation, &keys->items[i], &item->memory, &numbers[i], options);
    if (code != FARLOOK_OK) {
      raise_error(code);
      return 0;
    }
    operations[i] = item->operation;
  }
  return 1;
}

// _start_many(token, kind, keys, [others], **options). Returns the number of operations that were started; without any,
// _poll() never returns the call.
static PyObject* _start_many_(ARGUMENTS) {
  static const char* const names[] = {"keys", "others"};
  PyObject* args[2];
  Options options;
  Column keys;
  int started = 0;
  long long token;
  const Kind* const kind = take_call(values, count, &token);
  if (kind == NULL) return NULL;
  const Signature signature = {kind->signature.name, names, kind->signature.most > 1 ? 2 : 1, 2, NULL};
  if (!take_arguments(&signature, values + 2, count - 2, keywords, args, &options)) return NULL;
  PyObject* result = NULL;
  Pending* pending = NULL;
  int64_t* numbers = NULL;
  farlook_operation** operations = NULL;
  if (!take_column(args[0], 0, &keys)) goto end;
  if ((pending = new_pending(kind, token, keys.count)) != NULL) {
    pending->is_batch = 1;
    numbers = PyMem_Calloc((size_t)keys.count + 1, sizeof *numbers);
    operations = PyMem_Calloc((size_t)keys.count + 1, sizeof *operations);
  }
  if (pending == NULL || pending->count < keys.count || numbers == NULL || operations == NULL) {
    PyErr_NoMemory();
  } else if ((signature.least == 1 || take_others(pending, args[1], numbers)) &&
             prepare_all(pending, &keys, numbers, options.handle, operations)) {
    const Py_ssize_t keys_count = keys.count;
    started = keys_count > 0 && start((Client*)self_, pending, operations);
    if (started || keys_count == 0) result = PyLong_FromSsize_t(keys_count);
  }
  release_column(&keys);
end:
  PyMem_Free(numbers);
  PyMem_Free(operations);
  farlook_options_free(options.handle);
  if (!started && pending != NULL) free_pending(pending);
  return result;
}

// ---- Results.

static PyObject* result_of(const Pending* pending, const Item* item) {
  const int code = farlook_operation_code(item->operation);
  if (pending->kind->memory == 3 && code == FARLOOK_OK &&
      farlook_operation_bytes(item->operation) != item->memory.bytes) {
    return raise_code(FARLOOK_OUT_OF_RANGE, "a value is shorter than a row of the array");
  }
  return pending->kind->result(item->operation, code);
}

// Returns the results of a batch, or the exception of the first that failed.
static PyObject* results_of(const Pending* pending) {
  PyObject* const list = PyList_New(pending->count);
  for (Py_ssize_t i = 0; list != NULL && i < pending->count; ++i) {
    PyObject* const result = result_of(pending, &pending->items[i]);
    if (result == NULL || PyList_SetItem(list, i, result) < 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

// Returns (token, whether it succeeded, its result or the exception); frees the call.
static PyObject* ended(Pending* pending) {
  PyObject* result = pending->is_batch ? results_of(pending) : result_of(pending, &pending->items[0]);
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

// Moves finished calls to *done, in the order in which they ended. Returns their number, or a code.
static int poll_all(Client* self, Pending** done) {
  enum { kRoom = 64 };
  farlook_operation* operations[kRoom];
  int count, calls = 0;
  do {
    count = farlook_poll(self->client, operations, kRoom);
    for (int i = 0; i < count; ++i) {
      Pending* const pending = ((Item*)farlook_operation_tag(operations[i]))->call;
      if (--pending->left > 0) continue;
      unlink_pending(pending);
      pending->next = NULL;
      *done = pending;
      done = &pending->next;
      ++calls;
    }
  } while (count == kRoom);
  return count < 0 ? count : calls;
}

static PyObject* _poll_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  Pending* done = NULL;
  int code;
  if (!enter(self, NULL)) return NULL;
  UNLOCKED(code = poll_all(self, &done));
  leave(self, FARLOOK_OK);
  PyObject* list = code < 0 ? raise_error(code) : PyList_New(code);
  for (Py_ssize_t i = 0; done != NULL; ++i) {
    Pending* const pending = done;
    done = done->next;
    PyObject* const told = list != NULL ? ended(pending) : (free_pending(pending), NULL);
    if (told == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SetItem(list, i, told);
  }
  return list;
}

// Returns the milliseconds to wait for _fd() to be readable, -1 for ever; None: poll at once.
static PyObject* _arm_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  if (!enter(self, NULL)) return NULL;
  const int armed = farlook_arm(self->client);
  const int64_t wait_ms = armed == 1 ? farlook_wait_ms(self->client) : 0;
  leave(self, FARLOOK_OK);
  if (armed < 0) return raise_error(armed);
  return armed == 1 ? PyLong_FromLongLong(wait_ms) : Py_NewRef(Py_None);
}

static PyObject* _fd_(PyObject* self_, PyObject* unused) {
  (void)unused;
  Client* const self = (Client*)self_;
  if (!enter(self, NULL)) return NULL;
  const int fd = farlook_fd(self->client);
  leave(self, FARLOOK_OK);
  return fd < 0 ? raise_error(fd) : PyLong_FromLong(fd);
}

PyMethodDef operation_methods[] = {
    METHOD(_start, "token, kind, *args, **options", "For farlook.aio: starts an operation that is known by a token."),
    METHOD(_start_many, "token, kind, keys, others=None, **options", "For farlook.aio: the same of a batch."),
    PLAIN_METHOD(_poll, "For farlook.aio: (token, succeeded, result or exception) of those that ended."),
    PLAIN_METHOD(_arm, "For farlook.aio: milliseconds to wait for _fd(); None: poll at once."),
    PLAIN_METHOD(_fd, "For farlook.aio: the descriptor to wait for."),
    {NULL, NULL, 0, NULL},
};
