// The parameters and results of each kind of operation.
#ifndef FARLOOK_PYTHON_KINDS_H_
#define FARLOOK_PYTHON_KINDS_H_

#include "module.h"

// Functions that prepare an operation from arguments, and make an object from its result.
typedef struct {
  Signature signature;
  // No key: all arguments are numbers. Otherwise the first argument is a key.
  int keyless;
  // Type of the second argument: 1: a value; 2: a buffer; 3: an array, with the row as third argument; 0: a number, if
  // any.
  int memory;
  int (*prepare)(farlook_operation*, const Bytes* key, const Bytes* memory, const int64_t* numbers,
                 const farlook_options*);
  PyObject* (*result)(const farlook_operation*, int code);
} Kind;

// Returns NULL, with an exception set, if there is none of this name.
const Kind* kind_named(const char* name);

#endif  // FARLOOK_PYTHON_KINDS_H_
