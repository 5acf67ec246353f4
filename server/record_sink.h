// Who takes the batches of another server's stream, over a connection that Follower has: a backup's table, or that of a
// group which takes slots.
#ifndef FARLOOK_SERVER_RECORD_SINK_H_
#define FARLOOK_SERVER_RECORD_SINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace farlook::server {

// Thread safety: none.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Takes what is new in a batch. An error ends the connection.
  virtual absl::Status Take(std::string batch) = 0;
  // Forgets the records after `to`, which whoever sends them does not have. An error: it cannot go on.
  virtual absl::Status Cut(uint64_t to) = 0;
  // All records up to this one need not be sent again.
  virtual uint64_t accepted() const = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_RECORD_SINK_H_
