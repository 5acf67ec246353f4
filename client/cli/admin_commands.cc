// Commands for operators: who is connected, and to end a connection.
#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/encoding.h"
#include "client/cli/json_line.h"
#include "farlook/admin.h"

namespace farlook::cli {
namespace {

JsonLine ToJson(const ConnectedClient& client, const std::string& group) {
  JsonLine line;
  if (!group.empty()) line.Bytes("group", group);
  line.Number("id", client.id)
      .Bytes("peer", client.peer)
      .Bytes("user", client.user)
      .Bytes("role", client.role)
      .Number("worker", static_cast<uint64_t>(client.worker))
      .Bytes("state", client.state)
      .Number("connected_s", static_cast<uint64_t>(client.connected_s))
      .Number("requests", client.requests)
      .Number("kept_bytes", client.kept_bytes)
      .Number("gets_per_s", client.gets_per_s)
      .Number("get_p99_ns", client.get_p99_ns);
  return line;
}

void PrintTable(const std::vector<ConnectedClient>& clients, Output& out) {
  int peer = 4, user = 4;
  for (const ConnectedClient& client : clients) {
    peer = std::max(peer, static_cast<int>(Escape(client.peer).size()));
    user = std::max(user, static_cast<int>(Escape(client.user).size()));
  }
  out.WriteLine(absl::StrFormat("%6s  %-*s  %-*s  %-5s  %-8s  %8s  %12s  %9s  %9s  %s", "id", peer, "from", user,
                                "user", "role", "state", "since s", "requests", "kept", "gets/s", "p99 us"));
  for (const ConnectedClient& client : clients) {
    out.WriteLine(absl::StrFormat("%6d  %-*s  %-*s  %-5s  %-8s  %8d  %12d  %9d  %9d  %.1f", client.id, peer,
                                  Escape(client.peer), user, Escape(client.user), Escape(client.role),
                                  Escape(client.state), client.connected_s, client.requests, client.kept_bytes,
                                  client.gets_per_s, static_cast<double>(client.get_p99_ns) / 1e3));
  }
}

// The group that a command is for which is about one server. Else it has failed, with this code.
std::variant<std::string, ExitCode> OneGroup(const Context& context) {
  const absl::StatusOr<std::vector<std::string>> groups = context.GroupNames();
  if (!groups.ok()) return context.Fail(groups.status());
  if (groups->size() == 1) return groups->front();
  return context.Fail(ExitCode::kUsage, absl::StrCat("say which group of the cluster: --group=",
                                                     absl::StrJoin(*groups, ", or --group=")));
}

void PrintGroupStatus(const Context& context, absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (!context.options.json) {
      context.console.out().WriteLine(Escape(std::string(line)));
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

}  // namespace

ExitCode RunClients(Context& context) {
  const absl::StatusOr<std::vector<std::string>> groups = context.GroupNames();
  if (!groups.ok()) return context.Fail(groups.status());
  Output& out = context.console.out();
  for (const std::string& group : *groups) {
    const absl::StatusOr<std::vector<ConnectedClient>> clients = context.store->Clients(context.At(group));
    if (!clients.ok()) return context.Fail(clients.status());
    if (!context.options.json) {
      if (!group.empty()) out.WriteLine(absl::StrCat("group ", group));
      PrintTable(*clients, out);
      continue;
    }
    for (const ConnectedClient& client : *clients) out.WriteLine(ToJson(client, group).ToString());
  }
  return ExitCode::kOk;
}

ExitCode RunKick(Context& context) {
  const std::variant<std::string, ExitCode> found = OneGroup(context);
  const std::string* const group = std::get_if<std::string>(&found);
  if (group == nullptr) return std::get<ExitCode>(found);
  ExitCode code = ExitCode::kOk;
  for (const Operand& operand : context.operands) {
    uint64_t id;
    if (!absl::SimpleAtoi(operand.text, &id)) {
      return context.Fail(ExitCode::kUsage, absl::StrCat(Quoted(operand.text),
                                                         " is no id of a client: `clients` "
                                                         "prints them"));
    }
    const absl::Status status = context.store->Kick(id, context.At(*group));
    if (absl::IsNotFound(status)) {
      code = Worst(code, context.Fail(ExitCode::kNotFound, absl::StrCat("no client has the id ", id)));
    } else if (!status.ok()) {
      return Worst(code, context.Fail(status));
    } else if (context.options.json) {
      context.console.out().WriteLine(JsonLine().Number("kicked", id).ToString());
    }
  }
  return code;
}

ExitCode RunCluster(Context& context) {
  const absl::string_view what = context.operands[0].text;
  if (what != "status" && what != "handover") {
    return context.Fail(ExitCode::kUsage, absl::StrCat(Quoted(what), " is neither status nor handover"));
  }
  if (what == "status" && context.options.group.empty()) {
    const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(""));
    if (!groups.ok()) return context.Fail(groups.status());
    if (!groups->empty()) return PrintCluster(context, *groups);
  }
  const std::variant<std::string, ExitCode> found = OneGroup(context);
  const std::string* const group = std::get_if<std::string>(&found);
  if (group == nullptr) return std::get<ExitCode>(found);
  if (what == "handover") {
    if (absl::Status status = context.store->HandOver(context.At(*group)); !status.ok()) return context.Fail(status);
  }
  const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(*group));
  if (!text.ok()) return context.Fail(text.status());
  PrintGroupStatus(context, *text);
  return ExitCode::kOk;
}

}  // namespace farlook::cli
