// Receiver of the batches of another server's stream, over a Follower's connection: a backup's table, or that of a
// group that takes slots.
#ifndef FARLOOK_SERVER_REPLICATION_RECORD_SINK_H_
#define FARLOOK_SERVER_REPLICATION_RECORD_SINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kv/wire/room.h"

namespace farlook::server {

// Thread safety: none.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Takes the new records of a batch. An error ends the connection.
  virtual absl::Status Take(std::string batch) = 0;
  // Discards the records after `to`, which the sender does not have. After an error it cannot continue.
  virtual absl::Status Cut(uint64_t to) = 0;
  // Returns the record up to which none need be sent again.
  virtual uint64_t accepted() const = 0;
  // Returns the room beside the accepted records, for records that need more memory than the items that they replace.
  virtual kv::Room room() const = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_RECORD_SINK_H_
