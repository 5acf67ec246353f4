// Rules 8 and 9 of docs/cluster-design.md: which data of a group's primary a reader may accept, for one configuration.
//
// The reader READs the words of all members in rounds; `p` is its clock before it posts the READs of a round. A round
// in which all words were OPEN proves two things: only this primary served at p, and no other can serve within the
// lease from then on. The reason is that a successor first stores SHUT in one of these words, and then waits. So data
// that was READ from the primary's memory, or received from it, is accepted if it was complete by p + 0.99 leases. The
// hundredth allows for clocks that do not run at the same rate. An answer that came too late for one round waits for
// the next.
//
// Pure: no I/O. The caller passes times, in nanoseconds of a clock that continues while its machine is suspended.
#ifndef FARLOOK_KV_READ_READ_LEASE_H_
#define FARLOOK_KV_READ_READ_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kv/layout/epoch_word.h"

namespace farlook::kv {

// Thread safety: none.
class ReadLease {
 public:
  // For a configuration with `members` members. REQUIRES 0 < members <= 64, epoch > 0.
  ReadLease(uint64_t epoch, size_t members, int64_t lease_ns)
      : open_(EpochWord::Open(epoch)), all_(~uint64_t{0} >> (64 - members)), believed_ns_(lease_ns - lease_ns / 100) {}

  // Begins a round, replacing one in progress, and returns its number, from 1. `now_ns` was read before any READ of the
  // round is posted.
  uint64_t BeginRound(int64_t now_ns) {
    begun_ns_ = now_ns;
    seen_ = 0;
    return ++begun_;
  }

  // A READ of `round` completed and shows `word`.
  void WordRead(uint64_t round, size_t member, EpochWord word) {
    const uint64_t bit = uint64_t{1} << member;
    if (word != open_) {
      over_ = true;  // in any round: words of a finished epoch never return
    } else if (round == begun_) {
      seen_ |= bit;
      if (seen_ == all_) {
        proven_ = begun_;
        end_ns_ = begun_ns_ + believed_ns_;
      }
    }
  }

  // Returns whether a word differed: then nothing is accepted any more. The reader asks for the configuration. If it is
  // still this one (a proposal failed), the reader begins with another lease.
  bool over() const { return over_; }
  // Returns whether the last round showed all words OPEN.
  bool IsProven() const { return proven_ == begun_ && begun_ != 0; }
  // Rules 8 and 9: returns whether data that completed at this time is accepted, "not found" as well as a value. The
  // result may become true later.
  bool Believes(int64_t completed_ns) const { return !over_ && proven_ != 0 && completed_ns <= end_ns_; }

  // For readers that trust no clock: begun() is noted when an operation begins, and its result is accepted after a
  // later round.
  uint64_t begun() const { return begun_; }
  bool BelievesStrictly(uint64_t noted) const { return !over_ && proven_ > noted; }

 private:
  EpochWord open_;
  uint64_t all_;  // bits of members
  int64_t believed_ns_;
  bool over_ = false;
  uint64_t begun_ = 0, proven_ = 0;  // rounds
  int64_t begun_ns_ = 0;             // p of the last round
  uint64_t seen_ = 0;                // members whose words of that round were OPEN
  int64_t end_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_READ_LEASE_H_
