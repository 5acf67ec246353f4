// The memory server as a program. docs/operations.md describes flags, signals, exit codes and log lines.

#include <malloc.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/command_line.h"
#include "base/steady_time.h"
#include "farlook/version.h"
#include "kv/layout/limits.h"
#include "rdma/shared_memory.h"
#include "server/base/byte_size.h"
#include "server/base/log.h"
#include "server/base/log_writer.h"
#include "server/daemon/descriptors.h"
#include "server/daemon/self_check.h"
#include "server/daemon/server.h"
#include "server/daemon/server_flags.h"
#include "server/daemon/server_options.h"
#include "server/daemon/stopper.h"

ABSL_FLAG(farlook::server::AddressList, listen, {}, "addresses to listen at, separated by commas; may be repeated");
ABSL_FLAG(farlook::server::ByteSize, memory, {1ull << 30}, "memory for keys, values and index");
ABSL_FLAG(std::string, memory_file, "", "file on tmpfs or hugetlbfs that keeps the table; empty: none");
ABSL_FLAG(bool, begin_empty, false, "discard a table in --memory_file");
ABSL_FLAG(farlook::server::ByteSize, counter_memory, {16ull << 20}, "memory for counters; 0: none");
ABSL_FLAG(absl::Duration, counter_patience, absl::Seconds(2), "before a client that ignores deletions is disconnected");
ABSL_FLAG(farlook::server::HugePagesFlag, huge_pages, {}, "auto, 1g, 2m, transparent or none");
ABSL_FLAG(farlook::server::NumaNode, numa_node, {}, "auto, or the number of a NUMA node");
ABSL_FLAG(uint64_t, hash_seed, 0, "seed of keys' hashes; 0: random");
ABSL_FLAG(int, workers, 1, "threads that apply writes");
ABSL_FLAG(bool, dump_table, false, "core dumps hold keys, values and counters");
ABSL_FLAG(bool, evict, false, "a cache: evict items when the memory is full instead of refusing writes");
ABSL_FLAG(farlook::server::ByteSize, max_value_bytes, {farlook::kv::kDefaultMaxValueBytes}, "longest value");
ABSL_FLAG(uint32_t, window, farlook::kv::kDefaultWindow, "requests without a reply that a client may have");
ABSL_FLAG(int64_t, max_clients, 1024, "connections at once");
ABSL_FLAG(uint64_t, max_kept_sessions, 4096, "sessions of clients that are gone, kept to be resumed");
ABSL_FLAG(absl::Duration, keep_sessions, absl::Minutes(10), "how long a session is kept");
ABSL_FLAG(std::string, group, "", "where the record of its group is: file:///folder/NAME, etcd://host:port/NAME");
ABSL_FLAG(std::string, group_user, "", "user of --users as which this server follows others of its group; empty: none");
ABSL_FLAG(uint64_t, begin_group_anew, 0, "epoch of a group whose members are all gone; 0: none");
ABSL_FLAG(bool, from_copy, false, "the group begins from the copy that the running server keeps; read at SIGHUP");
ABSL_FLAG(absl::Duration, suspicion, absl::Milliseconds(300), "silence after which a backup takes the primary's place");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(150), "of the group, where this server begins it");
ABSL_FLAG(int64_t, replicas, 2, "members that the group should have, where this server begins it");
ABSL_FLAG(int64_t, min_insync, 1,
          "minimum of members in sync to acknowledge a write, where this server begins the group");
ABSL_FLAG(std::string, cluster, "", "cluster that its group joins, where this server begins the group");
ABSL_FLAG(std::string, slots, "", "slots that a new group of the cluster begins with, such as 0-2047,3000");
ABSL_FLAG(std::string, users, "", "file of users and their roles; empty: no authentication");
ABSL_FLAG(farlook::server::FileMode, socket_mode, {}, "mode of the files of shm:// addresses; empty: the umask's");
ABSL_FLAG(std::string, socket_group, "", "group of the files of shm:// addresses; empty: this process'");
ABSL_FLAG(bool, client_figures, false, "ask clients how many gets they make, and how long these take");
ABSL_FLAG(int64_t, slow_ms, 0, "log requests that take at least N milliseconds; 0: none");
ABSL_FLAG(int64_t, spin_us, 20, "microseconds without work before a worker sleeps");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(2), "how long a stopping server lets clients finish");
ABSL_FLAG(absl::Duration, liveness, absl::Seconds(3), "time to detect a client that vanished");
ABSL_FLAG(bool, check, false, "report what would prevent a start, and do not start");
ABSL_FLAG(bool, print_flags, false, "print the flags in force, and do not start");
ABSL_FLAG(farlook::server::LogLevelFlag, log_level, {}, "debug, info, warning, error or none");

namespace farlook::server {
namespace {

constexpr char kHelp[] = R"(kv_server keeps keys and values in memory that clients read by themselves.

  kv_server --listen=shm:///tmp/farlook --memory=4GiB

  --listen=ADDRESS[,ADDRESS]  where clients connect: shm:///absolute/path, rdma://host:port, tcp://host:port, or
                              auto://host:port for both of these, or the one that is available. Required; may be
                              repeated
  --memory=SIZE               for keys, values and index: 16MiB to 2TiB (1GiB)
  --memory_file=PATH          keep the table in the file PATH, and counters in PATH.counters, on tmpfs or hugetlbfs: a
                              server that finds them continues with them, also after a crash (docs/operations.md). It
                              has no --group
  --begin_empty               discard a table in --memory_file, and begin an empty one
  --counter_memory=SIZE       for counters, 64 bytes each, beside --memory; 0: no counters (16MiB)
  --counter_patience=DURATION how long a client may ignore that a counter was deleted (2s)
  --huge_pages=KIND           auto, 1g, 2m, transparent, none (auto: the largest that can be had)
  --numa_node=NODE            auto, or the node to bind the memory to (auto: the device's)
  --workers=N                 threads that apply writes, 1 to 64 (1)
  --hash_seed=N               seed of keys' hashes; 0: random. Keep it secret: it allows choosing keys that collide (0)
  --dump_table                put keys, values and counters into the server's core dumps, for debugging
  --evict                     be a cache: when the memory is full, evict the least used items instead of refusing
                              writes; items put with `keep` and counters are never evicted
  --max_value_bytes=SIZE      longest value, up to 512MiB (16MiB)
  --window=N                  requests without a reply that a client may have, 1 to 4096 (256)
  --max_clients=N             connections at once (1024)
  --max_kept_sessions=N       sessions of vanished clients kept to be resumed (4096)
  --keep_sessions=DURATION    for how long at most (10m)
  --group=URL                 be a member of a group, a primary and its backups, whose record is file:///folder/NAME or
                              etcd://host:port,host:port/NAME: docs/cluster.md
  --group_user=NAME           user of --users, with a secret and the role admin, as which this server follows others
                              of its group that have --users; over shm:// the kernel identifies it
  --begin_group_anew=EPOCH    if all members of the group are gone: begin it again with an empty table. EPOCH is its
                              last epoch, which the log names when this is needed
  --from_copy                 with --begin_group_anew, read at SIGHUP: a running server that was removed from its group
                              and keeps its copy begins the group with that. What was acknowledged later is lost
  --suspicion=DURATION        how long the group's primary may be silent before a backup takes its place (300ms)
  --lease=DURATION            how long clients may rely on READs after they checked the group's epoch; set when this
                              server begins the group; on shm:// they check each time (150ms)
  --replicas=N                members that the group should have, 1 to 16; set when this server begins the group.
                              Further servers are spares, which replace lost members (2)
  --min_insync=N              with fewer members in sync no write is acknowledged; set when the group begins (1)
  --cluster=NAME              cluster that the group joins when this server begins it, in the same directory; for an
                              existing group the same name, or omitted
  --slots=RANGES              of the cluster's 4,096 slots, those that a new group begins with, as 0-2047,3000 (none)
  --users=FILE                users and their roles (docs/security.md); read again at SIGHUP. Without it every host
                              that reaches an rdma:// or tcp:// address may read and write all keys
  --socket_mode=MODE          of the files of shm:// addresses, as 660; write permission allows connecting (the umask's)
  --socket_group=GROUP        of those files (this process')
  --client_figures            ask clients how many gets they make, and how long these take: stat, top and the
                              exporter show it
  --slow_ms=N                 log requests that are not answered within N milliseconds; 0: none (0)
  --spin_us=N                 microseconds without work before a worker sleeps (20)
  --drain_timeout=DURATION    how long a stopping server lets clients finish (2s)
  --liveness=DURATION         time to detect a client that vanished, over rdma (3s)
  --log_level=LEVEL           debug, info, warning, error, none (info)
  --flagfile=FILE             more flags, one a line
  --print_flags               print the flags in force, as a flagfile, and do not start
  --check                     report what would prevent a start and how to fix it, and do not start
  --help, --version

Sizes take k, m, g, t (KiB, MiB, GiB, TiB). SIGTERM and SIGINT stop it in order. At SIGHUP it reads its
flags and --users again: --log_level changes at once, and the log lists the flags that need a restart.
Documents such as docs/cluster.md are in the sources, and in /usr/share/doc/farlook-doc (package farlook-doc).

Exit codes:
  0  stopped as asked, or --check found no trouble
  1  bad flag
  2  address cannot be used
  3  not enough memory or other resources
  4  no permission
  5  anything else
  6  --memory_file has something that this server cannot continue; it is unchanged
)";

// The flags that --print_flags prints, in this order, and --help explains.
const std::vector<absl::string_view>& FlagNames() {
  static const auto* const names = new std::vector<absl::string_view>{
      "listen",         "memory",          "memory_file", "begin_empty",      "counter_memory",    "huge_pages",
      "numa_node",      "max_value_bytes", "max_clients", "window",           "max_kept_sessions", "keep_sessions",
      "workers",        "spin_us",         "liveness",    "counter_patience", "drain_timeout",     "users",
      "socket_mode",    "socket_group",    "log_level",   "hash_seed",        "dump_table",        "evict",
      "client_figures", "slow_ms",         "group",       "group_user",       "begin_group_anew",  "from_copy",
      "suspicion",      "lease",           "replicas",    "min_insync",       "cluster",           "slots"};
  return *names;
}

enum ExitCode : int {
  kStopped = 0,
  kBadFlag = 1,
  kBadAddress = 2,
  kNoResources = 3,
  kNoPermission = 4,
  kOther = 5,
  kBadMemoryFile = 6
};

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kBadFlag;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:  // no such device, or none at all
    case absl::StatusCode::kUnavailable:         // a name that does not resolve, a lost device
      return kBadAddress;
    case absl::StatusCode::kResourceExhausted:
      return kNoResources;
    case absl::StatusCode::kPermissionDenied:
      return kNoPermission;
    case absl::StatusCode::kDataLoss:
      return kBadMemoryFile;
    default:
      return kOther;
  }
}

// --help and --version print to stdout and exit with success, unlike Abseil's.
void AnswerQuestions(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view arg = argv[i];
    if (arg == "--") return;
    if (arg == "--help" || arg == "-help" || arg == "-h") {
      std::fputs(kHelp, stdout);
      std::exit(kStopped);
    }
    if (arg == "--version" || arg == "-version") {
      std::puts("kv_server " FARLOOK_VERSION);
      std::exit(kStopped);
    }
  }
}

ServerOptions OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen).addresses;
  options.memory_bytes = absl::GetFlag(FLAGS_memory).bytes;
  options.memory_file.path = absl::GetFlag(FLAGS_memory_file);
  options.memory_file.begin_empty = absl::GetFlag(FLAGS_begin_empty);
  options.counter_memory_bytes = absl::GetFlag(FLAGS_counter_memory).bytes;
  options.counter_patience_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_counter_patience));
  options.huge_pages = absl::GetFlag(FLAGS_huge_pages).pages;
  options.numa_node = absl::GetFlag(FLAGS_numa_node).node;
  options.hash_seed = absl::GetFlag(FLAGS_hash_seed);
  options.workers = absl::GetFlag(FLAGS_workers);
  options.dump_table = absl::GetFlag(FLAGS_dump_table);
  options.evict = absl::GetFlag(FLAGS_evict);
  options.max_value_bytes = absl::GetFlag(FLAGS_max_value_bytes).bytes;
  options.window = absl::GetFlag(FLAGS_window);
  options.max_clients = absl::GetFlag(FLAGS_max_clients);
  options.max_kept_sessions = absl::GetFlag(FLAGS_max_kept_sessions);
  options.keep_sessions_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_keep_sessions));
  options.group = absl::GetFlag(FLAGS_group);
  options.group_user = absl::GetFlag(FLAGS_group_user);
  options.begin_group_anew.epoch = absl::GetFlag(FLAGS_begin_group_anew);
  options.begin_group_anew.from_copy = absl::GetFlag(FLAGS_from_copy);
  options.suspicion_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_suspicion));
  options.lease_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_lease));
  options.replicas = absl::GetFlag(FLAGS_replicas);
  options.min_insync = absl::GetFlag(FLAGS_min_insync);
  options.cluster = absl::GetFlag(FLAGS_cluster);
  options.slots = absl::GetFlag(FLAGS_slots);
  options.users = absl::GetFlag(FLAGS_users);
  options.socket_files.mode = absl::GetFlag(FLAGS_socket_mode).mode;
  options.socket_files.group = absl::GetFlag(FLAGS_socket_group);
  options.client_figures = absl::GetFlag(FLAGS_client_figures);
  options.slow_ms = absl::GetFlag(FLAGS_slow_ms);
  options.spin_us = absl::GetFlag(FLAGS_spin_us);
  options.liveness_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_liveness));
  options.drain_timeout_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_drain_timeout));
  return options;
}

// Longest time that systemd waits for the next step of the preparation, and the rate at which memory is freed.
constexpr int64_t kStepS = 300;
constexpr int64_t kGiveBackGiBS = 4;

// Returns a line for sd_notify() that asks for more time than the unit's TimeoutStartSec or TimeoutStopSec.
std::string MoreTime(int64_t seconds) { return absl::StrCat("EXTEND_TIMEOUT_USEC=", seconds * 1'000'000, "\n"); }

// Reports the preparation of the memory: to systemd each step, to the log its beginning and one step a second.
class PreparationLog {
 public:
  explicit PreparationLog(uint64_t bytes) : bytes_(bytes) {}

  // Several threads call this.
  void Note(int percent) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (percent <= logged_percent_) return;
    logged_percent_ = percent;
    if (percent == 0) {
      Log(LogLevel::kInfo, "preparing memory", {{"bytes", bytes_}});
      sd_notify(/*unset_environment=*/0, absl::StrCat(MoreTime(kStepS), "STATUS=preparing memory").c_str());
      return;
    }
    sd_notify(/*unset_environment=*/0,
              absl::StrCat(MoreTime(kStepS), "STATUS=preparing memory, ", percent, " %").c_str());
    if (const absl::Time now = SteadyNow(); now - logged_ >= absl::Seconds(1)) {
      logged_ = now;
      Log(LogLevel::kInfo, "preparing memory", {{"percent", percent}});
    }
  }

 private:
  const uint64_t bytes_;
  absl::Mutex mutex_;
  int logged_percent_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Time logged_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
};

// Reads the command line and its flagfiles again. Applies what can change while a server runs; logs that the rest waits
// for the next start. A flag that is missing now keeps its value; if one is wrong, all keep theirs.
void ReloadFlags(const std::vector<std::string>& words, const std::vector<absl::string_view>& names) {
  const auto values = [&] {
    std::vector<std::string> all;
    for (const absl::string_view name : names) all.push_back(absl::FindCommandLineFlag(name)->CurrentValue());
    return all;
  };
  const std::vector<std::string> before = values();
  ForgetAddresses();
  if (absl::Status status = ParseCommandLine("kv_server", words, names); !status.ok()) {
    ForgetAddresses();
    std::string unused;
    for (size_t i = 0; i < names.size(); ++i) absl::FindCommandLineFlag(names[i])->ParseFrom(before[i], &unused);
    Log(LogLevel::kError, "not reloaded", {{"reason", status.message()}});
    return;
  }
  const std::vector<std::string> after = values();
  SetLogLevel(absl::GetFlag(FLAGS_log_level).level);
  for (size_t i = 0; i < names.size(); ++i) {
    if (before[i] == after[i] || names[i] == "log_level") continue;
    if (absl::GetFlag(FLAGS_from_copy) && (names[i] == "from_copy" || names[i] == "begin_group_anew")) continue;
    Log(LogLevel::kWarning, "takes effect at the next start", {{"flag", names[i]}, {"value", after[i]}});
  }
  Log(LogLevel::kInfo, "reloaded", {{"log_level", AbslUnparseFlag(absl::GetFlag(FLAGS_log_level))}});
}

// Reloads what can change while the server runs.
void Reload(Server* server, const std::vector<std::string>& words, const std::vector<absl::string_view>& names) {
  sd_notify(0, "RELOADING=1");
  ReloadFlags(words, names);
  if (absl::Status status = server->ReloadUsers(); !status.ok()) {
    Log(LogLevel::kError, "the users are unchanged", {{"reason", status.message()}});
  }
  if (absl::GetFlag(FLAGS_from_copy)) server->BeginGroupFromCopy(absl::GetFlag(FLAGS_begin_group_anew));
  sd_notify(0, "READY=1");
}

// Buffers of a group's records, some of them long, are passed between threads. The C library would return them to the
// kernel again and again, which clears them each time. It keeps this much freed memory for each thread instead.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

int Main(int argc, char** argv) {
  const sigset_t signals = Stopper::Signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // first of all: every signal is then answered with a log line
  AnswerQuestions(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<absl::string_view> names = FlagNames();
  names.insert(names.end(), {"check", "print_flags"});
  if (absl::Status status = ParseCommandLine("kv_server", words, names); !status.ok()) {
    Log(LogLevel::kError, "bad command line", {{"reason", status.message()}});
    return kBadFlag;
  }
  if (absl::GetFlag(FLAGS_print_flags)) {
    std::fputs(FlagsToText(FlagNames()).c_str(), stdout);
    return kStopped;
  }
  SetLogLevel(absl::GetFlag(FLAGS_log_level).level);
#ifdef NDEBUG
  // Debian builds Abseil with its deadlock detection, at some hundred instructions a lock. Our tests keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif

  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // beyond a limit of file sizes, write() fails instead
  if (absl::GetFlag(FLAGS_check)) {
    std::string findings;
    const bool good = SelfCheck(OptionsFromFlags(), &findings);
    std::fputs(findings.c_str(), stdout);
    return good ? kStopped : kOther;
  }
  LogWriter writer(STDERR_FILENO);
  Stopper stopper(&writer);
  ServerOptions options = OptionsFromFlags();
  if (!options.group.empty()) KeepFreedMemory();
  options.deposed = [&stopper] { stopper.BeginAnew(); };
  if (absl::Status few = RaiseDescriptorLimit(options); !few.ok() && CheckOptions(options).ok()) {
    Log(LogLevel::kWarning, "too few file descriptors for --max_clients", {{"reason", few.message()}});
  }
  PreparationLog preparation(options.memory_bytes);
  auto server = Server::Start(options, [&](int percent) { preparation.Note(percent); });
  if (!server.ok()) {
    Log(LogLevel::kError, "cannot start", {{"reason", server.status().message()}});
    return ExitCodeFor(server.status());
  }
  stopper.Ready([&] { Reload(server->get(), words, names); });
  (*server)->JoinGroup();
  (*server)->LogReady();  // last: a script may react to this line with a signal that must stop it in order
  sd_notify(/*unset_environment=*/0,
            absl::StrCat("READY=1\nSTATUS=listening at ", absl::StrJoin((*server)->addresses(), ", ")).c_str());

  stopper.Await();
  Log(LogLevel::kInfo, "stopping", {{"signal", stopper.signal_name()}});
  // systemd is not notified of the stop of a process that restarts.
  sd_notify(0, stopper.begins_anew() ? "STATUS=restarting in its group" : "STOPPING=1");
  (*server)->Stop();
  const bool gives_back = options.memory_file.path.empty();
  if (gives_back) {
    Log(LogLevel::kInfo, "clients are gone, giving memory back", {{"bytes", options.memory_bytes}});
  } else {
    Log(LogLevel::kInfo, "clients are gone, the table stays", {{"file", options.memory_file.path}});
  }
  const auto gib = static_cast<int64_t>(options.memory_bytes >> 30);
  sd_notify(0, absl::StrCat(MoreTime(kStepS + kGiveBackGiBS * gib),
                            gives_back ? "STATUS=giving memory back" : "STATUS=ending")
                   .c_str());
  server->reset();
  if (stopper.begins_anew()) {
    // Starts another incarnation: with other memory, and without connections.
    Log(LogLevel::kInfo, "restarting");
    writer.Flush();
    execv("/proc/self/exe", argv);
    Log(LogLevel::kError, "cannot restart", {{"errno", errno}});
    return kOther;
  }
  Log(LogLevel::kInfo, "stopped");
  return kStopped;
}

}  // namespace
}  // namespace farlook::server

int main(int argc, char** argv) { return farlook::server::Main(argc, argv); }
