// The stream of a group's primary on one connection, as a worker sends it to a connected backup.
//
//     backup: Hello, with authentication, as any client that watches -> primary, or promoter: Welcome
//             kv::Follow -> kv::Follow, or a Refusal. If there are users, the role admin is required. The answer to a
//             member may name an earlier record than its last: it then discards all records after that one
//             <- batches (cluster/record.h), one after the other, each split into as many messages as it needs
//             acceptances -> each with the room that is left beside what is accepted (Acceptance): u64 accepted,
//             u64 free bytes, u64 longest free piece, u32 flags, u32 silence in ms. A backup that stops in order sets
//             the flag kLeaves, and follows until the group's record lacks it
//             <- between two batches: the reply to an acceptance that asks for one (a ping), u64: its record
#ifndef FARLOOK_SERVER_REPLICATION_REPLICATION_FEED_H_
#define FARLOOK_SERVER_REPLICATION_REPLICATION_FEED_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/stream.h"
#include "kv/layout/words.h"
#include "kv/wire/handshake.h"
#include "kv/wire/room.h"

namespace farlook::server {

// A backup on one of its connections. A later connection replaces an earlier one.
struct FeedId {
  uint64_t backup = 0;
  uint64_t connection = 0;
};

// A backup's message: all records up to `accepted` are accepted.
struct Acceptance {
  static constexpr size_t kBytes = 32, kAnswerBytes = 8;
  static constexpr uint32_t kAsks = 1, kLeaves = 2;  // flags

  uint64_t accepted = 0;
  kv::Room room = {};       // beside these records
  bool asks = false;        // for an answer
  bool leaves = false;      // the backup asks to be removed from the group, and follows until it is
  uint32_t silence_ms = 0;  // the backup sends a message at least this often; 0: not said

  std::array<char, kBytes> Encode() const {
    std::array<char, kBytes> bytes;
    kv::StoreAs(bytes.data(), accepted);
    kv::StoreAs(bytes.data() + 8, room.bytes);
    kv::StoreAs(bytes.data() + 16, room.longest_bytes);
    kv::StoreAs(bytes.data() + 24, uint32_t{asks ? kAsks : 0} | uint32_t{leaves ? kLeaves : 0});
    kv::StoreAs(bytes.data() + 28, silence_ms);
    return bytes;
  }
  // Nothing: it has another length.
  static std::optional<Acceptance> Decode(absl::string_view bytes) {
    if (bytes.size() != kBytes) return std::nullopt;
    const auto flags = kv::LoadAs<uint32_t>(bytes.data() + 24);
    return Acceptance{.accepted = kv::LoadAs<uint64_t>(bytes.data()),
                      .room = {kv::LoadAs<uint64_t>(bytes.data() + 8), kv::LoadAs<uint64_t>(bytes.data() + 16)},
                      .asks = (flags & kAsks) != 0,
                      .leaves = (flags & kLeaves) != 0,
                      .silence_ms = kv::LoadAs<uint32_t>(bytes.data() + 28)};
  }
};

// Source of the batches. Thread safety: any thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Admits a follower. PERMISSION_DENIED: it may not follow. FAILED_PRECONDITION: its epoch differs, or the records it
  // lacks are no longer kept.
  virtual absl::StatusOr<FeedId> Admit(const kv::Follow& follow) = 0;
  // The group's record as in the directory, for a follower of an earlier epoch. Revision 0: it is not known, or too
  // long for a refusal.
  struct Known {
    uint64_t revision = 0;
    std::string record = {};
  };
  virtual Known known() const = 0;
  struct Start {
    uint64_t after = 0;  // it is sent all records after this one
    uint64_t items = 0;  // see kv::Follow
  };
  // Returns nothing while a joiner waits to be filled, as a spare does until it is needed. ABORTED: see NextBatch().
  virtual absl::StatusOr<std::optional<Start>> StartOf(const FeedId& feed) = 0;
  // See cluster::OutgoingStream; returns nothing for a joiner that waits. `clock_us`: time of the server's clock.
  // ABORTED: a later connection has replaced this one, or the backup may no longer follow.
  virtual absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(const FeedId& feed, size_t most_bytes,
                                                                          uint64_t clock_us, bool alone) = 0;
  virtual absl::Status Accepted(const FeedId& feed, const Acceptance& acceptance) = 0;
  // Reports that the connection is closed.
  virtual void Gone(const FeedId& feed) = 0;
};

// State of one connection. Thread safety: none; belongs to its worker.
struct ReplicationFeed {
  // Size up to which records are put into one batch. A longer record is a batch by itself.
  static constexpr size_t kBatchBytes = 64 << 10;
  // Delay after which a commit is sent to the backup, if no record carries it earlier. No request waits for the backup
  // to publish, and each message costs both sides a wake-up.
  static constexpr int64_t kCommitNoticeNs = 1'000'000;

  ReplicationFeed(const FeedId& of, kv::Follow request) : id(of), follow(std::move(request)) {}

  const FeedId id;
  kv::Follow follow;                                 // as received, and then the answer
  bool is_begun = false;                             // the answer was sent
  std::optional<cluster::OutgoingBatch> batch = {};  // being sent: its head already was
  size_t sent = 0;                                   // bytes of its records
  uint64_t accepted = 0;                             // as last received
  bool is_asked = false;                             // a ping was received: send an answer
  uint64_t sent_commit = 0;                          // committed sequence, at least, of the last batch
  int64_t commit_notice_ns = 0;                      // when later commits must be sent; 0: there are none
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_REPLICATION_FEED_H_
