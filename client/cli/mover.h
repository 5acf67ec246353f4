// Carries out moves of slots, one after the other, and shows how far they are. The groups do the work: if this ends,
// the move that is under way goes on.
#ifndef FARLOOK_CLIENT_CLI_MOVER_H_
#define FARLOOK_CLIENT_CLI_MOVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/cluster_state.h"
#include "client/cli/command.h"
#include "client/cli/move_progress.h"
#include "client/cli/slot_plan.h"

namespace farlook::cli {

class Mover {
 public:
  struct Pace {
    int64_t look_ms = 200;     // between two looks at a group
    int64_t line_ms = 1000;    // between two lines of progress, where they are not redrawn
    int64_t lost_ms = 60'000;  // for which a group may give no answer, or not hear what it has given
    int64_t unseen_ms = 2000;  // for which a move that has begun may not be seen
  };

  // `context` outlives it. REQUIRES CatchInterrupts().
  explicit Mover(const Context& context) : Mover(context, Pace()) {}
  Mover(const Context& context, const Pace& pace)
      : context_(context), pace_(pace), progress_(&context.console, context.options.json, pace.line_ms) {}

  // Waits until all moves that others began have ended, and says so. What then is: CheckWhole() tells whether a plan
  // can be made of it. CANCELLED after Ctrl-C.
  absl::StatusOr<ClusterState> Settle();

  // These print what they meet with.

  // Each of these in turn, until one fails. REQUIRES kMaxSlotRangesBytes are enough for the slots of each.
  ExitCode Carry(const std::vector<SlotMove>& moves);
  // The group, without slots, is one of the cluster no more.
  ExitCode Leave(const std::string& group);
  // The move by which the group takes slots is given up, or has ended before.
  ExitCode Cancel(const std::string& taker);

 private:
  enum class End { kDone, kFailed, kUnseen };

  // Goes on asking where connections are lost, or a group has no primary, for as long as that may last. CANCELLED after
  // Ctrl-C.
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
  MoveFigures figures_;     // of the move that is carried out
  bool has_begun_ = false;  // that, as far as is known
  std::string why_failed_;  // End::kFailed
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_MOVER_H_
