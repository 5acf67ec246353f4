// The version of all programs and libraries, defined only here. Programs print it with --version; the libraries have
// functions for it. Semantic versioning: docs/c.md states what stays compatible. Also valid C.
#ifndef FARLOOK_VERSION_H_
#define FARLOOK_VERSION_H_

#define FARLOOK_VERSION_MAJOR 0
#define FARLOOK_VERSION_MINOR 1
#define FARLOOK_VERSION_PATCH 0
#define FARLOOK_VERSION "0.1.0"

#endif  // FARLOOK_VERSION_H_
