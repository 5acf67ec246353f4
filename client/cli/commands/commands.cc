#include "client/cli/commands/commands.h"

#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/nearest.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

constexpr size_t kMany = std::numeric_limits<size_t>::max();

constexpr absl::string_view kGetDetails =
    "Prints the value's exact bytes into a file or a pipe. On a terminal control\n"
    "characters and bytes that are not UTF-8 are escaped, unless --raw is given, and\n"
    "a line feed follows, as in a session. Several keys need --json or\n"
    "--print_version. The server's CPU takes no part.\n";

constexpr absl::string_view kExistsDetails =
    "Prints true or false, a line for each key. Exits with 1 if one does not exist.\n";

constexpr absl::string_view kDeleteDetails =
    "Exits with 1 if a key does not exist.\n"
    "\n"
    "With --prefix it deletes all keys that begin with PREFIX; --prefix= is all keys.\n"
    "It prints how many there are and asks; without a terminal it needs --yes. An\n"
    "item that is stored again meanwhile stays. A counter is deleted with what was\n"
    "added to it meanwhile. With --dry_run it only prints how many there are.\n";

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
    "TIME is a number with a unit: 500ms, 30s, 5m, 2h, 7d. The key's item expires\n"
    "that long after now; its value and version do not change.\n"
    "Exits with 1 if the key does not exist.\n";

constexpr absl::string_view kPersistDetails = "Exits with 1 if the key does not exist.\n";

constexpr absl::string_view kTtlDetails =
    "Prints milliseconds, as 29998ms, or never. Exits with 1 if the key does not\n"
    "exist, or has expired. The server's CPU takes no part.\n";

constexpr absl::string_view kIncrementDetails =
    "Changes a counter by DELTA (1 if left out, at most 2^40), prints its new value.\n"
    "The counter must exist, or --create creates it in the same step, with --initial\n"
    "before the change and an expiry of --ttl. Its values lie in [-2^61, 2^61); a\n"
    "change that would leave this range fails and changes nothing.\n";

constexpr absl::string_view kCounterDetails =
    "    counter KEY                          prints the value\n"
    "    counter KEY create [INITIAL]         makes one, of 0 if left out; exits\n"
    "                                         with 2 if there is one\n"
    "    counter KEY swap EXPECTED DESIRED    sets it if it is EXPECTED; else exits\n"
    "                                         with 2\n"
    "    counter KEY delete                   deletes it\n"
    "\n"
    "With --ttl, create makes one that is deleted after that time, or a little later.\n"
    "A number that begins with a dash goes after --: counter KEY create -- -5\n";

constexpr absl::string_view kImportDetails =
    "Reads one pair a line, as export writes them, and keeps many writes in flight.\n"
    "A pair may have an expiry (ttl_ms, counted from now on), keep, or the number of\n"
    "a counter, which is created or set. A member that is not known is an error.\n"
    "On a terminal it shows progress. A line that is wrong is reported with its\n"
    "number, and the others are stored. If the server fails, import stops and prints\n"
    "the --start_line to continue with: earlier lines are done, or were reported.\n"
    "Lines with the same key are stored in their order. Storing a pair twice does no\n"
    "harm.\n";

constexpr absl::string_view kExportDetails =
    "Takes the keys from its operands, from --keys=FILE or from standard input, one\n"
    "a line (written in --key_encoding), and prints the pairs in that order. Keys\n"
    "that do not exist are reported; it then exits with 1. Without any key it exits\n"
    "with 64. A line has what import needs: the value or the number of a counter,\n"
    "how long it still lives (ttl_ms), and whether it is never evicted (keep).\n"
    "\n"
    "With --prefix it finds the keys itself, by a scan. All that is in a table:\n"
    "\n"
    "    kv_cli export --prefix= > FILE\n"
    "\n"
    "This is no snapshot: each pair is as it was at some moment. A key may come\n"
    "twice, which does import no harm. Keys that go meanwhile are left out.\n";

constexpr absl::string_view kScanDetails =
    "The whole table is read, whatever the prefix; over shm:// and rdma:// the\n"
    "server's processor takes no part. A line is a key and, after tabs, what the\n"
    "flags ask for: version, time to live, value. Control characters and backslashes\n"
    "are escaped, as --key_encoding=escaped of other commands reads them.\n"
    "\n"
    "A key that exists from the beginning to the end is printed at least once,\n"
    "whatever is written meanwhile; twice if the table grew or shrank. The order has\n"
    "no meaning. After --limit keys, an error or Ctrl-C, the cursor that continues is\n"
    "printed to standard error, or with --json as the last object. Another kv_cli can\n"
    "use it.\n";

constexpr absl::string_view kCountDetails =
    "All keys are read, as by scan. \"stat keys\" asks the server for its own figure,\n"
    "without a prefix.\n";

constexpr absl::string_view kBigKeysDetails =
    "A line for each: the length of its value in bytes, a tab, the key, escaped as\n"
    "scan does. The longest come first; --limit of them, 20 if left out.\n";

constexpr absl::string_view kHistogramDetails =
    "Counts keys by the length of their values, and by how long they still live. All\n"
    "keys are read, or those with a prefix. The age of an item is not recorded.\n";

constexpr absl::string_view kStatDetails =
    "A line \"name value\" for each, or one JSON object. PREFIX selects the names that\n"
    "begin with it, such as lock_ or requests_; docs/operations.md explains them. For\n"
    "a cluster it prints sums over all groups, and the maximum of times and lengths.\n";

constexpr absl::string_view kTopDetails =
    "Until Ctrl-C: writes and reads by message a second, processors, the share of\n"
    "the memory in use, keys, clients. Gets do not reach the server. A server with\n"
    "--client_figures asks its clients for their number a second and the 99th\n"
    "percentile of their time; clients report every 10 s. Before the first report,\n"
    "and without --client_figures, both columns show -.\n";

constexpr absl::string_view kWatchDetails =
    "Until Ctrl-C. It shows the figures that changed: on a terminal in place, since\n"
    "it began, as many as there are lines; otherwise at each time. Cumulative\n"
    "histogram buckets (*_below_*) are left out; stat and --json have them.\n";

constexpr absl::string_view kClientsDetails =
    "A line for each connection, or one JSON object: its id, from where, the user\n"
    "and what it may do, its state, since when, requests that arrived, bytes that\n"
    "wait for it, and, with --client_figures of kv_server, gets a second and what 99\n"
    "of 100 take at most. A client whose state is atomic is gone, but its process was\n"
    "stopped within an atomic and counts for --max_clients: continue it, end it, or\n"
    "kick it. A full server still answers root and its own user on its host, and the\n"
    "role admin. With --users this command needs the role admin.\n";

constexpr absl::string_view kKickDetails =
    "ID is the id that `clients` prints. The client may reconnect and resume its\n"
    "session; revoke its user to prevent that. If its state is atomic, others get its\n"
    "place, and its state is kicked until its process continues or ends.\n"
    "Exits with 1 if there is no such client. Where the server has --users: the role\n"
    "admin.\n";

constexpr absl::string_view kClusterDetails =
    "For a group (kv_server --group) or a cluster of groups. The address of a group\n"
    "lists all its servers, separated by commas, as backups do not answer. With\n"
    "--users it needs the role admin.\n"
    "\n"
    "    cluster status          the slots of each group, and those that move; its\n"
    "                            epoch, its servers, and how many records each lags\n"
    "                            behind. Exits with 0 if the group is whole, 1 if it\n"
    "                            is degraded and serves, 2 if reads or writes wait, 3\n"
    "                            if it is not known. --wait waits until it is whole\n"
    "    cluster handover        makes a backup the primary; clients are not\n"
    "                            interrupted. A cluster needs --group\n"
    "    cluster resize N        sets the number of servers of the group to N: spares\n"
    "                            are filled, or surplus members become spares.\n"
    "                            --min_insync of them must have each write\n"
    "    cluster add GROUP       moves its share of the slots to a group, which was\n"
    "                            started with kv_server --cluster and without --slots\n"
    "    cluster remove GROUP    moves its slots to the others and removes it from\n"
    "                            the cluster; then its servers may be stopped\n"
    "    cluster rebalance       moves the fewest slots that give all groups the same\n"
    "                            number\n"
    "    cluster cancel          gives up the move that is under way\n"
    "\n"
    "Commands that move slots print a plan and ask; without a terminal they need\n"
    "--yes. Clients are not interrupted. The groups move the slots: Ctrl-C ends the\n"
    "command, not the move. Running the command again waits for a move that is under\n"
    "way, and makes a new plan.\n";

constexpr absl::string_view kDoctorDetails =
    "Looks at RDMA devices, ports, addresses, limits and permissions, at the way to\n"
    "ADDRESS, and whether a Farlook server of this version answers there. Each line\n"
    "is good, advice or trouble, with the fix. Exits with 3 if there is trouble.\n";

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
  return context.Fail(ExitCode::kUsage, UnknownCommand(name));
}

std::vector<Command> MakeCommands() {
  const std::vector<absl::string_view> write_flags = {"file", "print_version", "ttl", "keep_ttl", "keep"};
  const std::vector<absl::string_view> import_flags = {"format", "insert_only", "start_line", "max_errors",
                                                       "in_flight"};
  const std::vector<absl::string_view> export_flags = {"keys",       "prefix",    "format",   "start_line",
                                                       "max_errors", "in_flight", "mib_per_s"};
  const std::vector<absl::string_view> scan_flags = {"values", "versions", "ttls", "limit", "cursor", "mib_per_s"};
  const std::vector<absl::string_view> repeat_flags = {"interval_ms", "count", "group"};
  return {
      {"get",
       "KEY...",
       "print the value of a key",
       kGetDetails,
       {"print_version", "raw"},
       1,
       kMany,
       true,
       RunGet,
       Access::kRead},
      {"exists", "KEY...", "print whether a key exists", kExistsDetails, {}, 1, kMany, true, RunExists, Access::kRead},
      {"put", "KEY [VALUE]", "store a value, whether the key exists or not", kWriteDetails, write_flags, 1, 2, true,
       RunPut},
      {"insert", "KEY [VALUE]", "store a value if the key is absent; else exit with 2", kWriteDetails, write_flags, 1,
       2, true, RunInsert},
      {"replace", "KEY [VALUE]", "store a value if the key exists; else exit with 1", kWriteDetails, write_flags, 1, 2,
       true, RunReplace},
      {"cas", "KEY VERSION [VALUE]", "store a value if the key has that version; else exit\nwith 2",
       kCompareAndSetDetails, write_flags, 2, 3, true, RunCompareAndSet},
      {"delete",
       "[KEY...]",
       "delete keys, or all with a prefix",
       kDeleteDetails,
       {"prefix", "yes", "dry_run", "in_flight", "mib_per_s"},
       0,
       kMany,
       true,
       RunDelete},
      {"touch", "KEY TIME", "set the time after which a key expires", kTouchDetails, {}, 2, 2, true, RunTouch},
      {"persist", "KEY", "remove a key's expiry", kPersistDetails, {}, 1, 1, true, RunPersist},
      {"ttl", "KEY", "print the remaining time to live of a key", kTtlDetails, {}, 1, 1, true, RunTtl, Access::kRead},
      {"gettouch",
       "KEY TIME",
       "print the value of a key, and touch it",
       kTouchDetails,
       {"raw"},
       2,
       2,
       true,
       RunGetAndTouch},
      {"incr",
       "KEY [DELTA]",
       "add to a counter and print its new value",
       kIncrementDetails,
       {"create", "initial", "ttl"},
       1,
       2,
       true,
       RunIncrement},
      {"decr",
       "KEY [DELTA]",
       "subtract from a counter and print its new value",
       kIncrementDetails,
       {"create", "initial", "ttl"},
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
      {"export", "[KEY...]", "print many pairs, for import", kExportDetails, export_flags, 0, kMany, true, RunExport,
       Access::kRead},
      {"scan", "[PREFIX]", "print all keys, or those with a prefix", kScanDetails, scan_flags, 0, 1, true, RunScan,
       Access::kRead},
      {"count",
       "[PREFIX]",
       "print how many keys there are, or have a prefix",
       kCountDetails,
       {"mib_per_s"},
       0,
       1,
       true,
       RunCount,
       Access::kRead},
      {"bigkeys",
       "[PREFIX]",
       "print the keys with the longest values",
       kBigKeysDetails,
       {"limit", "mib_per_s"},
       0,
       1,
       true,
       RunBigKeys,
       Access::kRead},
      {"histogram",
       "[PREFIX]",
       "count keys by length and by time to live",
       kHistogramDetails,
       {"mib_per_s"},
       0,
       1,
       true,
       RunHistogram,
       Access::kRead},
      {"stat",
       "[PREFIX...]",
       "print the server's figures",
       kStatDetails,
       {"client", "group"},
       0,
       kMany,
       true,
       RunStat,
       Access::kOperate},
      {"watch", "", "print the figures and their rates every second", kWatchDetails, repeat_flags, 0, 0, true, RunWatch,
       Access::kOperate},
      {"top", "", "print a line every second of what the server does", kTopDetails, repeat_flags, 0, 0, true, RunTop,
       Access::kOperate},
      {"clients", "", "list the connections", kClientsDetails, {"group"}, 0, 0, true, RunClients, Access::kOperate},
      {"kick", "ID...", "end connections", kKickDetails, {"group"}, 1, kMany, true, RunKick, Access::kOperate},
      {"cluster",
       "status|handover|resize|add|remove|rebalance|cancel [ARG]",
       "show groups and their servers, change a primary,\nmove slots between groups",
       kClusterDetails,
       {"group", "yes", "dry_run", "min_insync"},
       1,
       2,
       true,
       RunCluster},
      {"ping", "", "ask the server's CPU for an answer and time it", "", repeat_flags, 0, 0, true, RunPing,
       Access::kOperate},
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

std::string UnknownCommand(absl::string_view name) {
  // Words of other stores' command lines whose spelling leads to no command, or to a wrong one.
  struct Word {
    absl::string_view theirs, advice;
  };
  static constexpr absl::string_view kDeleteAll = "delete --prefix=, which deletes all keys";
  static constexpr Word kWords[] = {
      {"add", "insert"},
      {"append", "get --print_version, get and cas: values are written whole"},
      {"auth", "--user and --secret_file"},
      {"dbsize", "count, or stat keys"},
      {"decrby", "decr KEY DELTA"},
      {"del", "delete"},
      {"expire", "touch KEY TIME, as touch KEY 30s"},
      {"flush_all", kDeleteAll},
      {"flushall", kDeleteAll},
      {"flushdb", kDeleteAll},
      {"gat", "gettouch KEY TIME"},
      {"getex", "gettouch KEY TIME"},
      {"gets", "get --print_version for the version that cas takes"},
      {"incrby", "incr KEY DELTA"},
      {"info", "stat"},
      {"keys", "scan PREFIX"},
      {"mget", "get --json KEY..."},
      {"monitor", "top, or watch"},
      {"mset", "import"},
      {"pexpire", "touch KEY TIME, as touch KEY 500ms"},
      {"prepend", "get --print_version, get and cas: values are written whole"},
      {"psetex", "put --ttl=TIME KEY VALUE"},
      {"pttl", "ttl"},
      {"remove", "delete"},
      {"rm", "delete"},
      {"set", "put"},
      {"setex", "put --ttl=TIME KEY VALUE"},
      {"setnx", "insert"},
      {"stats", "stat"},
      {"unlink", "delete"},
  };
  const std::string lower = absl::AsciiStrToLower(name);
  std::string advice;
  for (const Word& word : kWords) {
    if (word.theirs == lower) advice = absl::StrCat("use ", word.advice);
  }
  if (advice.empty()) {
    std::vector<absl::string_view> names;
    for (const Command& command : Commands()) names.push_back(command.name);
    const absl::string_view nearest = Nearest(lower, names);
    if (!nearest.empty()) advice = absl::StrCat("did you mean ", nearest, "?");
  }
  return absl::StrCat("unknown command ", Quoted(name), advice.empty() ? "" : ": ", advice);
}

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace farlook::cli
