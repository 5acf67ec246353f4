// Executes moves of slots, one after the other, and shows their progress. The groups do the work: if this ends, the
// current move continues.
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_MOVER_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/cluster/cluster_state.h"
#include "client/cli/cluster/move_progress.h"
#include "client/cli/cluster/slot_plan.h"
#include "client/cli/context/command.h"

namespace farlook::cli {

class Mover {
 public:
  struct Pace {
    int64_t look_ms = 200;     // between two looks at a group
    int64_t line_ms = 1000;    // between two lines of progress, if they are not redrawn
    int64_t lost_ms = 60'000;  // for which a group may not answer, or not learn that slots were taken
    int64_t unseen_ms = 2000;  // for which a move that has begun may not be visible
  };

  // `context` outlives it. REQUIRES CatchInterrupts().
  explicit Mover(const Context& context) : Mover(context, Pace()) {}
  Mover(const Context& context, const Pace& pace)
      : context_(context), pace_(pace), progress_(&context.console, context.options.json, pace.line_ms) {}

  // Waits until all moves of other operators have ended, and prints their results. Returns the state then; CheckWhole()
  // decides whether it can be planned with. CANCELLED after Ctrl-C.
  absl::StatusOr<ClusterState> Settle();

  // These print their errors.

  // Executes the moves in turn, until one fails. REQUIRES the slots of each fit in kMaxSlotRangesBytes.
  ExitCode Carry(const std::vector<SlotMove>& moves);
  // Removes the group, which has no slots, from the cluster.
  ExitCode Leave(const std::string& group);
  // Cancels the move by which the group takes slots, if it has not ended before.
  ExitCode Cancel(const std::string& taker);

 private:
  enum class End { kDone, kFailed, kUnseen };

  // Repeats a question for up to lost_ms if connections are lost or a group has no primary. CANCELLED after Ctrl-C.
  template <typename Answer>
  absl::StatusOr<Answer> Patiently(const std::string& group, const std::function<absl::StatusOr<Answer>()>& ask);
  absl::StatusOr<GroupState> Look(const std::string& group);
  absl::StatusOr<ClusterState> LookAtAll();
  bool Pause();

  absl::Status CarryOne(const SlotMove& move);
  absl::StatusOr<GroupState> AwaitIdle(const SlotMove& move);
  absl::StatusOr<End> Watch(const SlotMove& move, const std::string& failed_before);
  void Show(const MoveStatus::Taking& taking, const std::string& to);
  ExitCode Fail(const absl::Status& status, const SlotMove& move);

  const Context& context_;
  const Pace pace_;
  MoveProgress progress_;
  MoveFigures figures_;     // of the current move
  bool has_begun_ = false;  // the current move, as far as is known
  std::string why_failed_;  // for End::kFailed
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_MOVER_H_
