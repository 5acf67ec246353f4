// The stream of a group's primary on a connection: what a worker sends to a backup that has connected to it.
//
//     backup: Hello, and proof of who it is, as of any client that watches -> primary, or promoter: Welcome
//             kv::Follow -> the same, or a Refusal; where there are users only one with the role admin may. The answer
//             to a member may name an earlier record than the last that it has: then it cuts off what it has after that
//             <- batches (cluster/record.h), one after the other, each cut to as many messages as it takes
//             acceptances -> u64 each: all up to this record is accepted
//             <- between two batches an acceptance that said nothing new, so that the backup hears that somebody is there
#ifndef FARLOOK_SERVER_FEED_H_
#define FARLOOK_SERVER_FEED_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/stream.h"
#include "kv/handshake.h"

namespace farlook::server {

// A backup on one of its connections. A later one takes its place.
struct FeedId {
  uint64_t backup = 0;
  uint64_t connection = 0;
};

// Where the batches come from. Thread safety: any thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // PERMISSION_DENIED: nobody who may follow. FAILED_PRECONDITION: it follows another epoch, or what it lacks is not
  // kept any more.
  virtual absl::StatusOr<FeedId> Admit(const kv::Follow& follow) = 0;
  struct Start {
    uint64_t after = 0;  // it is sent all records after this one
    uint64_t items = 0;  // as of kv::Follow
  };
  // Nothing: it joins, and waits for its turn to be filled, as a spare does until it is needed. ABORTED: as of
  // NextBatch().
  virtual absl::StatusOr<std::optional<Start>> StartOf(const FeedId& feed) = 0;
  // As of cluster::OutgoingStream, nothing for one that waits; `clock_us`: what the server's clock shows. ABORTED: a
  // later connection has taken this one's place, or the backup may not follow any more.
  virtual absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(const FeedId& feed, size_t most_bytes,
                                                                          uint64_t clock_us, bool alone) = 0;
  virtual absl::Status Accepted(const FeedId& feed, uint64_t accepted) = 0;
  // The connection is over.
  virtual void Gone(const FeedId& feed) = 0;
};

// Of one connection. Thread safety: none; belongs to its worker.
struct Feed {
  // Records that are put into one batch, if they are no longer.
  static constexpr size_t kBatchBytes = 64 << 10;
  // What was committed the backup hears with the next records, or after so long: it has nothing to do that somebody
  // waits for, and each message that it is sent costs both sides a wake-up.
  static constexpr int64_t kTellCommitNs = 1'000'000;

  Feed(const FeedId& of, kv::Follow said) : id(of), follow(std::move(said)) {}

  const FeedId id;
  kv::Follow follow;                                 // what it said, and then the answer
  bool is_begun = false;                             // it has its answer
  std::optional<cluster::OutgoingBatch> batch = {};  // that is being sent: its head was
  size_t sent = 0;                                   // of its records' bytes
  uint64_t accepted = 0;                             // as it told last
  bool is_asked = false;                             // it told the same again, and is to hear it
  uint64_t told_commit = 0;                          // what was committed, at least, when a batch was made last
  int64_t tell_commit_ns = 0;                        // when it is told what has been committed since; 0: nothing has
};

inline constexpr size_t kAcceptedBytes = 8;

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_FEED_H_
