// One replica's part in its group: the word that it shows, and whether it may serve, accept and promote; rules 1 to 6
// and 10 of docs/cluster-design.md.
//
// Pure: events in, actions out, in order; no threads, no clock, no network. The caller carries out the actions in
// order, each only after the earlier ones are done: rule 2 requires that SHUT is visible before the compare-and-swap is
// sent.
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
#include "kv/layout/epoch_word.h"

namespace farlook::cluster {

using kv::EpochWord;

struct Action {
  enum class Kind : uint8_t {
    kStoreWord,    // store `word`; then, if it is SHUT, pass the clock to Stored()
    kCas,          // of `record`, if the revision is `expected`; call Swapped() exactly once, whatever happened
                   // meanwhile
    kRead,         // Get() the latest record; call Learn()
    kShareTail,    // make all members cut off records that this log lacks, and accept all of this log, in epoch(); call
                   // TailAccepted(); remove members that do not
    kPublishTail,  // publish the tail; its writes may be acknowledged after the next kServe
    kServe,        // writes and reads, as primary
    kStepDown,     // destroy all connections, zero the memory, and restart as another incarnation
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
    kRemoved,  // it was a backup, and keeps its copy; it accepts nothing more
    kDeposed,  // it was a member; this object is no longer of use
  };

  // REQUIRES incarnation != 0, never used by any process.
  explicit Member(uint64_t incarnation) : incarnation_(incarnation) {}

  // ---- Events.

  // The directory's present or former record: old answers are ignored. FAILED_PRECONDITION: of another group;
  // DATA_LOSS: the record violated the rules. After an error nothing has changed.
  absl::Status Learn(uint64_t revision, const Configuration& configuration, Actions* actions);

  // Proposes this replica as the first primary of a group that is not in the directory, as the only member.
  absl::Status Create(Configuration first, Actions* actions);
  // An operator declares all members permanently lost: proposes this replica as primary of the known group, in the next
  // epoch, as the only member. Its table is empty, or, if it is kRemoved, a former copy. FAILED_PRECONDITION: it is a
  // member, or knows no group. `limits`: of this replica; `ended`: as below.
  absl::Status BeginAnew(absl::string_view address, const Limits& limits, bool ended, Actions* actions);
  // Suspects the primary and the `lost` members, and proposes itself as primary of the others. FAILED_PRECONDITION: it
  // is no backup in sync now, or is already proposing. `ended`: the primary's memory can certainly not be READ any more
  // (the record may also say so). Then leases need not be waited for, nor those of later epochs of this promoter.
  absl::Status Promote(const std::vector<uint64_t>& lost, bool ended, Actions* actions);
  // By the primary; Remove() also by a promoter. REQUIRES for Add(): the joiner accepted everything that was published,
  // and from now on is one of MustAccept().
  absl::Status Remove(uint64_t incarnation, Actions* actions);
  absl::Status Add(Replica joiner, Actions* actions);
  // By the primary. REQUIRES no write is begun any more for slots that the group will lose.
  absl::Status Reassign(const kv::SlotSet& slots, std::vector<Move> moves, Actions* actions);
  // By the primary. INVALID_ARGUMENT: a group may not have so many or so few replicas. Surplus members stay members.
  absl::Status Resize(uint32_t replicas, uint32_t min_insync, Actions* actions);

  // The next record for a primary that has left. REQUIRES its memory can no longer be READ. Nothing: it is no primary,
  // or the only member.
  static std::optional<Configuration> AfterLeaving(const Configuration& last, uint64_t incarnation);

  // The clock, read after SHUT was stored.
  void Stored(absl::Time now, Actions* actions);
  void Swapped(const CasResult& result, Actions* actions);
  // To be called regularly while is_proposing(): sends the same proposal again if no answer is awaited.
  void Retry(Actions* actions);
  // All members accepted the former primary's tail in `epoch`.
  void TailAccepted(uint64_t epoch, absl::Time now, Actions* actions);
  void Tick(absl::Time now, Actions* actions);

  // ---- State.

  uint64_t incarnation() const { return incarnation_; }
  Role role() const { return role_; }
  EpochWord word() const { return word_; }
  // The epoch of configuration(); 0: none is known.
  uint64_t epoch() const { return configuration_.epoch; }
  uint64_t revision() const { return revision_; }
  const Configuration& configuration() const { return configuration_; }
  bool is_proposing() const { return proposal_.epoch != 0; }

  // Returns whether it begins and publishes writes, also while a proposal is pending: MustAccept() then decides what is
  // published.
  bool Serves() const { return role_ == Role::kPrimary; }
  // Rule 5, for records that `primary` sent in `epoch`.
  bool Accepts(uint64_t primary, uint64_t epoch) const;
  // Rule 4: the members, except itself, that must have accepted a record before it is published.
  std::vector<uint64_t> MustAccept() const;

 private:
  absl::Status Propose(Configuration next, Actions* actions);
  absl::Status CheckMayPropose(std::initializer_list<Role> as) const;
  void StoreWord(EpochWord word, Actions* actions);
  void SendProposal(Actions* actions);
  void StepDown(Actions* actions);
  // The proposal is now the record.
  void Won(Actions* actions);

  const uint64_t incarnation_;
  Role role_ = Role::kJoining;
  EpochWord word_;
  uint64_t revision_ = 0;
  Configuration configuration_;
  Configuration proposal_;   // epoch 0: there is none
  bool is_sent_ = false;     // the proposal was sent at least once
  bool is_awaited_ = false;  // the answer of the last compare-and-swap is outstanding
  bool maybe_done_ = false;  // an answer was lost: only the revision shows the outcome
  bool ended_ = false;       // applies to the proposal
  absl::Time shut_at_ = absl::InfiniteFuture();
  bool tail_accepted_ = false;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_MEMBER_H_
