// The list of all commands, what each of them does, and what help says of them.
#ifndef FARLOOK_CLIENT_CLI_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/command.h"
#include "client/cli/explain.h"

namespace farlook::cli {

// In the order in which help shows them. Live for ever.
absl::Span<const Command> Commands();
// Null if there is none.
const Command* FindCommand(absl::string_view name);

// On single keys (key_commands.cc).
ExitCode RunGet(Context& context);
ExitCode RunExists(Context& context);
ExitCode RunDelete(Context& context);
ExitCode RunPut(Context& context);
ExitCode RunInsert(Context& context);
ExitCode RunReplace(Context& context);
ExitCode RunCompareAndSet(Context& context);

// On when items expire (expiry_commands.cc).
ExitCode RunTouch(Context& context);
ExitCode RunPersist(Context& context);
ExitCode RunTtl(Context& context);
ExitCode RunGetAndTouch(Context& context);

// On counters (counter_commands.cc).
ExitCode RunIncrement(Context& context);
ExitCode RunDecrement(Context& context);
ExitCode RunCounter(Context& context);

// Stores many pairs (import_command.cc).
ExitCode RunImport(Context& context);

// Prints many pairs, for import (export_command.cc).
ExitCode RunExport(Context& context);

// On the server as a whole (server_commands.cc).
ExitCode RunStat(Context& context);
ExitCode RunWatch(Context& context);
ExitCode RunTop(Context& context);
ExitCode RunPing(Context& context);

// For operators (admin_commands.cc).
ExitCode RunClients(Context& context);
ExitCode RunKick(Context& context);

// On a group, or a cluster of them (cluster_commands.cc).
ExitCode RunCluster(Context& context);
// What may stand behind its name.
std::vector<std::string> ClusterParts();
// Those of them that move slots: add, remove, rebalance (rebalance_command.cc).
ExitCode RunRebalance(Context& context);

// What stops this host, or the way to a server, and what mends it (doctor_command.cc).
ExitCode RunDoctor(Context& context);

// What `kv_cli help` prints (help.cc): all of kv_cli, that is the commands, the common flags, the exit codes.
std::string HelpOverview();
// The commands, and how lines of a session are written.
std::string HelpInSession();
// One command, with its flags.
std::string HelpOn(const Command& command);
// Any of these as the answer to a request: with `json` one line.
std::string HelpAnswer(std::string text, bool json);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMANDS_H_
