// How a primary sees one of its backups, or one that joins: whether it is to be given up, and why.
//
// Time counts as far as the primary itself saw it pass: one that stood still blames nobody for what it did not hear.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_BACKUP_WATCH_H_
#define FARLOOK_SERVER_BACKUP_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farlook::server {

class BackupWatch {
 public:
  static constexpr absl::Duration kGone = absl::Milliseconds(500);
  static constexpr absl::Duration kStandstill = absl::Seconds(3);
  // In which it must have accepted whatever there was: so long a write waits for it at most.
  static constexpr absl::Duration kSlow = absl::Seconds(5);
  // Between two looks more time than this did not pass for the primary.
  static constexpr absl::Duration kMostOfALook = absl::Milliseconds(50);

  // As it is seen now.
  struct Look {
    bool is_connected = false;
    bool waits = false;               // to be filled, and is told nothing
    uint64_t accepted = 0, last = 0;  // records: that it accepted, that there are
    bool may_be_slow = false;         // one that is filled has much to take
  };

  // To be called in each turn. Why it is to be given up; empty: it is not.
  absl::string_view See(const Look& look, absl::Time now) {
    const absl::Duration passed = std::clamp(now - seen_at_, absl::ZeroDuration(), kMostOfALook);
    seen_at_ = now;
    gone_ = look.is_connected ? absl::ZeroDuration() : gone_ + passed;
    // Also of one that is not connected: who comes and goes makes writes wait as well.
    const bool is_behind = !look.waits && look.accepted < look.last;
    stood_ = !is_behind || look.accepted != accepted_ ? absl::ZeroDuration() : stood_ + passed;
    accepted_ = look.accepted;
    if (!is_behind || look.may_be_slow || look.accepted >= must_reach_) {
      must_reach_ = look.last;
      behind_ = absl::ZeroDuration();
    } else {
      behind_ += passed;
    }
    if (gone_ >= kGone) return "it is not connected";
    if (stood_ >= kStandstill) return "it accepts nothing";
    if (behind_ >= kSlow) return "it is too slow";
    return "";
  }

 private:
  absl::Time seen_at_ = absl::InfiniteFuture();
  absl::Duration gone_, stood_, behind_;  // for how long
  uint64_t accepted_ = 0;                 // at the last look
  uint64_t must_reach_ = 0;               // the last record there was when it had last accepted all before
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BACKUP_WATCH_H_
