// `kv_cli cluster`: shows the groups of a cluster, or the servers of one, and their state; and changes them for
// operators.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/cli/cluster/cluster_state.h"
#include "client/cli/cluster/move_status.h"
#include "client/cli/cluster/mover.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "farlook/admin.h"

namespace farlook::cli {
namespace {

// Exit codes of `cluster status`: the group serves and is not whole; its writes, or reads and writes, wait.
constexpr auto kDegraded = static_cast<ExitCode>(1), kNotServing = static_cast<ExitCode>(2);

// The health of a group, as its primary describes it. Servers of earlier releases do not.
ExitCode HealthOf(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "health degraded")) return kDegraded;
    if (absl::StartsWith(line, "health blocked")) return kNotServing;
  }
  return ExitCode::kOk;
}

// A line about a server: role, address, incarnation, and what is known of it.
JsonLine ServerToJson(const std::vector<absl::string_view>& words) {
  JsonLine line;
  line.Bytes("role", words[0]).Bytes("address", words[1]).Bytes("incarnation", words[2]);
  const auto rest = [&words](size_t from) {
    return absl::StrJoin(words.begin() + static_cast<ptrdiff_t>(from), words.end(), " ");
  };
  if (words[0] == "refused") return line.Bytes("reason", rest(3));
  for (size_t i = 3; i < words.size(); ++i) {
    uint64_t number = 0;
    const bool has_number = i + 1 < words.size() && absl::SimpleAtoi(words[i + 1], &number);
    if (words[i] == "lag" && has_number) line.Number("lag", number);
    if (words[i] == "filled" && has_number) line.Number("filled_percent", number);
    if (words[i] == "disconnected") line.Bool("disconnected", true);
    if (words[i] == "for" && has_number) line.Number("disconnected_seconds", number);
    if (words[i] == "blocks") line.Bytes("blocks", rest(i + 1));
  }
  return line;
}

// "health STATE [WHY]" or "directory STATE".
JsonLine StateToJson(const std::vector<absl::string_view>& words) {
  const size_t state = words[0] == "health" ? 2 : words.size();
  JsonLine line;
  line.Bytes(words[0], absl::StrJoin(words.begin() + 1, words.begin() + static_cast<ptrdiff_t>(state), " "));
  if (state == words.size()) return line;
  return line.Bytes("reason", absl::StrJoin(words.begin() + static_cast<ptrdiff_t>(state), words.end(), " "));
}

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
    } else if (words.size() > 2 && (words[0] == "health" || words[0] == "directory")) {
      context.console.out().WriteLine(StateToJson(words).ToString());
    } else if (words.size() == 2) {
      context.console.out().WriteLine(JsonLine().Bytes(words[0], words[1]).ToString());
    } else if (words.size() > 2) {
      context.console.out().WriteLine(ServerToJson(words).ToString());
    }
  }
}

// Prints the slots of each group, then the report of each. A group that does not answer does not block the others.
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
      code = Worst(code, HealthOf(*text));
    } else {
      code = Worst(code, context.Fail(text.status()));
    }
  }
  return code;
}

// ---- Subcommands.

// Pause between two looks of --wait.
constexpr int64_t kLookNs = 200'000'000;

// Waits until the group is whole. Returns false after Ctrl-C. An error that does not pass ends the wait.
bool AwaitWhole(const Context& context, const std::string& group) {
  for (;;) {
    const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(group));
    if (text.ok() && HealthOf(*text) == ExitCode::kOk) return true;
    if (!text.ok() && !absl::IsUnavailable(text.status()) && !absl::IsDeadlineExceeded(text.status())) return true;
    if (!SleepUntilNs(NowNs() + kLookNs)) return false;
  }
}

// The same for each group that the command is about.
bool AwaitAllWhole(const Context& context) {
  CatchInterrupts();
  if (!context.options.group.empty()) return AwaitWhole(context, context.options.group);
  const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(""));
  if (!groups.ok() || groups->empty()) return AwaitWhole(context, "");
  return std::all_of(groups->begin(), groups->end(),
                     [&context](const ClusterGroup& group) { return AwaitWhole(context, group.name); });
}

ExitCode RunStatus(Context& context) {
  if (context.options.wait && !AwaitAllWhole(context)) return ExitCode::kInterrupted;
  if (context.options.group.empty()) {
    const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(""));
    if (!groups.ok()) return context.Fail(groups.status());
    if (!groups->empty()) return PrintCluster(context, *groups);
  }
  const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(context.options.group));
  if (!text.ok()) return context.Fail(text.status());
  PrintGroupStatus(context, *text);
  return HealthOf(*text);
}

// Runs an action on one group, then prints the group's status.
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
      return context.Fail(ExitCode::kUsage, absl::StrCat("name the group that is to take no more slots: --group=",
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
  absl::string_view operand;             // empty: none
  std::vector<absl::string_view> flags;  // flags of `cluster` that it takes
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

// Returns why the command line does not fit; empty: it does.
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
    return absl::StrCat(part.operand == "GROUP" ? "name the group" : "give the number of replicas", ": cluster ",
                        part.name, " ", part.operand);
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
