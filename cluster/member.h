// One replica's part in its group: which word it shows, whether it may serve, accept, promote; rules 1 to 6 and 10 of
// docs/cluster.md.
//
// Pure: events in, actions out, in order; no threads, no clock, no network. Who runs it carries out the actions, and
// must not carry out one before those that came earlier are done: that SHUT is visible before the compare-and-swap is
// sent is rule 2.
#ifndef FARLOOK_CLUSTER_MEMBER_H_
#define FARLOOK_CLUSTER_MEMBER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "kv/epoch_word.h"

namespace farlook::cluster {

using kv::EpochWord;

struct Action {
  enum class Kind : uint8_t {
    kStoreWord,    // store `word`, then, if it is SHUT, tell the clock to Stored()
    kCas,          // of `record`, if the revision is `expected`; tell Swapped(), once, whatever else happened meanwhile
    kRead,         // Get() the latest record; tell Learn()
    kShareTail,    // have all members cut off what this log does not have, and accept all of it, in epoch(); tell
                   // TailAccepted(); whoever does not is to be removed
    kPublishTail,  // it, and the writes in it may be acknowledged after the next kServe
    kServe,        // writes and reads, as primary
    kStepDown,     // destroy all connections, zero the memory, and begin again as another incarnation
  };

  Kind kind = Kind::kRead;
  EpochWord word = {};
  uint64_t expected = 0;
  std::string record = {};
};

using Actions = std::vector<Action>;

// Thread safety: none.
class Member {
 public:
  enum class Role : uint8_t {
    kJoining,  // no member yet; a primary may fill it
    kBackup,
    kPromoting,  // the record names it primary, and it does not serve yet
    kPrimary,
    kDeposed,  // it was a member; this object is of no use any more
  };

  // REQUIRES incarnation != 0, that no process ever had.
  explicit Member(uint64_t incarnation) : incarnation_(incarnation) {}

  // ---- Events.

  // What the directory has, or had: old answers are ignored. FAILED_PRECONDITION: of another group; DATA_LOSS: the
  // record broke the rules. Then nothing changed.
  absl::Status Learn(uint64_t revision, const Configuration& configuration, Actions* actions);

  // Becomes the first primary of a group that is not in the directory, with itself as the only member.
  absl::Status Create(Configuration first, Actions* actions);
  // An operator says that all members are lost, for good: becomes primary of the group that is known, in the epoch
  // after theirs, with itself as the only member. FAILED_PRECONDITION: it is a member, or knows no group. `ended`: as
  // below.
  absl::Status BeginAnew(absl::string_view address, bool ended, Actions* actions);
  // Suspects the primary, and what else is `lost`, and proposes itself with the others. FAILED_PRECONDITION: it is no
  // backup in sync now, or proposes already. `ended`: the primary's memory can surely not be READ any more, as the
  // record may say itself, so that nobody needs to wait for leases; nor for those of epochs that the promoter goes on
  // to.
  absl::Status Promote(const std::vector<uint64_t>& lost, bool ended, Actions* actions);
  // Of the primary; Remove() of a promoter too. REQUIRES of Add() that the joiner accepted all that was published, and
  // that from now on it is one of MustAccept().
  absl::Status Remove(uint64_t incarnation, Actions* actions);
  absl::Status Add(Replica joiner, Actions* actions);
  // Of the primary. REQUIRES that of slots which the group will lose nothing is begun any more.
  absl::Status Reassign(const kv::SlotSet& slots, std::vector<Move> moves, Actions* actions);
  // Of the primary. INVALID_ARGUMENT: no group may have so many replicas, or so few. Who is too many stays a member.
  absl::Status Resize(uint32_t replicas, uint32_t min_insync, Actions* actions);

  // What the record of a primary that has left says next: REQUIRES that nobody can READ it any more. Nothing: it is no
  // primary, or the only member.
  static std::optional<Configuration> AfterLeaving(const Configuration& last, uint64_t incarnation);

  // The clock, READ after SHUT was stored.
  void Stored(absl::Time now, Actions* actions);
  void Swapped(const CasResult& result, Actions* actions);
  // To be called from time to time while is_proposing(): asks again, for the same, if no answer is awaited.
  void Retry(Actions* actions);
  // The tail of the former primary is accepted by all members in `epoch`.
  void TailAccepted(uint64_t epoch, absl::Time now, Actions* actions);
  void Tick(absl::Time now, Actions* actions);

  // ---- State.

  uint64_t incarnation() const { return incarnation_; }
  Role role() const { return role_; }
  EpochWord word() const { return word_; }
  // Of the configuration below; 0: none is known.
  uint64_t epoch() const { return configuration_.epoch; }
  uint64_t revision() const { return revision_; }
  const Configuration& configuration() const { return configuration_; }
  bool is_proposing() const { return proposal_.epoch != 0; }

  // Begins and publishes writes. While a proposal is pending too: what that may do is decided by MustAccept().
  bool Serves() const { return role_ == Role::kPrimary; }
  // Rule 5, for records that `primary` sent in `epoch`.
  bool Accepts(uint64_t primary, uint64_t epoch) const;
  // Rule 4: those, but itself, that must have accepted a record before it is published.
  std::vector<uint64_t> MustAccept() const;

 private:
  absl::Status Propose(Configuration next, Actions* actions);
  absl::Status CheckMayPropose(std::initializer_list<Role> as) const;
  void StoreWord(EpochWord word, Actions* actions);
  void SendProposal(Actions* actions);
  void StepDown(Actions* actions);
  // The proposal is the record.
  void Won(Actions* actions);

  const uint64_t incarnation_;
  Role role_ = Role::kJoining;
  EpochWord word_;
  uint64_t revision_ = 0;
  Configuration configuration_;
  Configuration proposal_;   // epoch 0: there is none
  bool is_sent_ = false;     // the proposal, at least once
  bool is_awaited_ = false;  // the answer of the last compare-and-swap
  bool maybe_done_ = false;  // an answer was lost: only the revision tells
  bool ended_ = false;       // with the proposal
  absl::Time shut_at_ = absl::InfiniteFuture();
  bool tail_accepted_ = false;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_MEMBER_H_
