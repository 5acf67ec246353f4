#include "tests/faults/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "rdma/test_address.h"

namespace farlook {
namespace {

std::string& LogFile() {
  static auto* const file = new std::string;
  return *file;
}

}  // namespace

void ServerProcess::LogTo(std::string file) { LogFile() = std::move(file); }

ServerProcess::ServerProcess(std::vector<std::string> flags)
    : flags_(std::move(flags)), address_(rdma::UnusedTestAddress()) {
  Start({});
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    Wait();
  }
}

void ServerProcess::Spawn(const std::vector<std::string>& more_flags) {
  std::vector<std::string> arguments = {"server/daemon/kv_server", "--listen=" + address_, "--huge_pages=none"};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  arguments.insert(arguments.end(), more_flags.begin(), more_flags.end());
  const char* const log = LogFile().empty() ? nullptr : LogFile().c_str();
  pid_ = fork();
  if (pid_ == 0) {
    if (log != nullptr) dup2(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    std::perror("kv_server");
    _exit(127);
  }
}

void ServerProcess::Start(const std::vector<std::string>& more_flags) {
  Spawn(more_flags);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(rdma::TestsUseRdma() ? 150 : 60);
  absl::Status status;
  do {
    ClientOptions options;
    options.timeout_ms = 5000;
    status = Client::Connect(address_, options).status();
    if (status.ok() || absl::IsDataLoss(status)) return;
    // A server that found no directory ends, and is started again, as systemd does.
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) Spawn(more_flags);
    // An attempt on an emulated device takes processor time from the starting server.
    std::this_thread::sleep_for(std::chrono::milliseconds(rdma::TestsUseRdma() ? 200 : 5));
  } while (std::chrono::steady_clock::now() < end);
  std::fprintf(stderr, "kv_server does not come up: %s\n", status.ToString().c_str());
  std::abort();
}

void ServerProcess::Signal(int signal) {
  kill(pid_, signal);
  if (signal == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);  // until each of its threads has stopped
}

int ServerProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ServerProcess::Restart(const std::vector<std::string>& more_flags) { Start(more_flags); }

int64_t ServerProcess::CpuNs() const {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return -1;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::unique_ptr<Client> MustConnect(const std::string& address, const ClientOptions& options) {
  auto client = Client::Connect(address, options);
  if (client.ok()) return *std::move(client);
  std::fprintf(stderr, "no connection to %s: %s\n", address.c_str(), client.status().ToString().c_str());
  std::abort();
}

std::unique_ptr<Client> MustConnect(const std::string& address, int64_t timeout_ms) {
  ClientOptions options;
  options.timeout_ms = timeout_ms;
  return MustConnect(address, options);
}

int64_t ServerStat(Client* client, absl::string_view name) {
  auto text = client->ServerStats();
  if (!text.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t value = 0;
    if (field.first == name && absl::SimpleAtoi(field.second, &value)) return value;
  }
  return -1;
}

}  // namespace farlook
