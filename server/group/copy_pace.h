// The pace of a primary's copies: writes of clients come first in the stream.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_COPY_PACE_H_
#define FARLOOK_SERVER_GROUP_COPY_PACE_H_

#include <cstddef>

#include "absl/time/time.h"
#include "server/group/membership.h"
#include "server/replication/snapshot_sender.h"

namespace farlook::server {

class CopyPace {
 public:
  explicit CopyPace(Membership* membership) : membership_(membership) {}

  // Sends a few copies, or waits if many records are not accepted yet.
  SnapshotSender::Progress Step(SnapshotSender* sender) {
    GroupStream* const stream = membership_->stream();
    if (!sender->is_done() && stream->kept_bytes() > kCopiesAhead && membership_->Now() < step_at_ &&
        stream->AwaitRoom(kCopiesAhead / 2)) {
      return SnapshotSender::Progress::kWaits;
    }
    step_at_ = membership_->Now() + kLongestPause;
    return sender->Step(kBucketsOfAStep);
  }

 private:
  // Copies per step: few, so that the worker that sends them gets the processor before all of them are made.
  static constexpr size_t kBucketsOfAStep = 8;
  // Bytes of records that are not accepted yet. Above that copies wait, so that a copy is sent from the cache.
  static constexpr size_t kCopiesAhead = 1 << 20;
  // Copies go on after this time even if records of writes alone are that many.
  static constexpr absl::Duration kLongestPause = absl::Milliseconds(2);

  Membership* const membership_;
  absl::Time step_at_ = absl::InfinitePast();
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_COPY_PACE_H_
