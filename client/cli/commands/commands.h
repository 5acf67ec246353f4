// The list of all commands, their functions, and their help.
#ifndef FARLOOK_CLIENT_CLI_COMMANDS_COMMANDS_H_
#define FARLOOK_CLIENT_CLI_COMMANDS_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/context/command.h"
#include "client/cli/terminal/explain.h"
#include "farlook/scan.h"

namespace farlook::cli {

// In the order in which help shows them. Static lifetime.
absl::Span<const Command> Commands();
// Returns null if there is none.
const Command* FindCommand(absl::string_view name);

// For single keys (key_commands.cc).
ExitCode RunGet(Context& context);
ExitCode RunExists(Context& context);
ExitCode RunDelete(Context& context);
// `delete --prefix` (delete_prefix_command.cc).
ExitCode RunDeletePrefix(Context& context);
ExitCode RunPut(Context& context);
ExitCode RunInsert(Context& context);
ExitCode RunReplace(Context& context);
ExitCode RunCompareAndSet(Context& context);

// For the expiry of items (expiry_commands.cc).
ExitCode RunTouch(Context& context);
ExitCode RunPersist(Context& context);
ExitCode RunTtl(Context& context);
ExitCode RunGetAndTouch(Context& context);

// For counters (counter_commands.cc).
ExitCode RunIncrement(Context& context);
ExitCode RunDecrement(Context& context);
ExitCode RunCounter(Context& context);

// Stores many pairs (import_command.cc).
ExitCode RunImport(Context& context);

// Walk through the whole table (scan_commands.cc).
ExitCode RunScan(Context& context);
ExitCode RunCount(Context& context);
// Sets the rate, the timeout, and the prefix, which is decoded. Returns false after it printed an error.
bool TakeScanOptions(const Context& context, absl::string_view prefix_text, ScanOptions* scan);
// The same, of lengths and times to live (sizes_commands.cc).
ExitCode RunBigKeys(Context& context);
ExitCode RunHistogram(Context& context);

// Prints many pairs, for import (export_command.cc).
ExitCode RunExport(Context& context);

// For the server as a whole (server_commands.cc).
ExitCode RunStat(Context& context);
ExitCode RunWatch(Context& context);
ExitCode RunTop(Context& context);
ExitCode RunPing(Context& context);

// For operators (admin_commands.cc).
ExitCode RunClients(Context& context);
ExitCode RunKick(Context& context);

// For a group, or a cluster of them (cluster_commands.cc).
ExitCode RunCluster(Context& context);
// Returns the words that may follow its name.
std::vector<std::string> ClusterParts();
// Those of them that move slots: add, remove, rebalance (rebalance_command.cc).
ExitCode RunRebalance(Context& context);

// Finds problems of this host, or on the way to a server, and their remedies (doctor_command.cc).
ExitCode RunDoctor(Context& context);

// Returns the error for an unknown command. It suggests the command for a word of Redis or memcached, or the nearest
// one.
std::string UnknownCommand(absl::string_view name);

// Returns the output of `kv_cli help` (help.cc): commands, common flags, exit codes.
std::string HelpOverview();
// Returns the commands, and the syntax of lines of a session.
std::string HelpInSession();
// Returns the help for one command, with its flags.
std::string HelpOn(const Command& command);
// Returns any of these as the reply to a request: with `json` one line.
std::string HelpAnswer(std::string text, bool json);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMANDS_COMMANDS_H_
