// The stream of a group's primary on a connection: what a worker sends to a backup that has connected to it.
//
//     backup: kv::Follow -> primary: the same, or a Refusal
//             <- batches (cluster/record.h), one after the other, each cut to as many messages as it takes
//             acceptances -> u64 each: all up to this record is accepted
#ifndef FARLOOK_SERVER_FEED_H_
#define FARLOOK_SERVER_FEED_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kv/handshake.h"

namespace farlook::server {

// Where the batches come from. Thread safety: any thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // PERMISSION_DENIED: nobody who may follow. FAILED_PRECONDITION: it follows another epoch, or what it lacks is not
  // kept any more.
  virtual absl::Status Admit(const kv::Follow& follow) = 0;
  // As of cluster::OutgoingStream.
  virtual std::string NextBatch(uint64_t backup, size_t most_bytes) = 0;
  virtual absl::Status Accepted(uint64_t backup, uint64_t accepted) = 0;
};

// Of one connection. Thread safety: none; belongs to its worker.
struct Feed {
  // Records that are put into one batch, if they are no longer.
  static constexpr size_t kBatchBytes = 64 << 10;

  explicit Feed(uint64_t of) : backup(of) {}

  const uint64_t backup;
  std::string batch = {};  // that is being sent
  size_t sent = 0;         // of its bytes
};

inline constexpr size_t kAcceptedBytes = 8;

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_FEED_H_
