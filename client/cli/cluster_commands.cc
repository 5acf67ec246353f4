// `kv_cli cluster`: what the groups of a cluster, or the servers of one, are and do, and what operators have them do.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/cli/cluster_state.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/interrupt.h"
#include "client/cli/json_line.h"
#include "client/cli/move_status.h"
#include "client/cli/mover.h"
#include "farlook/admin.h"

namespace farlook::cli {
namespace {

void PrintGroupStatus(const Context& context, absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (!context.options.json) {
      context.console.out().WriteLine(Escape(std::string(line)));
    } else if (const std::optional<JsonLine> move = MoveLineToJson(line); move.has_value()) {
      context.console.out().WriteLine(move->ToString());
    } else if (uint64_t members, replicas, least;
               words.size() == 7 && words[0] == "members" && absl::SimpleAtoi(words[1], &members) &&
               absl::SimpleAtoi(absl::StripSuffix(words[3], ","), &replicas) && absl::SimpleAtoi(words[6], &least)) {
      context.console.out().WriteLine(
          JsonLine().Number("members", members).Number("replicas", replicas).Number("min_insync", least).ToString());
    } else if (words.size() == 2) {
      context.console.out().WriteLine(JsonLine().Bytes(words[0], words[1]).ToString());
    } else if (words.size() > 2) {
      context.console.out().WriteLine(
          JsonLine().Bytes("role", words[0]).Bytes("address", words[1]).Bytes("incarnation", words[2]).ToString());
    }
  }
}

// Which slots each group has, then what each says of itself; one that does not answer keeps nobody from the others.
ExitCode PrintCluster(const Context& context, const std::vector<ClusterGroup>& groups) {
  Output& out = context.console.out();
  for (const ClusterGroup& group : groups) {
    if (context.options.json) {
      out.WriteLine(JsonLine()
                        .Bytes("group", group.name)
                        .Number("epoch", group.epoch)
                        .Number("slots", static_cast<uint64_t>(group.slots))
                        .Bytes("slot_ranges", group.slot_ranges)
                        .ToString());
    } else {
      out.WriteLine(
          absl::StrCat(group.name, ": ", group.slots, " slots", group.slots == 0 ? "" : ", ", group.slot_ranges));
    }
  }
  ExitCode code = ExitCode::kOk;
  for (const ClusterGroup& group : groups) {
    if (!context.options.json) out.WriteLine("");
    const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(group.name));
    if (text.ok()) {
      PrintGroupStatus(context, *text);
    } else {
      code = Worst(code, context.Fail(text.status()));
    }
  }
  return code;
}

// ---- What there is to do.

ExitCode RunStatus(Context& context) {
  if (context.options.group.empty()) {
    const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(""));
    if (!groups.ok()) return context.Fail(groups.status());
    if (!groups->empty()) return PrintCluster(context, *groups);
  }
  const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(context.options.group));
  if (!text.ok()) return context.Fail(text.status());
  PrintGroupStatus(context, *text);
  return ExitCode::kOk;
}

// Of one group, which then says how it stands.
ExitCode RunOnGroup(Context& context, absl::FunctionRef<absl::Status(const ServerOptions& at)> run) {
  const std::variant<std::string, ExitCode> found = context.OneGroup();
  const std::string* const group = std::get_if<std::string>(&found);
  if (group == nullptr) return std::get<ExitCode>(found);
  if (absl::Status status = run(context.At(*group)); !status.ok()) return context.Fail(status);
  const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(*group));
  if (!text.ok()) return context.Fail(text.status());
  PrintGroupStatus(context, *text);
  return ExitCode::kOk;
}

ExitCode RunHandOver(Context& context) {
  return RunOnGroup(context, [&context](const ServerOptions& at) { return context.store->HandOver(at); });
}

ExitCode RunResize(Context& context) {
  const std::string& text = context.operands[1].text;
  uint32_t replicas;
  if (!absl::SimpleAtoi(text, &replicas) || replicas == 0) {
    return context.Fail(ExitCode::kUsage, absl::StrCat(Quoted(text), " is no number of replicas"));
  }
  return RunOnGroup(context, [&context, replicas](const ServerOptions& at) {
    return context.store->ResizeGroup(replicas, static_cast<uint32_t>(context.options.min_insync), at);
  });
}

ExitCode RunCancel(Context& context) {
  CatchInterrupts();
  std::string taker = context.options.group;
  if (taker.empty()) {
    const absl::StatusOr<ClusterState> state = LookAtCluster(context);
    if (!state.ok()) return context.Fail(state.status());
    std::vector<std::string> takers;
    for (const GroupState& group : *state) {
      if (group.moves.taking.has_value()) takers.push_back(group.name);
    }
    if (takers.size() > 1) {
      return context.Fail(ExitCode::kUsage, absl::StrCat("say which group is to take no more: --group=",
                                                         absl::StrJoin(takers, ", or --group=")));
    }
    if (takers.empty()) {
      context.console.out().WriteLine(context.options.json ? JsonLine().Bool("cancelled", false).ToString()
                                                           : "nothing to do: no group takes slots");
      return ExitCode::kOk;
    }
    taker = takers.front();
  }
  return Mover(context).Cancel(taker);
}

struct Part {
  absl::string_view name;
  absl::string_view operand;             // empty: it takes none
  std::vector<absl::string_view> flags;  // of those of `cluster`
  ExitCode (*run)(Context& context);
};

const std::vector<Part>& Parts() {
  static const auto* const kParts = new std::vector<Part>{
      {"status", "", {"group"}, RunStatus},
      {"handover", "", {"group"}, RunHandOver},
      {"resize", "REPLICAS", {"group", "min_insync"}, RunResize},
      {"add", "GROUP", {"yes", "dry_run"}, RunRebalance},
      {"remove", "GROUP", {"yes", "dry_run"}, RunRebalance},
      {"rebalance", "", {"yes", "dry_run"}, RunRebalance},
      {"cancel", "", {"group"}, RunCancel},
  };
  return *kParts;
}

// Why the command line does not fit; empty: it does.
std::string WrongWith(const Part& part, const Context& context) {
  const auto takes = [&part](absl::string_view flag) {
    return std::find(part.flags.begin(), part.flags.end(), flag) != part.flags.end();
  };
  const Options& options = context.options;
  for (const auto& [flag, given] : {std::pair<absl::string_view, bool>{"group", !options.group.empty()},
                                    {"yes", options.yes},
                                    {"dry_run", options.dry_run},
                                    {"min_insync", options.min_insync != 0}}) {
    if (given && !takes(flag)) {
      return absl::StrCat("--", flag, " is not for cluster ", part.name,
                          flag == "group" && part.operand == "GROUP" ? ": its group is an operand" : "");
    }
  }
  const size_t operands = context.operands.size() - 1;
  if (operands == (part.operand.empty() ? 0 : 1)) return "";
  if (operands == 0) {
    return absl::StrCat(part.operand == "GROUP" ? "say which group" : "say how many replicas", ": cluster ", part.name,
                        " ", part.operand);
  }
  return absl::StrCat("cluster ", part.name, " takes no operand",
                      takes("group") ? absl::StrCat("; did you mean --group=", context.operands[1].text, "?") : "");
}

}  // namespace

std::vector<std::string> ClusterParts() {
  std::vector<std::string> names;
  for (const Part& part : Parts()) names.emplace_back(part.name);
  return names;
}

ExitCode RunCluster(Context& context) {
  const std::string& what = context.operands[0].text;
  std::vector<absl::string_view> names;
  for (const Part& part : Parts()) {
    names.push_back(part.name);
    if (part.name != what) continue;
    const std::string wrong = WrongWith(part, context);
    return wrong.empty() ? part.run(context) : context.Fail(ExitCode::kUsage, wrong);
  }
  const absl::string_view nearest = Nearest(what, names);
  return context.Fail(ExitCode::kUsage,
                      absl::StrCat(Quoted(what), " is none of ", absl::StrJoin(names, ", "),
                                   nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
}

}  // namespace farlook::cli
