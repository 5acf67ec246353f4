// Registered memory of Python objects: the client holds their buffers, so that they do not move.
#include "module.h"

struct Registered {
  Registered* next;
  Bytes memory;
};

void drop_registered(Client* self) {
  while (self->registered != NULL) {
    Registered* const first = self->registered;
    self->registered = first->next;
    release_bytes(&first->memory);
    PyMem_Free(first);
  }
}

static PyObject* register_(PyObject* self_, PyObject* object) {
  Client* const self = (Client*)self_;
  Registered* const registered = PyMem_Calloc(1, sizeof *registered);
  int code = FARLOOK_OK, entered = 0;
  if (registered == NULL) return PyErr_NoMemory();
  if (take_writable(object, &registered->memory) && (entered = enter(self, NULL))) {
    UNLOCKED(code = farlook_register(self->client, (void*)registered->memory.data, registered->memory.bytes));
    if (code == FARLOOK_OK) {
      registered->next = self->registered;
      self->registered = registered;
    }
    code = leave(self, code);
    if (code == FARLOOK_OK) Py_RETURN_NONE;
  }
  release_bytes(&registered->memory);
  PyMem_Free(registered);
  return entered ? raise_error(code) : NULL;
}

static PyObject* unregister_(PyObject* self_, PyObject* object) {
  Client* const self = (Client*)self_;
  Bytes memory = {0};
  Registered* gone = NULL;
  if (!take_writable(object, &memory)) return NULL;
  const int entered = enter(self, NULL);
  int code = FARLOOK_OK;
  if (entered) {
    UNLOCKED(code = farlook_unregister(self->client, memory.data));
    for (Registered** link = &self->registered; code == FARLOOK_OK && *link != NULL; link = &(*link)->next) {
      if ((*link)->memory.data != memory.data) continue;
      gone = *link;
      *link = gone->next;
      break;
    }
    code = leave(self, code);
  }
  release_bytes(&memory);
  if (gone != NULL) {
    release_bytes(&gone->memory);  // without the turn: releasing a buffer may run code
    PyMem_Free(gone);
  }
  if (!entered) return NULL;
  return code == FARLOOK_OK ? Py_NewRef(Py_None) : raise_error(code);
}

PyMethodDef memory_methods[] = {
    {"register", register_, METH_O, "register($self, memory, /)\n--\n\nHas values read into this memory, and pulled from it, without a copy."},
    {"unregister", unregister_, METH_O, "unregister($self, memory, /)\n--\n\nReleases memory that was registered."},
    {NULL, NULL, 0, NULL},
};
