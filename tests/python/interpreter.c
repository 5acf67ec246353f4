/* CPython with the module farlook._farlook inside, so that the program begins with the address sanitizer, and all that it
 * allocates and copies goes through it: asan_test.py. */
#include <Python.h>

PyMODINIT_FUNC PyInit__farlook(void);

int main(int argc, char** argv) {
  if (PyImport_AppendInittab("farlook._farlook", PyInit__farlook) != 0) return 1;
  return Py_BytesMain(argc, argv);
}
