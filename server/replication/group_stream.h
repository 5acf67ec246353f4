// The stream of a group's primary, shared by its threads. Workers append records (commit_gate.h), and send batches to
// the connected backups.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_REPLICATION_GROUP_STREAM_H_
#define FARLOOK_SERVER_REPLICATION_GROUP_STREAM_H_

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
#include "kv/wire/handshake.h"
#include "server/replication/record_stream.h"
#include "server/replication/replication_feed.h"
#include "server/replication/room_budget.h"

namespace farlook::server {

class GroupStream final : public RecordStream, public RecordSource {
 public:
  // Takes no records before Lead().
  explicit GroupStream(size_t most_bytes) : most_bytes_(most_bytes) {}
  // See cluster::OutgoingStream. It has no members yet.
  GroupStream(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail,
              size_t most_bytes);

  // Sets the function that is called, with no lock held, when followers() has news: one connects, its connection ends,
  // or it leaves; and when kept_bytes() has fallen to the limit of AwaitRoom().
  void OnNews(std::function<void()> news) { news_ = std::move(news); }

  // Begins when the server becomes primary: continues with record `next`, after `tail`, which may not be committed. The
  // other members are expected to connect.
  void Lead(uint64_t epoch, uint64_t primary, uint64_t next, const std::deque<cluster::Record>& tail = {},
            const std::vector<uint64_t>& members = {});
  // Ends when the server is no longer primary: returns to the state before Lead().
  void Cease();

  using RecordStream::Append;
  uint64_t Append(absl::Span<const cluster::Record> records, Growth growth = {}) override;
  bool HasRoomFor(uint64_t bytes) const override { return budget_.HasRoomFor(bytes); }
  uint64_t committed() const override { return committed_.load(std::memory_order_seq_cst); }
  uint64_t last() const;
  size_t kept_bytes() const;  // of records that some follower has not accepted
  // Returns false if no more than `most_bytes` are kept. Otherwise the function of OnNews() is called once an
  // acceptance has brought it down to that.
  bool AwaitRoom(size_t most_bytes);

  // Sets the members whose acceptance a commit needs: rule 4 of docs/cluster-design.md, Member::MustAccept(). Nothing
  // is committed before the first call.
  void SetMembers(std::vector<uint64_t> must_accept);
  void EnterEpoch(uint64_t epoch);
  // Sets the record that followers of an earlier epoch are refused with.
  void SetRecord(uint64_t revision, std::string record);

  // Sets the backups that may follow: members, and joiners that will be filled. All other followers are forgotten.
  void Expect(const std::vector<uint64_t>& backups);
  void Forget(uint64_t backup);
  // A backup that follows, or is expected to connect again.
  struct Follower {
    uint64_t connection = 0;  // its last connection; 0: none
    std::string address;      // of a joiner
    uint64_t move = 0;        // if it takes slots: see kv::Follow; else 0
    std::string taker;        // if it takes slots: see kv::Follow
    bool waits = false;       // a joiner that is not being filled yet
    uint64_t from = 0;        // all records after this one are sent to it
    uint64_t items = 0;       // the argument of Begin()
    uint64_t accepted = 0;
    uint64_t refused = 0;     // times that it connected and was refused, as it followed an earlier epoch
    uint64_t heard = 0;       // messages, and connections
    uint32_t silence_ms = 0;  // its longest silence while it is connected, as it said; 0: it did not
    bool leaves = false;      // it asked to be removed
  };
  std::map<uint64_t, Follower> followers() const;

  // Begins to send records to a joiner that waits, and returns the record after which it receives all. A group that
  // takes slots also receives `items`, about the number of their items. FAILED_PRECONDITION: it no longer waits.
  absl::StatusOr<uint64_t> Begin(uint64_t joiner, uint64_t items = 0);

  // Admits a follower. A joiner (Follow::address) is expected from then on; a member cannot join.
  absl::StatusOr<FeedId> Admit(const kv::Follow& follow) override;
  Known known() const override;
  absl::StatusOr<std::optional<Start>> StartOf(const FeedId& feed) override;
  absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(const FeedId& feed, size_t most_bytes,
                                                                  uint64_t clock_us, bool alone) override;
  absl::Status Accepted(const FeedId& feed, const Acceptance& acceptance) override;
  void Gone(const FeedId& feed) override;

 private:
  // Returns whether a commit needs its acceptance.
  bool IsMember(uint64_t backup) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the follower of this connection; null if it has a later one, or is not expected.
  Follower* Current(const FeedId& feed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell() const {
    if (news_) news_();
  }
  // Updates committed() and the room. Returns whether a thread may wait for the change.
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<cluster::OutgoingStream> stream_ ABSL_GUARDED_BY(mutex_);  // null: not primary
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  Known known_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::vector<uint64_t>> must_accept_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Follower> expected_ ABSL_GUARDED_BY(mutex_);  // by incarnation
  RoomBudget budget_;                                              // changed with the mutex held
  uint64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t refused_at_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // kept when a record was refused; 0: none was
  std::optional<size_t> awaited_bytes_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> committed_{0};
  std::function<void()> news_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_GROUP_STREAM_H_
