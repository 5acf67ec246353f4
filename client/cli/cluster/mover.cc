#include "client/cli/cluster/mover.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {
namespace {

constexpr int64_t kNsInMs = 1'000'000;
// Maximum number of times that a move is begun, if it is not visible afterwards or the request got no reply.
constexpr int kMostBegins = 5;

double SecondsSince(int64_t start_ns) { return static_cast<double>(NowNs() - start_ns) / 1e9; }

// Another server may answer soon.
bool IsLost(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsUnknown(status);
}

bool HasAll(const GroupState& group, const kv::SlotSet& slots) { return (slots & ~group.slots).none(); }

// Returns whether it takes part in a move.
bool HasMoves(const ClusterState& state, const std::string& name) {
  return std::any_of(state.begin(), state.end(), [&](const GroupState& group) {
    const MoveStatus& moves = group.moves;
    return (group.name == name && !moves.none()) || (moves.taking.has_value() && moves.taking->from == name) ||
           std::find(moves.taken.begin(), moves.taken.end(), name) != moves.taken.end();
  });
}

bool IsOf(const MoveStatus& status, const SlotMove& move) {
  return status.taking.has_value() && status.taking->from == move.from && status.taking->slots == move.slots;
}

std::string Arrow(const std::string& from, const std::string& to) {
  return absl::StrCat(Escape(from), " -> ", Escape(to));
}

}  // namespace

bool Mover::Pause() { return SleepUntilNs(NowNs() + pace_.look_ms * kNsInMs); }

template <typename Answer>
absl::StatusOr<Answer> Mover::Patiently(const std::string& group, const std::function<absl::StatusOr<Answer>()>& ask) {
  const int64_t start_ns = NowNs();
  for (;;) {
    absl::StatusOr<Answer> answer = ask();
    if (answer.ok() || !IsLost(answer.status()) || NowNs() > start_ns + pace_.lost_ms * kNsInMs) return answer;
    MoveFigures shown = figures_;
    shown.waits = absl::StrFormat("no answer from %s for %.0f s: %s", group.empty() ? "a group" : group,
                                  SecondsSince(start_ns), std::string(answer.status().message()));
    progress_.Show(shown);
    if (!Pause()) return absl::CancelledError();
  }
}

absl::StatusOr<GroupState> Mover::Look(const std::string& group) {
  return Patiently<GroupState>(group, [&] { return LookAtGroup(context_, group); });
}

absl::StatusOr<ClusterState> Mover::LookAtAll() {
  return Patiently<ClusterState>("", [&] { return LookAtCluster(context_); });
}

void Mover::Show(const MoveStatus::Taking& taking, const std::string& to) {
  const bool is_own = figures_.number != 0 && figures_.from == taking.from && figures_.to == to;
  MoveFigures shown = is_own ? figures_ : MoveFigures{.from = taking.from, .to = to};
  shown.slots = taking.slots.count();
  shown.items = taking.items;
  shown.estimate = taking.estimate;
  shown.waits = taking.waits;
  progress_.Show(shown);
  // Shown while the group does not answer.
  if (is_own || figures_.number == 0) figures_ = shown;
}

// ---- Moves of other operators.

absl::StatusOr<ClusterState> Mover::Settle() {
  figures_ = {};
  int64_t since_ns = NowNs();
  std::set<std::string> logged;
  absl::StatusOr<ClusterState> state = LookAtCluster(context_);
  while (state.ok()) {
    for (const GroupState& group : *state) {
      if (group.moves.taking.has_value() || logged.erase(group.name) == 0 || group.moves.failed.empty()) continue;
      context_.console.Note(absl::StrCat(context_.command, ": group ", group.name,
                                         " has given up its move: ", Escape(group.moves.failed)));
    }
    const GroupState* const taker = FindTaker(*state);
    if (taker != nullptr) {
      const MoveStatus::Taking& taking = *taker->moves.taking;
      if (logged.insert(taker->name).second) {
        context_.console.Note(absl::StrCat(
            context_.command, ": a move is under way already, and is waited for: ", Arrow(taking.from, taker->name),
            ", ", CountSlots(taking.slots.count()), " (", kv::FormatSlots(taking.slots), ")"));
      }
      Show(taking, taker->name);
      since_ns = NowNs();
    } else {
      const bool moving = IsMoving(*state);
      if (!moving && (state->empty() || CheckWhole(*state).ok())) break;
      // Slots that pass between two groups appear without an owner for a moment.
      if (NowNs() > since_ns + (moving ? pace_.lost_ms : pace_.unseen_ms) * kNsInMs) break;
    }
    if (!Pause()) return absl::CancelledError();
    state = LookAtAll();
  }
  figures_ = {};
  context_.console.HideStatusLine();
  return state;
}

// ---- Moves of a plan.

ExitCode Mover::Carry(const std::vector<SlotMove>& moves) {
  const int64_t start_ns = NowNs();
  size_t slots = 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    const SlotMove& move = moves[i];
    const MoveFigures figures = {
        .number = i + 1, .moves = moves.size(), .from = move.from, .to = move.to, .slots = move.slots.count()};
    figures_ = figures;
    has_begun_ = false;
    const int64_t move_start_ns = NowNs();
    if (absl::Status status = CarryOne(move); !status.ok()) return Fail(status, move);
    slots += move.slots.count();
    const double seconds = SecondsSince(move_start_ns);
    progress_.Print(absl::StrFormat("%s  done: %s in %.1f s", NameOf(figures), CountSlots(move.slots.count()), seconds),
                    MoveToJson(figures).Bool("done", true).Number("seconds", seconds));
  }
  const double seconds = SecondsSince(start_ns);
  progress_.Print(absl::StrFormat("done: %d move%s, %s, in %.1f s", moves.size(), moves.size() == 1 ? "" : "s",
                                  CountSlots(slots), seconds),
                  JsonLine()
                      .Number("moves", static_cast<uint64_t>(moves.size()))
                      .Number("slots", static_cast<uint64_t>(slots))
                      .Number("seconds", seconds));
  return ExitCode::kOk;
}

// ABORTED: the move was refused, or failed.
absl::Status Mover::CarryOne(const SlotMove& move) {
  absl::Status last;
  for (int begins = 0; begins < kMostBegins; ++begins) {
    const absl::StatusOr<GroupState> before = AwaitIdle(move);
    if (!before.ok()) return before.status();
    if (HasAll(*before, move.slots)) return absl::OkStatus();
    if (IsOf(before->moves, move)) {
      last = absl::OkStatus();
    } else {
      if (Interrupted()) return absl::CancelledError();
      last = context_.store->TakeSlots(move.from, kv::FormatSlots(move.slots), context_.At(move.to));
      if (absl::IsFailedPrecondition(last)) {
        return absl::AbortedError(absl::StrCat("group ", move.to, " refuses: ", last.message()));
      }
      // If asked again, the group reports whether it has begun.
      if (IsLost(last)) {
        has_begun_ = true;
        if (!Pause()) return absl::CancelledError();
        continue;
      }
      if (!last.ok()) return last;
    }
    has_begun_ = true;
    const absl::StatusOr<End> end = Watch(move, before->moves.failed);
    if (!end.ok()) return end.status();
    if (*end == End::kDone) return absl::OkStatus();
    if (*end == End::kFailed) break;
    why_failed_ = before->moves.failed;
  }
  if (!last.ok()) return last;
  return absl::AbortedError(
      absl::StrCat("given up by group ", move.to, ": ", why_failed_.empty() ? "no reason given" : why_failed_));
}

// Waits until the taker has no other move: it takes one at a time.
absl::StatusOr<GroupState> Mover::AwaitIdle(const SlotMove& move) {
  int64_t since_ns = NowNs();
  for (;;) {
    absl::StatusOr<GroupState> state = Look(move.to);
    if (!state.ok()) return state;
    const bool others = state->moves.taking.has_value() && !IsOf(state->moves, move);
    if (others) {
      Show(*state->moves.taking, move.to);
      since_ns = NowNs();
    }
    // The group may refuse because of these; it decides.
    const bool waits = !state->moves.taken.empty() && NowNs() < since_ns + pace_.lost_ms * kNsInMs;
    if (!others && !waits) return state;
    if (!Pause()) return absl::CancelledError();
  }
}

absl::StatusOr<Mover::End> Mover::Watch(const SlotMove& move, const std::string& failed_before) {
  int64_t seen_ns = NowNs();
  bool seen = false;
  for (;;) {
    if (!Pause()) return absl::CancelledError();
    const absl::StatusOr<GroupState> state = Look(move.to);
    if (!state.ok()) return state.status();
    if (state->moves.taking.has_value()) {
      Show(*state->moves.taking, move.to);
      seen = true;
      seen_ns = NowNs();
    } else if (HasAll(*state, move.slots)) {
      return End::kDone;
    } else if (!state->moves.failed.empty() && (seen || state->moves.failed != failed_before)) {
      why_failed_ = state->moves.failed;
      return End::kFailed;
    } else if (NowNs() > seen_ns + pace_.unseen_ms * kNsInMs) {
      return End::kUnseen;
    }
  }
}

ExitCode Mover::Fail(const absl::Status& status, const SlotMove& move) {
  const std::string what = absl::StrCat(Arrow(move.from, move.to), ", ", CountSlots(move.slots.count()));
  const std::string cancel = absl::StrCat("`cluster cancel --group=", Escape(move.to), "`");
  if (absl::IsCancelled(status)) {
    return context_.Fail(
        ExitCode::kInterrupted,
        has_begun_
            ? absl::StrCat("interrupted: the move ", what,
                           ", continues without this command; `cluster rebalance` makes a new plan of what is then, ",
                           cancel, " gives it up")
            : "interrupted: no move of this plan is under way; `cluster rebalance` makes a new one");
  }
  if (absl::IsAborted(status)) {
    return context_.Fail(ExitCode::kError,
                         absl::StrCat("the move ", what, ", failed: ", Escape(std::string(status.message())),
                                      "; its slots stay where they are, and `cluster rebalance` makes a new plan"));
  }
  context_.NoteStatus(status);
  return context_.Fail(
      ExitCodeOf(status),
      absl::StrCat(
          "the move ", what, ": ", Explain(status, context_.options),
          has_begun_ ? absl::StrCat("; it may continue: check `cluster status`, ", cancel, " gives it up") : ""));
}

// ---- Removal of a group, and cancellation of a move.

ExitCode Mover::Leave(const std::string& group) {
  figures_ = {.from = group};
  const int64_t start_ns = NowNs();
  for (;;) {
    const absl::StatusOr<ClusterState> state = LookAtAll();
    const bool in_time = NowNs() < start_ns + pace_.lost_ms * kNsInMs;
    absl::Status status = state.status();
    // Also if it has left and the reply was lost.
    if (state.ok() && FindGroup(*state, group) == nullptr) break;
    if (state.ok() && HasMoves(*state, group) && in_time) {
      MoveFigures shown = figures_;
      shown.waits = "not all groups know yet that it has given its slots";
      progress_.Show(shown);
    } else if (state.ok()) {
      status = context_.store->LeaveCluster(context_.At(group));
      if (status.ok()) break;
      if (absl::IsFailedPrecondition(status)) {
        return context_.Fail(
            ExitCode::kError,
            absl::StrCat("group ", group, " cannot leave the cluster yet: ", Escape(std::string(status.message()))));
      }
    }
    if (!status.ok() && !absl::IsCancelled(status) && !(IsLost(status) && in_time)) return context_.Fail(status);
    if (!Pause()) {
      return context_.Fail(ExitCode::kInterrupted,
                           absl::StrCat("interrupted: group ", group, " is one of the cluster still; `cluster remove ",
                                        group, "` goes on"));
    }
  }
  progress_.Print(absl::StrCat("group ", group, " is one of the cluster no more: its servers may be stopped"),
                  JsonLine().Bytes("removed", group));
  return ExitCode::kOk;
}

ExitCode Mover::Cancel(const std::string& taker) {
  const absl::StatusOr<GroupState> before = LookAtGroup(context_, taker);
  if (!before.ok()) return context_.Fail(before.status());
  if (!before->moves.taking.has_value()) {
    progress_.Print(absl::StrCat("nothing to do: group ", taker, " takes no slots"),
                    JsonLine().Bool("cancelled", false));
    return ExitCode::kOk;
  }
  const MoveStatus::Taking taking = *before->moves.taking;
  figures_ = {.from = taking.from, .to = taker, .slots = taking.slots.count()};
  const JsonLine json = MoveToJson(figures_);
  const std::string what = absl::StrCat(Arrow(taking.from, taker), ", ", CountSlots(taking.slots.count()));
  absl::Status asked = absl::UnavailableError("not asked yet");
  for (;;) {
    // Repeated if the reply was lost.
    if (!asked.ok()) asked = context_.store->CancelMove(context_.At(taker));
    if (absl::IsFailedPrecondition(asked)) {
      return context_.Fail(ExitCode::kError, absl::StrCat("the move ", what,
                                                          ", is not given up: ", Escape(std::string(asked.message()))));
    }
    if (!asked.ok() && !IsLost(asked)) return context_.Fail(asked);
    const absl::StatusOr<GroupState> state = Look(taker);
    if (!state.ok() && !absl::IsCancelled(state.status())) return context_.Fail(state.status());
    if (state.ok()) {
      const auto& now = state->moves.taking;
      if (!now.has_value() || now->from != taking.from || now->slots != taking.slots) {
        const bool done = HasAll(*state, taking.slots);
        progress_.Print(absl::StrCat(done ? "too late, it is done: " : "given up: ", what),
                        JsonLine(json).Bool("cancelled", !done));
        return ExitCode::kOk;
      }
      Show(*now, taker);
    }
    if (!Pause()) {
      return context_.Fail(ExitCode::kInterrupted,
                           absl::StrCat("interrupted: the move ", what, ", is asked to be given up, and is not yet"));
    }
  }
}

}  // namespace farlook::cli
