// The version of everything here: programs say it with --version, and the libraries to those who ask. It stands nowhere
// else. Semantic: docs/c.md says what is promised to stay as it is. For C too.
#ifndef FARLOOK_VERSION_H_
#define FARLOOK_VERSION_H_

#define FARLOOK_VERSION_MAJOR 0
#define FARLOOK_VERSION_MINOR 1
#define FARLOOK_VERSION_PATCH 0
#define FARLOOK_VERSION "0.1.0"

#endif  // FARLOOK_VERSION_H_
