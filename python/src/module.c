// farlook._farlook, the module in C: the type Client, and the exceptions. The interface for users is
// python/farlook/__init__.py.
#include "module.h"

#include <string.h>

static void dealloc(PyObject* self_) {
  Client* const self = (Client*)self_;
  if (self->client != NULL) UNLOCKED(farlook_close(self->client));
  if (self->forks == farlook_python_forks) drop_pending(self);
  drop_registered(self);
  for (Py_ssize_t i = 0; i < self->values_count; ++i) farlook_value_free(self->values[i]);
  PyMem_Free(self->values);
  Py_XDECREF(self->address);
  pthread_mutex_destroy(&self->mutex);
  PyTypeObject* const type = Py_TYPE(self_);
  freefunc const release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self_);
  Py_DECREF(type);
}

// Both tables combined, as a type needs them.
static PyMethodDef methods[72];

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, client_properties},
    {Py_tp_doc, "A connection to a Farlook server. Threads may share it: they take turns."},
    {0, NULL},
};

static PyType_Spec spec = {
    "farlook._farlook.Client",
    sizeof(Client),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots,
};

static size_t add_methods(size_t place, const PyMethodDef* table) {
  for (; table->ml_name != NULL; ++table) methods[place++] = *table;
  return place;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "farlook._farlook", "Farlook's C library.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__farlook(void);

PyMODINIT_FUNC PyInit__farlook(void) {
  PyObject* const module = PyModule_Create(&definition);
  if (module == NULL) return NULL;
  static const PyMethodDef* const tables[] = {client_methods, batch_methods, operation_methods, memory_methods,
                                              scan_methods};
  size_t place = 0;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; ++i) place = add_methods(place, tables[i]);
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == NULL || PyModule_AddObjectRef(module, "Client", type) < 0 || !add_exceptions(module) ||
      PyModule_AddStringConstant(module, "version", farlook_version()) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  Py_DECREF(type);
  return module;
}
