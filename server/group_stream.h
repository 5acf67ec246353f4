// The stream of a group's primary, for all of its threads: workers append (commit_gate.h), whoever talks to backups
// takes batches and says what they accepted.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_GROUP_STREAM_H_
#define FARLOOK_SERVER_GROUP_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "cluster/stream.h"
#include "kv/handshake.h"
#include "server/commit_gate.h"
#include "server/feed.h"

namespace farlook::server {

class GroupStream final : public RecordStream, public RecordSource {
 public:
  // Takes nothing before Lead().
  explicit GroupStream(size_t most_bytes) : most_bytes_(most_bytes) {}
  // As of cluster::OutgoingStream, without members yet.
  GroupStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail,
              size_t most_bytes);

  // Called, without a lock of its own, when committed() has grown, or there is room for a record after one was refused.
  // REQUIRES that no other thread uses the stream yet.
  void OnAdvanced(std::function<void()> advanced) { advanced_ = std::move(advanced); }
  // Called when there is something to send.
  void OnAppended(std::function<void()> appended) { appended_ = std::move(appended); }

  // Called when kept_bytes() is as little as AwaitRoom() asked for.
  void OnRoom(std::function<void()> room) { room_ = std::move(room); }

  // Of one that becomes primary: the stream goes on with record `next`, after `tail`, which is not known to be
  // committed. The other members are expected.
  void Lead(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail = {},
            const std::vector<uint64_t>& members = {});
  // It is primary no more: as before Lead().
  void Cease();

  using RecordStream::Append;
  uint64_t Append(absl::Span<const cluster::Record> records) override;
  uint64_t committed() const override { return committed_.load(std::memory_order_seq_cst); }
  uint64_t last() const;
  size_t kept_bytes() const;  // of records that somebody has not accepted
  // False: there are no more than `most_bytes`. Else OnRoom() says when an acceptance has made it so.
  bool AwaitRoom(size_t most_bytes);

  // Rule 4 of docs/cluster.md, from now on: Member::MustAccept(). Before it is called nothing is committed.
  void SetMembers(std::vector<uint64_t> must_accept);
  void EnterEpoch(uint64_t epoch);

  // Who may follow: members, and joiners that are to be filled. Whoever followed and is not among them is forgotten.
  void Expect(const std::vector<uint64_t>& backups);
  void Forget(uint64_t backup);
  // Who follows, or did and is expected to come again.
  struct Follower {
    uint64_t connection = 0;  // its last; 0: it has none
    std::string address;      // of one that joins
    uint64_t move = 0;        // it takes slots, as of kv::Follow; 0: it does not
    std::string taker;        // likewise
    bool waits = false;       // it joins, and is not filled yet
    uint64_t from = 0;        // it heard all records after this one
    uint64_t items = 0;       // as Begin() was told
    uint64_t accepted = 0;
  };
  std::map<uint64_t, Follower> followers() const;

  // One that waits hears all from now on; one that takes slots is told that they have about `items` items.
  // FAILED_PRECONDITION: it is gone.
  absl::StatusOr<uint64_t> Begin(uint64_t joiner, uint64_t items = 0);

  // Who joins (Follow::address) is expected from now on; a member cannot join.
  absl::StatusOr<FeedId> Admit(const kv::Follow& follow) override;
  absl::StatusOr<std::optional<Start>> StartOf(const FeedId& feed) override;
  absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(const FeedId& feed, size_t most_bytes,
                                                                  uint64_t clock_us, bool alone) override;
  absl::Status Accepted(const FeedId& feed, uint64_t accepted) override;
  void Gone(const FeedId& feed) override;

 private:
  // Whether its acceptances count.
  bool IsMember(uint64_t backup) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: it is another connection's, or nobody's.
  Follower* Current(const FeedId& feed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether somebody waits for what has become of the stream.
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<cluster::OutgoingStream> stream_ ABSL_GUARDED_BY(mutex_);  // null: it is no primary
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<std::vector<uint64_t>> must_accept_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Follower> expected_ ABSL_GUARDED_BY(mutex_);  // by incarnation
  uint64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t refused_at_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // were kept when a record was refused; 0: none was
  std::optional<size_t> awaited_bytes_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> committed_{0};
  std::function<void()> advanced_;
  std::function<void()> appended_;
  std::function<void()> room_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_STREAM_H_
