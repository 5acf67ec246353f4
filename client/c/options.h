// Options of the C library: one object for all calls, whose fields are set by name.
#ifndef FARLOOK_CLIENT_C_OPTIONS_H_
#define FARLOOK_CLIENT_C_OPTIONS_H_

#include <cstdint>

#include "client/operation.h"
#include "farlook/options.h"

// What was set, one bit each, so that a call refuses what is not for it. Those of Connect alone share one.
enum FarlookOption : uint32_t {
  kFarlookTimeout = 1,
  kFarlookCondition = 2,
  kFarlookTtl = 4,
  kFarlookKeepTtl = 8,
  kFarlookKeep = 16,
  kFarlookRefill = 32,
  kFarlookExactlyOnce = 64,
  kFarlookConnect = 128,
};

struct farlook_options {
  uint32_t set = 0;
  farlook::ClientOptions connect;  // timeout_ms too
  farlook::PutOptions put;         // a delete's condition, and a new counter's ttl, too
  bool exactly_once = false;
};

namespace farlook::c {

// Whether `options`, which may be null, has nothing beyond `allowed`. Else it fails: returns a code.
int CheckOptions(const farlook_options* options, uint32_t allowed);

// Gives an operation, whose kind is set, the options of the call: OK, or a code. Null: their defaults.
int TakeOptions(const farlook_options* options, client::Operation* operation);

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_OPTIONS_H_
