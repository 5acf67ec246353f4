// The record of one step of a scan (kv/read/scan.h): Kind::kScan.
#ifndef FARLOOK_CLIENT_OP_SCAN_OPERATION_H_
#define FARLOOK_CLIENT_OP_SCAN_OPERATION_H_

#include <cstdint>

#include "client/op/operation.h"
#include "kv/read/scan.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {

struct ScanOperation : Operation {
  ScanOperation() { kind = Kind::kScan; }

  // In.
  kv::ScanPart part;
  kv::ScanFilter filter;
  uint64_t most_bytes = 0;  // of items to READ at once, unless one bucket has more

  // Out, if the status is OK.
  kv::ScanFound found;
  kv::ScanPart covered;      // the beginning of `part`
  uint64_t hash_seed = 0;    // of the table
  uint64_t now_us = 0;       // the server's clock shows at most this
  kv::SlotWords slots = {};  // of the cluster, that the group had in the epoch in which `found` is believed

  // Out: all that was READ for it.
  uint64_t read_bytes = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_SCAN_OPERATION_H_
