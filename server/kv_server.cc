// The memory server as a program. docs/operations.md describes flags, signals, exit codes and log lines.

#include <pthread.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kv/limits.h"
#include "rdma/shared_memory.h"
#include "server/byte_size.h"
#include "server/log.h"
#include "server/log_writer.h"
#include "server/self_check.h"
#include "server/server.h"
#include "server/server_flags.h"

ABSL_FLAG(farlook::server::AddressList, listen, {}, "addresses to listen at, separated by commas; may be repeated");
ABSL_FLAG(farlook::server::ByteSize, memory, {1ull << 30}, "memory for keys, values and index");
ABSL_FLAG(farlook::server::ByteSize, counter_memory, {16ull << 20}, "memory for counters; 0: none");
ABSL_FLAG(absl::Duration, counter_patience, absl::Seconds(2), "before a client that ignores deletions is disconnected");
ABSL_FLAG(farlook::server::HugePagesFlag, huge_pages, {}, "auto, 1g, 2m, transparent or none");
ABSL_FLAG(farlook::server::NumaNode, numa_node, {}, "auto, or the number of a NUMA node");
ABSL_FLAG(uint64_t, hash_seed, 0, "seed of keys' hashes; 0: random");
ABSL_FLAG(int, workers, 1, "threads that apply writes");
ABSL_FLAG(farlook::server::ByteSize, max_value_bytes, {farlook::kv::kDefaultMaxValueBytes}, "longest value");
ABSL_FLAG(uint32_t, window, farlook::kv::kDefaultWindow, "requests without a reply that a client may have");
ABSL_FLAG(int64_t, max_clients, 1024, "connections at once");
ABSL_FLAG(uint64_t, max_kept_sessions, 4096, "sessions of clients that are gone, kept to be resumed");
ABSL_FLAG(absl::Duration, keep_sessions, absl::Minutes(10), "how long a session is kept");
ABSL_FLAG(int64_t, spin_us, 20, "microseconds without work before a worker sleeps");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(2), "how long a stopping server lets clients finish");
ABSL_FLAG(absl::Duration, liveness, absl::Seconds(3), "how long until a client that is silently gone is noticed");
ABSL_FLAG(bool, check, false, "find what would stop this server, and do not start it");
ABSL_FLAG(farlook::server::LogLevelFlag, log_level, {}, "debug, info, warning, error or none");

namespace farlook::server {
namespace {

constexpr char kHelp[] = R"(kv_server keeps keys and values in memory that clients read by themselves.

  kv_server --listen=shm:///tmp/farlook --memory=4GiB

  --listen=ADDRESS[,ADDRESS]  where clients connect: shm:///absolute/path or rdma://host:port. Required; may be
                              repeated
  --memory=SIZE               for keys, values and index: 16MiB to 2TiB (1GiB)
  --counter_memory=SIZE       for counters, 64 bytes each, beside --memory; 0: no counters (16MiB)
  --counter_patience=DURATION how long a client may ignore that a counter was deleted (2s)
  --huge_pages=KIND           auto, 1g, 2m, transparent, none (auto: the largest that can be had)
  --numa_node=NODE            auto, or the node to bind the memory to (auto: the device's)
  --workers=N                 threads that apply writes, 1 to 64 (1)
  --hash_seed=N               seed of keys' hashes; 0: random. Who knows it can choose keys that collide (0)
  --max_value_bytes=SIZE      longest value, up to 64MiB (16MiB)
  --window=N                  requests without a reply that a client may have, 1 to 4096 (256)
  --max_clients=N             connections at once (1024)
  --max_kept_sessions=N       sessions of vanished clients kept to be resumed (4096)
  --keep_sessions=DURATION    for how long at most (10m)
  --spin_us=N                 microseconds without work before a worker sleeps (20)
  --drain_timeout=DURATION    how long a stopping server lets clients finish (2s)
  --liveness=DURATION         in which a client that is silently gone is noticed, over rdma (3s)
  --log_level=LEVEL           debug, info, warning, error, none (info)
  --flagfile=FILE             more flags, one a line
  --check                     find what would stop this server, print what mends it, and do not start
  --help, --version

Sizes take k, m, g, t (KiB, MiB, GiB, TiB). SIGTERM and SIGINT stop it in order.

Exit codes:
  0  stopped as asked, or --check found no trouble
  1  bad flag
  2  address cannot be used
  3  not enough memory or other resources
  4  no permission
  5  anything else
)";

enum ExitCode : int { kStopped = 0, kBadFlag = 1, kBadAddress = 2, kNoResources = 3, kNoPermission = 4, kOther = 5 };

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kBadFlag;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
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
      std::printf("kv_server %s\n", std::string(kVersion).c_str());
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
  options.max_value_bytes = absl::GetFlag(FLAGS_max_value_bytes).bytes;
  options.window = absl::GetFlag(FLAGS_window);
  options.max_clients = absl::GetFlag(FLAGS_max_clients);
  options.max_kept_sessions = absl::GetFlag(FLAGS_max_kept_sessions);
  options.keep_sessions_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_keep_sessions));
  options.spin_us = absl::GetFlag(FLAGS_spin_us);
  options.liveness_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_liveness));
  options.drain_timeout_ms = absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_drain_timeout));
  return options;
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Waits for a signal that is to stop the server. While the memory is being prepared, which may take long, there is
// nothing to drain: it ends the process.
class Stopper {
 public:
  // REQUIRES the signals are blocked, in all threads. The writer outlives this.
  explicit Stopper(LogWriter* writer) : writer_(writer) {
    can_wait_ = pthread_create(&thread_, nullptr, Run, this) == 0;
  }
  // The server is there, and is to be stopped in order.
  void Ready() {
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
    const sigset_t signals = StopSignals();
    sigwait(&signals, &received_);
    if (!preparing_.exchange(false, std::memory_order_acq_rel)) return;
    Log(LogLevel::kInfo, "stopped before it was ready", {{"signal", signal_name()}});
    writer_->Flush();
    _exit(kStopped);
  }

  LogWriter* const writer_;
  std::atomic<bool> preparing_{true};
  bool can_wait_ = true;
  pthread_t thread_{};
  int received_ = 0;
};

int Main(int argc, char** argv) {
  AnswerQuestions(argc, argv);
  absl::SetProgramUsageMessage(kHelp);
  const std::vector<char*> positional = absl::ParseCommandLine(argc, argv);
  if (positional.size() > 1) {
    std::fprintf(stderr, "kv_server takes flags only, not \"%s\"; see kv_server --help\n", positional[1]);
    return kBadFlag;
  }
  SetLogLevel(absl::GetFlag(FLAGS_log_level).level);
#ifdef NDEBUG
  // Debian builds Abseil with its search for deadlocks, at some hundred instructions a lock. Our tests keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif

  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  if (absl::GetFlag(FLAGS_check)) {
    std::string findings;
    const bool good = SelfCheck(OptionsFromFlags(), &findings);
    std::fputs(findings.c_str(), stdout);
    return good ? kStopped : kOther;
  }
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  LogWriter writer(STDERR_FILENO);
  Stopper stopper(&writer);
  Log(LogLevel::kInfo, "preparing memory", {{"bytes", absl::GetFlag(FLAGS_memory).bytes}});
  sd_notify(/*unset_environment=*/0, "STATUS=preparing memory");
  auto server = Server::Start(OptionsFromFlags());
  if (!server.ok()) {
    Log(LogLevel::kError, "cannot start", {{"reason", server.status().message()}});
    return ExitCodeFor(server.status());
  }
  stopper.Ready();
  (*server)->LogReady();  // not before: a signal that answers this line is to stop it in order
  sd_notify(/*unset_environment=*/0,
            absl::StrCat("READY=1\nSTATUS=listening at ", absl::StrJoin((*server)->addresses(), ", ")).c_str());

  stopper.Await();
  Log(LogLevel::kInfo, "stopping", {{"signal", stopper.signal_name()}});
  sd_notify(0, "STOPPING=1");
  (*server)->Stop();
  server->reset();
  Log(LogLevel::kInfo, "stopped");
  return kStopped;
}

}  // namespace
}  // namespace farlook::server

int main(int argc, char** argv) { return farlook::server::Main(argc, argv); }
