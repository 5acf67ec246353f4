// `kv_cli cluster add`, `remove` and `rebalance`: makes a plan from the groups' present slots, shows it, asks for
// consent and executes it. Nothing is stored: after an interruption the same command makes a new plan.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/cluster_state.h"
#include "client/cli/cluster/move_progress.h"
#include "client/cli/cluster/mover.h"
#include "client/cli/cluster/slot_plan.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/consent.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "farlook/admin.h"

namespace farlook::cli {
namespace {

struct Plan {
  std::vector<GroupSlots> before = {};
  std::vector<SlotMove> moves = {};
  std::string leaves = {};  // the group that is to leave the cluster

  bool empty() const { return moves.empty() && leaves.empty(); }
};

std::string GroupsAre(const ClusterState& state) {
  return absl::StrCat("the cluster's groups are ", absl::StrJoin(GroupNames(state), ", "));
}

std::string HowToStart(absl::string_view group) {
  return absl::StrCat("start its servers with kv_server --listen=ADDRESS --group=URL/", group,
                      " --cluster=NAME, where URL is the other groups' directory and NAME their cluster, and without "
                      "--slots");
}

// Returns why the group in the command cannot be added or removed.
absl::Status CheckGroup(absl::string_view what, absl::string_view name, const ClusterState& state) {
  const GroupState* const group = FindGroup(state, name);
  if (what == "add" && group == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no group ", Quoted(name), "; ", GroupsAre(state),
                                            ". To have it, ", HowToStart(name), "; a second later the others know it"));
  }
  if (group == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no group ", Quoted(name), "; ", GroupsAre(state)));
  }
  if (!group->serves) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", name, " has no server that serves yet: ", HowToStart(name)));
  }
  const auto serving = std::count_if(state.begin(), state.end(), [](const GroupState& one) { return one.serves; });
  if (what == "remove" && serving == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", name, " is the last of the cluster: no group could take its slots"));
  }
  return absl::OkStatus();
}

Plan MakePlan(const Context& context, const ClusterState& state) {
  const std::string& what = context.operands[0].text;
  Plan plan = {.before = SlotsOf(state)};
  if (what == "rebalance") {
    plan.moves = PlanBalance(plan.before);
  } else if (what == "add") {
    plan.moves = PlanShare(context.operands[1].text, plan.before);
  } else {
    plan.leaves = context.operands[1].text;
    plan.moves = PlanRemoval(plan.leaves, plan.before);
  }
  plan.moves = CutToFit(plan.moves, kMaxSlotRangesBytes);
  return plan;
}

// ---- Output.

void PrintPlan(const Context& context, const Plan& plan) {
  Output& out = context.console.out();
  uint64_t number = 0;
  for (const SlotMove& move : plan.moves) {
    const std::string ranges = kv::FormatSlots(move.slots);
    if (context.options.json) {
      out.WriteLine(JsonLine()
                        .Number("move", ++number)
                        .Number("moves", static_cast<uint64_t>(plan.moves.size()))
                        .Bytes("from", move.from)
                        .Bytes("to", move.to)
                        .Number("slots", static_cast<uint64_t>(move.slots.count()))
                        .Bytes("slot_ranges", ranges)
                        .ToString());
    } else {
      out.WriteLine(absl::StrCat(move.from, " -> ", move.to, ": ", CountSlots(move.slots.count()), " (", ranges, ")"));
    }
  }
  const std::vector<GroupSlots> after = SlotsAfter(plan.before, plan.moves);
  for (size_t i = 0; i < after.size(); ++i) {
    const size_t slots = plan.before[i].slots.count(), slots_after = after[i].slots.count();
    if (context.options.json) {
      out.WriteLine(JsonLine()
                        .Bytes("group", after[i].name)
                        .Number("slots", static_cast<uint64_t>(slots))
                        .Number("slots_after", static_cast<uint64_t>(slots_after))
                        .ToString());
    } else {
      out.WriteLine(absl::StrCat(after[i].name, ": ", CountSlots(slots), ", then ", slots_after,
                                 after[i].name == plan.leaves ? ", and it leaves the cluster" : ""));
    }
  }
  out.Flush();
}

void PrintNothingToDo(const Context& context, const Plan& plan) {
  if (context.options.json) {
    context.console.out().WriteLine(JsonLine().Number("moves", uint64_t{0}).Number("slots", uint64_t{0}).ToString());
    return;
  }
  context.console.out().WriteLine(context.operands[0].text == "add"
                                      ? absl::StrCat("nothing to do: ", context.operands[1].text, " has its share")
                                      : absl::StrCat("nothing to do: each of ", plan.before.size(),
                                                     plan.before.size() == 1 ? " group" : " groups", " has its share"));
}

// Returns the state to plan with. A plan that is only shown does not wait until moves have ended.
absl::StatusOr<ClusterState> StateFor(const Context& context, bool only_shown, Mover* mover) {
  absl::StatusOr<ClusterState> state = only_shown ? LookAtCluster(context) : mover->Settle();
  if (!state.ok()) return state;
  if (state->empty()) {
    return absl::FailedPreconditionError(
        "the server is not in a cluster, and only groups of a cluster share slots; kv_server --cluster begins one");
  }
  const std::string& what = context.operands[0].text;
  if (what != "rebalance") {
    if (absl::Status status = CheckGroup(what, context.operands[1].text, *state); !status.ok()) return status;
  }
  const GroupState* const taker = FindTaker(*state);
  if (taker != nullptr) {
    context.console.Note(absl::StrCat(context.command, ": a move is under way: ", Escape(taker->moves.taking->from),
                                      " -> ", taker->name, "; the plan takes it for done"));
  } else if (absl::Status status = CheckWhole(*state); !status.ok()) {
    return status;
  }
  for (const GroupState& group : *state) {
    if (group.serves || group.slots.any()) continue;
    context.console.Note(
        absl::StrCat(context.command, ": group ", group.name, " is skipped: none of its servers serves yet"));
  }
  return state;
}

}  // namespace

ExitCode RunRebalance(Context& context) {
  CatchInterrupts();
  Mover mover(context);
  const bool may_act = !context.options.dry_run && (context.options.yes || CanAsk(context));
  const absl::StatusOr<ClusterState> state = StateFor(context, /*only_shown=*/!may_act, &mover);
  if (absl::IsCancelled(state.status())) {
    return context.Fail(ExitCode::kInterrupted, "interrupted: nothing was done; moves that others began continue");
  }
  if (!state.ok()) return context.Fail(state.status());
  const Plan plan = MakePlan(context, *state);
  if (plan.empty()) {
    PrintNothingToDo(context, plan);
    return ExitCode::kOk;
  }
  PrintPlan(context, plan);
  if (context.options.dry_run) return ExitCode::kOk;
  if (const ExitCode code = Agree(context, "the plan"); code != ExitCode::kOk) return code;
  if (!plan.moves.empty()) {
    if (const ExitCode code = mover.Carry(plan.moves); code != ExitCode::kOk) return code;
  }
  return plan.leaves.empty() ? ExitCode::kOk : mover.Leave(plan.leaves);
}

}  // namespace farlook::cli
