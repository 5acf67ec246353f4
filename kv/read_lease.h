// What a reader of a group's primary may believe: rules 7 to 9 of docs/cluster.md, for one configuration.
//
// The reader READs the words of all members, round after round; `p` is its clock before it posts the READs of a round.
// A round in which all words were OPEN proves that none but this primary served at p, nor can one serve within the
// lease from then on: a successor first stores SHUT in a word of these, and then waits. So what was READ of the
// primary's memory, or answered by it, is believed if it was complete by p + 0.99 leases; the hundredth is for clocks
// that do not run alike. An answer that came too late for one round waits for the next.
//
// Pure: no I/O, and times are the caller's, nanoseconds of a clock that goes on while its machine is suspended.
#ifndef FARLOOK_KV_READ_LEASE_H_
#define FARLOOK_KV_READ_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kv/epoch_word.h"

namespace farlook::kv {

// Thread safety: none.
class ReadLease {
 public:
  // Of a configuration of `members`, of which `primary` is the index. REQUIRES primary < members <= 64, epoch > 0.
  ReadLease(uint64_t epoch, size_t members, size_t primary, int64_t lease_ns)
      : open_(EpochWord::Open(epoch)),
        all_(~uint64_t{0} >> (64 - members)),
        primary_(uint64_t{1} << primary),
        believed_ns_(lease_ns - lease_ns / 100) {}

  // Begins a round, in the place of one that is under way, and returns its number, from 1. `now_ns` was read before any
  // READ of the round is posted.
  uint64_t BeginRound(int64_t now_ns) {
    begun_ns_ = now_ns;
    seen_ = 0;
    return ++begun_;
  }

  // A READ of `round` completed and shows `word`.
  void WordRead(uint64_t round, size_t member, EpochWord word) {
    const uint64_t bit = uint64_t{1} << member;
    if (word != open_) {
      over_ = true;  // whichever round it is of: words of an epoch that is over do not come back
    } else if (round == begun_) {
      seen_ |= bit;
      if (seen_ == all_) {
        proven_ = begun_;
        end_ns_ = begun_ns_ + believed_ns_;
      }
    }
    if (word == open_ && bit == primary_) opened_ = true;
  }

  // A word was another one: nothing is believed any more. The reader asks for the configuration, and where that is
  // still this one (its proposal failed) begins with another lease.
  bool over() const { return over_; }
  // Whether the round that began last showed all words OPEN.
  bool IsProven() const { return proven_ == begun_ && begun_ != 0; }
  // Rule 7: whether READs of data may be posted.
  bool MayRead() const { return opened_ && !over_; }
  // Rule 8, and 9: whether what completed at this time is believed, "not found" like a value. It may become so later.
  bool Believes(int64_t completed_ns) const { return !over_ && proven_ != 0 && completed_ns <= end_ns_; }

  // Of those who trust no clock: begun() is noted when an operation begins, and what it got is believed after a later
  // round.
  uint64_t begun() const { return begun_; }
  bool BelievesStrictly(uint64_t noted) const { return !over_ && proven_ > noted; }

 private:
  EpochWord open_;
  uint64_t all_, primary_;  // bits of members
  int64_t believed_ns_;
  bool over_ = false, opened_ = false;
  uint64_t begun_ = 0, proven_ = 0;  // rounds
  int64_t begun_ns_ = 0;             // p of the round that began last
  uint64_t seen_ = 0;                // whose words of that round were OPEN
  int64_t end_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_LEASE_H_
