// Options of the C library: one object for all calls, whose fields are set by name.
#ifndef FARLOOK_CLIENT_C_OPTIONS_H_
#define FARLOOK_CLIENT_C_OPTIONS_H_

#include <cstdint>

#include "client/op/operation.h"
#include "farlook/options.h"
#include "farlook/scan.h"

// One bit for each option that was set, so that a call refuses options of other calls. Options of Connect share one
// bit, and so do those of scans.
enum FarlookOption : uint32_t {
  kFarlookTimeout = 1,
  kFarlookCondition = 2,
  kFarlookTtl = 4,
  kFarlookKeepTtl = 8,
  kFarlookKeep = 16,
  kFarlookRefill = 32,
  kFarlookExactlyOnce = 64,
  kFarlookConnect = 128,
  kFarlookCreate = 256,
  kFarlookScan = 512,
};

struct farlook_options {
  uint32_t set = 0;
  farlook::ClientOptions connect;  // also timeout_ms
  farlook::PutOptions put;         // also a delete's condition, and a new counter's ttl
  bool exactly_once = false;
  bool create = false;
  int64_t initial = 0;
  farlook::ScanOptions scan;  // but for its prefix and timeout
};

namespace farlook::c {

// Returns FARLOOK_OK if `options`, which may be null, has only `allowed` ones; else a code.
int CheckOptions(const farlook_options* options, uint32_t allowed);

// Sets the options of an operation, whose kind is set; returns FARLOOK_OK or a code. Null: defaults.
int TakeOptions(const farlook_options* options, client::Operation* operation);

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_OPTIONS_H_
