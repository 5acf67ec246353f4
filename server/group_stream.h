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
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "cluster/record.h"
#include "cluster/stream.h"
#include "kv/handshake.h"
#include "server/commit_gate.h"
#include "server/feed.h"

namespace farlook::server {

class GroupStream final : public RecordStream, public RecordSource {
 public:
  // As of cluster::OutgoingStream, without members yet.
  GroupStream(uint64_t epoch, uint64_t primary, uint64_t next, std::deque<cluster::Record> tail, size_t most_bytes);

  // Called, without a lock of its own, when committed() has grown. REQUIRES that no other thread uses the stream yet.
  void OnAdvanced(std::function<void()> advanced) { advanced_ = std::move(advanced); }
  // Called when there is something to send.
  void OnAppended(std::function<void()> appended) { appended_ = std::move(appended); }

  uint64_t Append(const Record& record) override;
  uint64_t committed() const override { return committed_.load(std::memory_order_acquire); }
  uint64_t last() const;

  // Rule 4 of docs/cluster.md, from now on: Member::MustAccept().
  void SetMembers(std::vector<uint64_t> must_accept);
  void EnterEpoch(uint64_t epoch);

  // As of cluster::OutgoingStream.
  absl::Status Follow(uint64_t backup, uint64_t accepted);
  void Forget(uint64_t backup);
  std::string NextBatch(uint64_t backup, size_t most_bytes) override;
  absl::Status Accepted(uint64_t backup, uint64_t accepted) override;

  // Who may follow: members, and joiners that are to be filled.
  void Expect(std::vector<uint64_t> backups);
  absl::Status Admit(const kv::Follow& follow) override;

 private:
  void Commit() ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  cluster::OutgoingStream stream_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> must_accept_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> expected_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> committed_;
  std::function<void()> advanced_;
  std::function<void()> appended_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_STREAM_H_
