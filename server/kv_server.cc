// The memory server as a program. docs/operations.md describes flags, signals, exit codes and log lines.

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <atomic>
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
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "farlook/version.h"
#include "kv/limits.h"
#include "rdma/shared_memory.h"
#include "server/byte_size.h"
#include "server/command_line.h"
#include "server/descriptors.h"
#include "server/log.h"
#include "server/log_writer.h"
#include "server/self_check.h"
#include "server/server.h"
#include "server/server_flags.h"
#include "server/server_options.h"

ABSL_FLAG(farlook::server::AddressList, listen, {}, "addresses to listen at, separated by commas; may be repeated");
ABSL_FLAG(farlook::server::ByteSize, memory, {1ull << 30}, "memory for keys, values and index");
ABSL_FLAG(farlook::server::ByteSize, counter_memory, {16ull << 20}, "memory for counters; 0: none");
ABSL_FLAG(absl::Duration, counter_patience, absl::Seconds(2), "before a client that ignores deletions is disconnected");
ABSL_FLAG(farlook::server::HugePagesFlag, huge_pages, {}, "auto, 1g, 2m, transparent or none");
ABSL_FLAG(farlook::server::NumaNode, numa_node, {}, "auto, or the number of a NUMA node");
ABSL_FLAG(uint64_t, hash_seed, 0, "seed of keys' hashes; 0: random");
ABSL_FLAG(int, workers, 1, "threads that apply writes");
ABSL_FLAG(bool, evict, false, "a cache: evict items when the memory is full, in place of refusing writes");
ABSL_FLAG(farlook::server::ByteSize, max_value_bytes, {farlook::kv::kDefaultMaxValueBytes}, "longest value");
ABSL_FLAG(uint32_t, window, farlook::kv::kDefaultWindow, "requests without a reply that a client may have");
ABSL_FLAG(int64_t, max_clients, 1024, "connections at once");
ABSL_FLAG(uint64_t, max_kept_sessions, 4096, "sessions of clients that are gone, kept to be resumed");
ABSL_FLAG(absl::Duration, keep_sessions, absl::Minutes(10), "how long a session is kept");
ABSL_FLAG(std::string, group, "", "where the record of its group is: file:///folder/NAME, etcd://host:port/NAME");
ABSL_FLAG(std::string, group_user, "", "of --users: as whom this server follows others of its group; empty: as nobody");
ABSL_FLAG(uint64_t, begin_group_anew, 0, "epoch of a group of which all members are gone; 0: none");
ABSL_FLAG(absl::Duration, suspicion, absl::Milliseconds(300), "silence after which a backup takes the primary's place");
ABSL_FLAG(absl::Duration, lease, absl::Milliseconds(150), "of the group, where this server begins it");
ABSL_FLAG(int64_t, replicas, 2, "members that the group should have, where this server begins it");
ABSL_FLAG(int64_t, min_insync, 1, "members without which the group acknowledges no write, where this server begins it");
ABSL_FLAG(std::string, cluster, "", "cluster of which its group is one, where this server begins the group");
ABSL_FLAG(std::string, slots, "", "slots of the cluster with which the group begins, as 0-2047,3000");
ABSL_FLAG(std::string, users, "", "file of those who may come, and what each may do; empty: everybody");
ABSL_FLAG(farlook::server::FileMode, socket_mode, {}, "mode of the files of shm:// addresses; empty: the umask's");
ABSL_FLAG(std::string, socket_group, "", "group of the files of shm:// addresses; empty: this process'");
ABSL_FLAG(bool, client_figures, false, "ask clients how many gets they make, and how long these take");
ABSL_FLAG(int64_t, slow_ms, 0, "log requests that take so many milliseconds; 0: none");
ABSL_FLAG(int64_t, spin_us, 20, "microseconds without work before a worker sleeps");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(2), "how long a stopping server lets clients finish");
ABSL_FLAG(absl::Duration, liveness, absl::Seconds(3), "how long until a client that is silently gone is noticed");
ABSL_FLAG(bool, check, false, "find what would stop this server, and do not start it");
ABSL_FLAG(bool, print_flags, false, "print the flags in force, and do not start");
ABSL_FLAG(farlook::server::LogLevelFlag, log_level, {}, "debug, info, warning, error or none");

namespace farlook::server {
namespace {

constexpr char kHelp[] = R"(kv_server keeps keys and values in memory that clients read by themselves.

  kv_server --listen=shm:///tmp/farlook --memory=4GiB

  --listen=ADDRESS[,ADDRESS]  where clients connect: shm:///absolute/path, rdma://host:port, tcp://host:port, or
                              auto://host:port for both of these, or one where the other cannot be. Required; may
                              be repeated
  --memory=SIZE               for keys, values and index: 16MiB to 2TiB (1GiB)
  --counter_memory=SIZE       for counters, 64 bytes each, beside --memory; 0: no counters (16MiB)
  --counter_patience=DURATION how long a client may ignore that a counter was deleted (2s)
  --huge_pages=KIND           auto, 1g, 2m, transparent, none (auto: the largest that can be had)
  --numa_node=NODE            auto, or the node to bind the memory to (auto: the device's)
  --workers=N                 threads that apply writes, 1 to 64 (1)
  --hash_seed=N               seed of keys' hashes; 0: random. Who knows it can choose keys that collide (0)
  --evict                     be a cache: when the memory is full, evict what is used least in place of refusing
                              writes; but nothing that was put to be kept, and no counter
  --max_value_bytes=SIZE      longest value, up to 64MiB (16MiB)
  --window=N                  requests without a reply that a client may have, 1 to 4096 (256)
  --max_clients=N             connections at once (1024)
  --max_kept_sessions=N       sessions of vanished clients kept to be resumed (4096)
  --keep_sessions=DURATION    for how long at most (10m)
  --group=URL                 be a member of a group, a primary and its backups, whose record is file:///folder/NAME or
                              etcd://host:port,host:port/NAME: docs/cluster.md
  --group_user=NAME           of --users, with a secret and the role admin: as whom this server follows others of its
                              group, where these have --users; over shm:// the kernel says who it is
  --begin_group_anew=EPOCH    if all members of the group are gone, and this was its epoch: begin it anew, with an empty
                              table. The log says when that is so, and which epoch
  --suspicion=DURATION        how long nothing is heard of the group's primary before a backup takes its place (300ms)
  --lease=DURATION            for how long clients believe what they saw of the group: of a group that this server
                              begins; not on shm://, where they look each time (150ms)
  --replicas=N                members that the group should have, 1 to 16: of a group that this server begins. Further
                              servers are spares, which take the place of those that are lost (2)
  --min_insync=N              with fewer members in sync no write is acknowledged: of a group that this server begins (1)
  --cluster=NAME              the cluster of which a group that this server begins is one, in the same directory; of a
                              group that is there already: as there, or left out
  --slots=RANGES              of the cluster's 4,096 slots those with which such a group begins, as 0-2047,3000 (none)
  --users=FILE                who may come, and what each may do: docs/security.md; read again at SIGHUP. Without it
                              whoever reaches an rdma:// or tcp:// address may read and write all
  --socket_mode=MODE          of the files of shm:// addresses, as 660: who may write may connect (the umask's)
  --socket_group=GROUP        of those files (this process')
  --client_figures            ask clients how many gets they make, and how long these take: stat, top and the
                              exporter show it
  --slow_ms=N                 log requests that take so many milliseconds until their answer; 0: none (0)
  --spin_us=N                 microseconds without work before a worker sleeps (20)
  --drain_timeout=DURATION    how long a stopping server lets clients finish (2s)
  --liveness=DURATION         in which a client that is silently gone is noticed, over rdma (3s)
  --log_level=LEVEL           debug, info, warning, error, none (info)
  --flagfile=FILE             more flags, one a line
  --print_flags               print the flags in force, as a flagfile, and do not start
  --check                     find what would stop this server, print what mends it, and do not start
  --help, --version

Sizes take k, m, g, t (KiB, MiB, GiB, TiB). SIGTERM and SIGINT stop it in order; SIGHUP has it read its
flags and --users anew: --log_level changes, and of others the log says that they wait for the next start.

Exit codes:
  0  stopped as asked, or --check found no trouble
  1  bad flag
  2  address cannot be used
  3  not enough memory or other resources
  4  no permission
  5  anything else
)";

// What --print_flags prints, in this order, and --help explains.
const std::vector<absl::string_view>& FlagNames() {
  static const auto* const names = new std::vector<absl::string_view>{"listen",
                                                                      "memory",
                                                                      "counter_memory",
                                                                      "huge_pages",
                                                                      "numa_node",
                                                                      "max_value_bytes",
                                                                      "max_clients",
                                                                      "window",
                                                                      "max_kept_sessions",
                                                                      "keep_sessions",
                                                                      "workers",
                                                                      "spin_us",
                                                                      "liveness",
                                                                      "counter_patience",
                                                                      "drain_timeout",
                                                                      "users",
                                                                      "socket_mode",
                                                                      "socket_group",
                                                                      "log_level",
                                                                      "hash_seed",
                                                                      "evict",
                                                                      "client_figures",
                                                                      "slow_ms",
                                                                      "group",
                                                                      "group_user",
                                                                      "begin_group_anew",
                                                                      "suspicion",
                                                                      "lease",
                                                                      "replicas",
                                                                      "min_insync",
                                                                      "cluster",
                                                                      "slots"};
  return *names;
}

enum ExitCode : int { kStopped = 0, kBadFlag = 1, kBadAddress = 2, kNoResources = 3, kNoPermission = 4, kOther = 5 };

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kBadFlag;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:  // no such device, or none at all
    case absl::StatusCode::kUnavailable:         // a name that does not resolve, a device that is gone
      return kBadAddress;
    case absl::StatusCode::kResourceExhausted:
      return kNoResources;
    case absl::StatusCode::kPermissionDenied:
      return kNoPermission;
    default:
      return kOther;
  }
}

// --help and --version go to stdout and are a success, which Abseil's are not.
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
  options.counter_memory_bytes = absl::GetFlag(FLAGS_counter_memory).bytes;
  options.counter_patience_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_counter_patience));
  options.huge_pages = absl::GetFlag(FLAGS_huge_pages).pages;
  options.numa_node = absl::GetFlag(FLAGS_numa_node).node;
  options.hash_seed = absl::GetFlag(FLAGS_hash_seed);
  options.workers = absl::GetFlag(FLAGS_workers);
  options.evict = absl::GetFlag(FLAGS_evict);
  options.max_value_bytes = absl::GetFlag(FLAGS_max_value_bytes).bytes;
  options.window = absl::GetFlag(FLAGS_window);
  options.max_clients = absl::GetFlag(FLAGS_max_clients);
  options.max_kept_sessions = absl::GetFlag(FLAGS_max_kept_sessions);
  options.keep_sessions_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_keep_sessions));
  options.group = absl::GetFlag(FLAGS_group);
  options.group_user = absl::GetFlag(FLAGS_group_user);
  options.begin_group_anew = absl::GetFlag(FLAGS_begin_group_anew);
  options.suspicion_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_suspicion));
  options.lease_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_lease));
  options.replicas = absl::GetFlag(FLAGS_replicas);
  options.min_insync = absl::GetFlag(FLAGS_min_insync);
  options.cluster = absl::GetFlag(FLAGS_cluster);
  options.slots = absl::GetFlag(FLAGS_slots);
  options.users = absl::GetFlag(FLAGS_users);
  options.socket_mode = absl::GetFlag(FLAGS_socket_mode).mode;
  options.socket_group = absl::GetFlag(FLAGS_socket_group);
  options.client_figures = absl::GetFlag(FLAGS_client_figures);
  options.slow_ms = absl::GetFlag(FLAGS_slow_ms);
  options.spin_us = absl::GetFlag(FLAGS_spin_us);
  options.liveness_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_liveness));
  options.drain_timeout_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_drain_timeout));
  return options;
}

// That are waited for.
sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Tells of the preparation of the memory: systemd each step, the log its beginning and one a second.
class PreparationLog {
 public:
  explicit PreparationLog(uint64_t bytes) : bytes_(bytes) {}

  // Several threads call this.
  void Note(int percent) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (percent <= told_percent_) return;
    told_percent_ = percent;
    if (percent == 0) {
      Log(LogLevel::kInfo, "preparing memory", {{"bytes", bytes_}});
      sd_notify(/*unset_environment=*/0, "STATUS=preparing memory");
      return;
    }
    sd_notify(/*unset_environment=*/0, absl::StrCat("STATUS=preparing memory, ", percent, " %").c_str());
    if (const absl::Time now = absl::Now(); now - logged_ >= absl::Seconds(1)) {
      logged_ = now;
      Log(LogLevel::kInfo, "preparing memory", {{"percent", percent}});
    }
  }

 private:
  const uint64_t bytes_;
  absl::Mutex mutex_;
  int told_percent_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Time logged_ ABSL_GUARDED_BY(mutex_) = absl::Now();
};

// Reads the command line and its flagfiles anew. What can change while a server runs changes; of the rest the log says
// that it waits for the next start. A flag that is not there any more keeps its value; so do all where one is wrong.
void ReloadFlags(const std::vector<std::string>& words, const std::vector<absl::string_view>& names) {
  const auto values = [&] {
    std::vector<std::string> all;
    for (const absl::string_view name : names) all.push_back(absl::FindCommandLineFlag(name)->CurrentValue());
    return all;
  };
  const std::vector<std::string> before = values();
  ForgetAddresses();
  if (absl::Status status = ParseCommandLine(words, names); !status.ok()) {
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
    Log(LogLevel::kWarning, "takes effect at the next start", {{"flag", names[i]}, {"value", after[i]}});
  }
  Log(LogLevel::kInfo, "reloaded", {{"log_level", AbslUnparseFlag(absl::GetFlag(FLAGS_log_level))}});
}

// Waits for a signal that is to stop the server. While the memory is being prepared, which may take long, there is
// nothing to drain: it ends the process.
class Stopper {
 public:
  // REQUIRES the signals are blocked, in all threads. The writer outlives this.
  explicit Stopper(LogWriter* writer) : writer_(writer) {
    can_wait_ = pthread_create(&thread_, nullptr, Run, this) == 0;
  }
  // The server is there, and is to be stopped in order. `reload` is called for each SIGHUP until Await() returns;
  // before it is there, a SIGHUP is ignored.
  void Ready(std::function<void()> reload) {
    {
      absl::MutexLock lock(&mutex_);
      reload_ = std::move(reload);
    }
    while (!preparing_.exchange(false, std::memory_order_acq_rel)) pause();  // the process ends
  }
  // Returns when the signal has come. REQUIRES Ready().
  void Await() { can_wait_ ? static_cast<void>(pthread_join(thread_, nullptr)) : Receive(); }
  const char* signal_name() const { return received_ == SIGINT ? "SIGINT" : "SIGTERM"; }

 private:
  static void* Run(void* self) {
    static_cast<Stopper*>(self)->Receive();
    return nullptr;
  }
  void Receive() {
    const sigset_t signals = OurSignals();
    while (sigwait(&signals, &received_) != 0 || received_ == SIGHUP) Reload();
    if (!preparing_.exchange(false, std::memory_order_acq_rel)) return;
    Log(LogLevel::kInfo, "stopped before it was ready", {{"signal", signal_name()}});
    writer_->Flush();
    _exit(kStopped);
  }

  void Reload() {
    absl::MutexLock lock(&mutex_);
    if (reload_) reload_();
  }

  LogWriter* const writer_;
  absl::Mutex mutex_;
  std::function<void()> reload_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> preparing_{true};
  bool can_wait_ = true;
  pthread_t thread_{};
  int received_ = 0;
};

// What can change while the server runs.
void Reload(Server* server, const std::vector<std::string>& words, const std::vector<absl::string_view>& names) {
  sd_notify(0, "RELOADING=1");
  ReloadFlags(words, names);
  if (absl::Status status = server->ReloadUsers(); !status.ok()) {
    Log(LogLevel::kError, "the users stay as they were", {{"reason", status.message()}});
  }
  sd_notify(0, "READY=1");
}

// Memory through which records of a group pass, also long ones, goes from one thread to another and back. The C library
// would return it to the kernel again and again, which clears it each time. It keeps so much of it for each thread.
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

int Main(int argc, char** argv) {
  const sigset_t signals = OurSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // first of all: whenever one comes, it is answered with a line
  AnswerQuestions(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<absl::string_view> names = FlagNames();
  names.insert(names.end(), {"check", "print_flags"});
  if (absl::Status status = ParseCommandLine(words, names); !status.ok()) {
    Log(LogLevel::kError, "bad command line", {{"reason", status.message()}});
    return kBadFlag;
  }
  if (absl::GetFlag(FLAGS_print_flags)) {
    std::fputs(FlagsToText(FlagNames()).c_str(), stdout);
    return kStopped;
  }
  SetLogLevel(absl::GetFlag(FLAGS_log_level).level);
#ifdef NDEBUG
  // Debian builds Abseil with its search for deadlocks, at some hundred instructions a lock. Our tests keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif

  signal(SIGPIPE, SIG_IGN);
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
  std::atomic<bool> again{false};
  options.deposed = [&again] {
    again.store(true, std::memory_order_relaxed);
    kill(getpid(), SIGTERM);
  };
  if (absl::Status few = RaiseDescriptorLimit(options); !few.ok() && CheckOptions(options).ok()) {
    Log(LogLevel::kWarning, "not all clients can come", {{"reason", few.message()}});
  }
  PreparationLog preparation(options.memory_bytes);
  auto server = Server::Start(options, [&](int percent) { preparation.Note(percent); });
  if (!server.ok()) {
    Log(LogLevel::kError, "cannot start", {{"reason", server.status().message()}});
    return ExitCodeFor(server.status());
  }
  stopper.Ready([&] { Reload(server->get(), words, names); });
  (*server)->JoinGroup();
  (*server)->LogReady();  // not before: a signal that answers this line is to stop it in order
  sd_notify(/*unset_environment=*/0,
            absl::StrCat("READY=1\nSTATUS=listening at ", absl::StrJoin((*server)->addresses(), ", ")).c_str());

  stopper.Await();
  Log(LogLevel::kInfo, "stopping", {{"signal", stopper.signal_name()}});
  const bool begins_anew = again.load(std::memory_order_relaxed);
  // Of a process that begins anew systemd need not hear that it stops: it does not.
  sd_notify(0, begins_anew ? "STATUS=beginning anew in its group" : "STOPPING=1");
  (*server)->Stop();
  Log(LogLevel::kInfo, "clients are gone, giving memory back", {{"bytes", options.memory_bytes}});
  server->reset();
  if (begins_anew) {
    // As another incarnation: with other memory, and without any connection.
    Log(LogLevel::kInfo, "beginning anew");
    writer.Flush();
    execv("/proc/self/exe", argv);
    Log(LogLevel::kError, "cannot begin anew", {{"errno", errno}});
    return kOther;
  }
  Log(LogLevel::kInfo, "stopped");
  return kStopped;
}

}  // namespace
}  // namespace farlook::server

int main(int argc, char** argv) { return farlook::server::Main(argc, argv); }
