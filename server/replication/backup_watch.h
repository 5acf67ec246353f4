// Decides when a primary gives up a backup or a joiner, and why.
//
// Only time during which the primary itself ran counts: after its own pause it does not blame a backup for silence.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_REPLICATION_BACKUP_WATCH_H_
#define FARLOOK_SERVER_REPLICATION_BACKUP_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farlook::server {

class BackupWatch {
 public:
  // Time in which one whose connection has ended may connect again, unless its process has ended.
  static constexpr absl::Duration kGone = absl::Milliseconds(500);
  static constexpr absl::Duration kStandstill = absl::Seconds(3);
  // Time in which it must accept all records that existed: the longest that a write waits for it.
  static constexpr absl::Duration kSlow = absl::Seconds(5);
  // Time that counts at most between two calls: a longer gap was a pause of the primary.
  static constexpr absl::Duration kMostOfALook = absl::Milliseconds(50);

  static constexpr absl::string_view kLeaves = "it leaves";

  // The backup's present state.
  struct Look {
    bool is_connected = false;
    bool leaves = false;                                 // it asked to be removed
    bool has_ended = false;                              // its process has ended, or none answers at its address
    uint64_t heard = 0;                                  // messages that it sent
    absl::Duration patience = absl::InfiniteDuration();  // silence, while it is connected, until it is given up
    uint64_t refused = 0;             // times that it connected, in an earlier epoch than the primary's
    bool waits = false;               // to be filled: it is sent nothing yet
    uint64_t accepted = 0, last = 0;  // sequences: accepted by it, and of the stream's last record
    bool may_be_slow = false;         // a backup that is being filled has much to accept
  };

  // Updates the state; called in each turn. Returns why the backup must be given up; empty: it need not be.
  absl::string_view See(const Look& look, absl::Time now) {
    const absl::Duration passed = std::clamp(now - seen_at_, absl::ZeroDuration(), kMostOfALook);
    seen_at_ = now;
    // One that is only behind in epochs is there: its directory is slow.
    const bool is_there = look.is_connected || look.refused != refused_;
    refused_ = look.refused;
    // It is heard several times within its patience. So a pause of the primary's other threads counts a part only.
    const bool is_silent = look.is_connected && look.heard == heard_;
    silent_ = is_silent ? silent_ + std::min(passed, look.patience / 4) : absl::ZeroDuration();
    heard_ = look.heard;
    gone_ = is_there ? absl::ZeroDuration() : gone_ + passed;
    // This also counts while it is disconnected: one that reconnects again and again also delays writes.
    const bool is_behind = !look.waits && look.accepted < look.last;
    stood_ = !is_behind || look.accepted != accepted_ ? absl::ZeroDuration() : stood_ + passed;
    accepted_ = look.accepted;
    if (!is_behind || look.may_be_slow || look.accepted >= must_reach_) {
      must_reach_ = look.last;
      behind_ = absl::ZeroDuration();
    } else {
      behind_ += passed;
    }
    if (look.leaves) return kLeaves;
    if (!is_there && look.has_ended) return "its process has ended";
    if (gone_ >= kGone) return "it is not connected";
    if (silent_ >= look.patience) return "it is silent";
    if (stood_ >= kStandstill) return "it accepts nothing";
    if (behind_ >= kSlow) return "it is too slow";
    return "";
  }

  // Returns how long records are missing that existed when it last had all records.
  absl::Duration behind() const { return behind_; }
  // Returns how long it has not been connected.
  absl::Duration gone() const { return gone_; }

 private:
  absl::Time seen_at_ = absl::InfiniteFuture();
  absl::Duration gone_, silent_, stood_, behind_;
  uint64_t heard_ = 0;       // at the last call
  uint64_t refused_ = 0;     // at the last call
  uint64_t accepted_ = 0;    // at the last call
  uint64_t must_reach_ = 0;  // the stream's last record at the time when it last had all records
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_BACKUP_WATCH_H_
