// Commands for operators: list connections, and end one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/json_line.h"
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

// Explains connections in state atomic, whose processes were stopped within atomics: which they are, and what helps.
void NoteStopped(const std::vector<ConnectedClient>& clients, Console& console) {
  std::map<std::string, size_t> processes;  // and how many of these connections each has
  size_t places = 0;
  for (const ConnectedClient& client : clients) {
    if (client.state != "atomic") continue;
    ++processes[Escape(client.peer)];
    ++places;
  }
  if (places == 0) return;
  std::vector<std::string> named;
  for (const auto& [peer, count] : processes) named.push_back(absl::StrCat(peer, " (", count, ")"));
  console.Note(absl::StrCat("places of clients that are gone but were stopped within an atomic: ", places, ", of ",
                            absl::StrJoin(named, ", "), "; continue or end these processes, or kick their ids"));
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
      NoteStopped(*clients, context.console);
      continue;
    }
    for (const ConnectedClient& client : *clients) out.WriteLine(ToJson(client, group).ToString());
  }
  return ExitCode::kOk;
}

ExitCode RunKick(Context& context) {
  const std::variant<std::string, ExitCode> found = context.OneGroup();
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

}  // namespace farlook::cli
