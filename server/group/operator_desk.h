// Questions and requests of operators to a group's server: those that it answers at once, and those that the primary
// executes on the group's thread. Also the group's figures.
//
// Thread safety: Ask() and figures(): any thread. All else: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_OPERATOR_DESK_H_
#define FARLOOK_SERVER_GROUP_OPERATOR_DESK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "rdma/wake_fd.h"
#include "server/group/group_figures.h"
#include "server/group/membership.h"

namespace farlook::server {

class OperatorDesk {
 public:
  // `wake` is woken when there is a request to execute.
  OperatorDesk(Membership* membership, rdma::WakeFd* wake) : membership_(membership), wake_(wake) {}

  // Answers "status"; begins "handover EPOCH", "resize REPLICAS [MIN_INSYNC]", and in a cluster "take GROUP SLOTS",
  // "cancel" and "leave". Returns lines; empty: the question is unknown.
  std::string Ask(absl::string_view question);
  GroupFigures figures() const {
    absl::MutexLock lock(&mutex_);
    return figures_;
  }

  // Sets the description of the group until the next call. `can_hand_over`: a backup is in sync.
  void Update(std::string status, const GroupFigures& figures, bool can_hand_over);
  // This server became primary in this epoch.
  void SetLedSince(uint64_t epoch) {
    absl::MutexLock lock(&mutex_);
    led_since_ = epoch;
  }

  // The status of the last request to the group's directory: whether it answers. Any thread.
  void SetDirectory(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    directory_ = status;
  }
  absl::Status directory() const {
    absl::MutexLock lock(&mutex_);
    return directory_;
  }
  // The epoch of the lost members, if an operator has the group begin from this server's copy; 0: none.
  uint64_t from_copy() const {
    absl::MutexLock lock(&mutex_);
    return requests_.from_copy;
  }
  void SetFromCopy(uint64_t epoch);  // any thread

  // Executes a handover, once enough connected members have accepted a record that was appended after the request.
  // Returns whether this server has ended its part.
  bool HandOver();
  // Executes a change of the group's size, and repeats it until the record has it. Returns whether it has.
  bool Resize();
  // Returns whether a request has not ended.
  bool has_requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_.handover || requests_.cancel || requests_.leave || requests_.size.has_value() ||
           requests_.take.has_value();
  }
  // Takes the group out of its cluster, if an operator requested that.
  void Leave();

  // The slots that an operator wants the group to take, until EndMoveRequest().
  std::optional<cluster::Move> requested_move() const {
    absl::MutexLock lock(&mutex_);
    return requests_.take;
  }
  // Ends the request: it was begun, or failed for the reason `failure`.
  void EndMoveRequest(absl::string_view failure);
  void SetMoveFailure(absl::string_view failure);
  // Returns whether an operator wants the present move to be cancelled, once.
  bool TakeCancel();

 private:
  // Time that a backup has to connect to a primary that is to hand over.
  static constexpr absl::Duration kLongestHandover = absl::Seconds(5);

  struct Size {
    uint32_t replicas = 0, min_insync = 0;
  };
  // Requests that are not begun; for a handover: that has not ended.
  struct Requests {
    std::optional<cluster::Move> take;
    std::optional<Size> size;
    bool cancel = false, leave = false, handover = false;
    uint64_t from_copy = 0;
  };

  std::string AskForHandover(absl::string_view epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskForSize(absl::string_view size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskToTake(absl::string_view group_and_slots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskToCancel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskToLeave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Membership* const membership_;
  rdma::WakeFd* const wake_;
  uint64_t handover_record_ = 0;  // the next primary must have accepted it; 0: no handover is under way
  absl::Time give_up_handover_at_ = absl::InfinitePast();

  mutable absl::Mutex mutex_;
  Requests requests_ ABSL_GUARDED_BY(mutex_);
  GroupFigures figures_ ABSL_GUARDED_BY(mutex_);
  std::string status_ ABSL_GUARDED_BY(mutex_);
  absl::Status directory_ ABSL_GUARDED_BY(mutex_);
  cluster::Configuration known_ ABSL_GUARDED_BY(mutex_);       // at the last Update(); epoch 0: it does not serve
  std::string failure_ ABSL_GUARDED_BY(mutex_);                // why the last move into this group was given up
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;          // that move is cancelled, or about to be
  uint64_t led_since_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};  // the first epoch in which it was the primary
  bool can_hand_over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_OPERATOR_DESK_H_
