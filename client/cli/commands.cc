#include "client/cli/commands.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/nearest.h"
#include "client/cli/encoding.h"

namespace farlook::cli {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

constexpr absl::string_view kGetDetails =
    "Prints the value's exact bytes; on a terminal and in a session, a line feed\n"
    "after it. Several keys need --json or --print_version. The server's CPU takes\n"
    "no part.\n";

constexpr absl::string_view kExistsDetails =
    "Prints true or false, a line for each key. Exits with 1 if one does not exist.\n";

constexpr absl::string_view kWriteDetails =
    "VALUE may be an operand, --file=FILE, or standard input: write -, or leave it\n"
    "out if standard input is not a terminal. A value that begins with a dash goes\n"
    "after --: kv_cli put KEY -- -1\n";

constexpr absl::string_view kCompareAndSetDetails =
    "Compare and set. A key's version changes with every write to it. All that reads\n"
    "or stores prints it with --print_version or --json:\n"
    "\n"
    "    kv_cli cas KEY \"$(kv_cli get --print_version KEY)\" VALUE\n"
    "\n"
    "VALUE may be an operand, --file=FILE, or standard input, as for put.\n";

constexpr absl::string_view kTouchDetails =
    "TIME is a number with a unit: 500ms, 30s, 5m, 2h, 7d. The key's item expires so\n"
    "long after now, whenever it would have expired before; value and version stay.\n"
    "Exits with 1 if the key does not exist.\n";

constexpr absl::string_view kPersistDetails = "Exits with 1 if the key does not exist.\n";

constexpr absl::string_view kTtlDetails =
    "Prints milliseconds, as 29998ms, or never. Exits with 1 if the key does not\n"
    "exist, or has expired. The server's CPU takes no part.\n";

constexpr absl::string_view kIncrementDetails =
    "Changes a counter by DELTA (1 if left out, at most 2^40), prints its new value.\n"
    "The counter must exist: counter KEY create makes one. Its values lie in\n"
    "[-2^61, 2^61); what would leave that is an error and changes nothing.\n";

constexpr absl::string_view kCounterDetails =
    "    counter KEY                          prints the value\n"
    "    counter KEY create [INITIAL]         makes one, of 0 if left out; exits\n"
    "                                         with 2 if there is one\n"
    "    counter KEY swap EXPECTED DESIRED    sets it if it is EXPECTED; else exits\n"
    "                                         with 2\n"
    "    counter KEY delete                   deletes it\n"
    "\n"
    "With --ttl create makes one that is deleted so long after, or a little later.\n"
    "A number that begins with a dash goes after --: counter KEY create -- -5\n";

constexpr absl::string_view kImportDetails =
    "Reads one pair a line, as export writes them, and keeps many writes in flight.\n"
    "On a terminal it shows progress. A line that is wrong is reported with its\n"
    "number, and the rest goes on. If the server fails, import stops and says from\n"
    "which --start_line to go on: all lines before it are done, or were reported.\n"
    "Lines with the same key are stored in their order. Storing a pair twice does no\n"
    "harm.\n";

constexpr absl::string_view kExportDetails =
    "Takes the keys from its operands, from --keys=FILE or from standard input, one\n"
    "a line (written in --key_encoding), and prints the pairs in that order. Keys\n"
    "that do not exist are reported; it then exits with 1.\n"
    "\n"
    "The whole table cannot be exported without a list of its keys: the table has no\n"
    "scan. A client finds an item in the server's memory by the hash of its key, and\n"
    "no code of the server takes part; nothing keeps the keys in an order that one\n"
    "could follow while others write. Keep a list of the keys where they are made.\n";

constexpr absl::string_view kStatDetails =
    "A line \"name value\" for each, or one JSON object; with PREFIX, those whose names\n"
    "begin so, as lock_ or requests_. docs/operations.md says what they mean. Of a\n"
    "cluster: the sums of all groups, of times and lengths the greatest.\n";

constexpr absl::string_view kTopDetails =
    "Until Ctrl-C: writes and reads by message a second, processors, the share of\n"
    "the memory in use, keys, clients. Gets do not reach the server; one with\n"
    "--client_figures asks clients of them, and shows how many there are a second,\n"
    "and what 99 of 100 take at most.\n";

constexpr absl::string_view kWatchDetails =
    "Until Ctrl-C. It shows the figures that changed: on a terminal in place, since\n"
    "it began; otherwise at each time.\n";

constexpr absl::string_view kClientsDetails =
    "A line for each connection, or one JSON object: its id, from where, the user\n"
    "and what it may do, its state, since when, requests that arrived, bytes that\n"
    "wait for it, and, with --client_figures of kv_server, gets a second and what 99\n"
    "of 100 take at most. A client whose state is atomic is gone, but its process was\n"
    "stopped within an atomic and counts for --max_clients: let it go on, end it, or\n"
    "kick it. A server that is full answers root and its own user on its host; where\n"
    "it has --users, the role admin, which is wanted then.\n";

constexpr absl::string_view kKickDetails =
    "ID is what clients prints. The client is free to come again, and takes up its\n"
    "session: to keep it away revoke its user. Of one whose state is atomic the place\n"
    "is given to others, and the state is kicked until its process goes on or ends.\n"
    "Exits with 1 if there is no such client. Where the server has --users: the role\n"
    "admin.\n";

constexpr absl::string_view kClusterDetails =
    "Of a group (kv_server --group), by the addresses of all its servers, separated\n"
    "by commas, as a backup answers nothing; or of a cluster of groups. Where the\n"
    "server has --users: the role admin.\n"
    "\n"
    "    cluster status          what slots each group has, and which move; its\n"
    "                            epoch, its servers, and how many records each lags\n"
    "                            behind\n"
    "    cluster handover        has the primary give its place to a backup, while\n"
    "                            clients go on; of a cluster it needs a --group\n"
    "    cluster resize N        has the group have N servers: spares are filled, or\n"
    "                            those that are too many become spares; of these\n"
    "                            --min_insync at least must have each write\n"
    "    cluster add GROUP       moves its share of the slots to a group, which was\n"
    "                            started with kv_server --cluster and without --slots\n"
    "    cluster remove GROUP    moves its slots to the others; then it is one of the\n"
    "                            cluster no more, and its servers may be stopped\n"
    "    cluster rebalance       moves as few slots as make all groups have the same\n"
    "                            number of them\n"
    "    cluster cancel          gives up the move that is under way\n"
    "\n"
    "What moves slots prints its plan, and asks; where there is no terminal it needs\n"
    "--yes. Clients go on meanwhile. It is the groups that move slots: Ctrl-C ends\n"
    "the command, not the move. The same command again makes a new plan of what is\n"
    "then; a move that is under way is waited for first.\n";

constexpr absl::string_view kDoctorDetails =
    "Looks at RDMA devices, ports, addresses, limits and permissions, at the way to\n"
    "ADDRESS, and whether a Farlook server of this version answers there. Each line\n"
    "is good, advice or trouble, and says what mends it. Exits with 3 if there is\n"
    "trouble.\n";

ExitCode RunHelp(Context& context) {
  Output& out = context.console.out();
  if (context.operands.empty()) {
    const std::string text = context.mode == Mode::kOneShot ? HelpOverview() : HelpInSession();
    out.Write(HelpAnswer(text, context.options.json));
    return ExitCode::kOk;
  }
  const std::string& name = context.operands[0].text;
  if (const Command* command = FindCommand(name); command != nullptr) {
    out.Write(HelpAnswer(HelpOn(*command), context.options.json));
    return ExitCode::kOk;
  }
  std::vector<absl::string_view> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  const absl::string_view nearest = Nearest(name, names);
  return context.Fail(ExitCode::kUsage,
                      absl::StrCat("there is no command ", Quoted(name),
                                   nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
}

std::vector<Command> MakeCommands() {
  const std::vector<absl::string_view> write_flags = {"file", "print_version", "ttl", "keep_ttl", "keep"};
  const std::vector<absl::string_view> import_flags = {"format", "insert_only", "start_line", "max_errors",
                                                       "in_flight"};
  const std::vector<absl::string_view> export_flags = {"keys", "format", "start_line", "max_errors", "in_flight"};
  const std::vector<absl::string_view> repeat_flags = {"interval_ms", "count", "group"};
  return {
      {"get", "KEY...", "print the value of a key", kGetDetails, {"print_version"}, 1, kMany, true, RunGet},
      {"exists", "KEY...", "print whether a key exists", kExistsDetails, {}, 1, kMany, true, RunExists},
      {"put", "KEY [VALUE]", "store a value, whether the key exists or not", kWriteDetails, write_flags, 1, 2, true,
       RunPut},
      {"insert", "KEY [VALUE]", "store a value if the key is absent; else exit with 2", kWriteDetails, write_flags, 1,
       2, true, RunInsert},
      {"replace", "KEY [VALUE]", "store a value if the key exists; else exit with 1", kWriteDetails, write_flags, 1, 2,
       true, RunReplace},
      {"cas", "KEY VERSION [VALUE]", "store a value if the key has that version; else exit\nwith 2",
       kCompareAndSetDetails, write_flags, 2, 3, true, RunCompareAndSet},
      {"delete", "KEY...", "delete keys; exit with 1 if one does not exist", "", {}, 1, kMany, true, RunDelete},
      {"touch", "KEY TIME", "have a key expire so long after now", kTouchDetails, {}, 2, 2, true, RunTouch},
      {"persist", "KEY", "have a key never expire", kPersistDetails, {}, 1, 1, true, RunPersist},
      {"ttl", "KEY", "print how long a key lives still", kTtlDetails, {}, 1, 1, true, RunTtl},
      {"gettouch", "KEY TIME", "print the value of a key, and touch it", kTouchDetails, {}, 2, 2, true, RunGetAndTouch},
      {"incr",
       "KEY [DELTA]",
       "add to a counter and print its new value",
       kIncrementDetails,
       {},
       1,
       2,
       true,
       RunIncrement},
      {"decr",
       "KEY [DELTA]",
       "subtract from a counter and print its new value",
       kIncrementDetails,
       {},
       1,
       2,
       true,
       RunDecrement},
      {"counter",
       "KEY [create|swap|delete]...",
       "print, make, set or delete a counter",
       kCounterDetails,
       {"ttl"},
       1,
       4,
       true,
       RunCounter},
      {"import", "[FILE]", "store many pairs from a file or standard input", kImportDetails, import_flags, 0, 1, true,
       RunImport},
      {"export", "[KEY...]", "print many pairs, for import", kExportDetails, export_flags, 0, kMany, true, RunExport},
      {"stat", "[PREFIX...]", "print the server's figures", kStatDetails, {"client", "group"}, 0, kMany, true, RunStat},
      {"watch", "", "print the figures and their rates every second", kWatchDetails, repeat_flags, 0, 0, true,
       RunWatch},
      {"top", "", "print a line every second of what the server does", kTopDetails, repeat_flags, 0, 0, true, RunTop},
      {"clients",
       "",
       "print who is connected",
       kClientsDetails,
       {"group"},
       0,
       0,
       true,
       RunClients,
       /*for_operators=*/true},
      {"kick", "ID...", "end connections", kKickDetails, {"group"}, 1, kMany, true, RunKick, /*for_operators=*/true},
      {"cluster",
       "status|handover|resize|add|remove|rebalance|cancel [ARG]",
       "show groups and their servers, change a primary,\nmove slots between groups",
       kClusterDetails,
       {"group", "yes", "dry_run", "min_insync"},
       1,
       2,
       true,
       RunCluster},
      {"ping", "", "ask the server's CPU for an answer and time it", "", repeat_flags, 0, 0, true, RunPing},
      {"doctor",
       "[ADDRESS]",
       "find what stops this host, or the way to a server",
       kDoctorDetails,
       {},
       0,
       1,
       false,
       RunDoctor},
      {"help", "[COMMAND]", "explain kv_cli, or a command", "", {}, 0, 1, false, RunHelp},
  };
}

}  // namespace

absl::Span<const Command> Commands() {
  static const auto* const kCommands = new std::vector<Command>(MakeCommands());
  return *kCommands;
}

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace farlook::cli
