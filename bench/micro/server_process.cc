#include "bench/micro/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "bench/common/clocks.h"

namespace farlook::bench {
namespace {

constexpr useconds_t kLookEveryUs = 10'000;
constexpr int64_t kStopMs = 20'000;

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& program,
                                                                    const std::vector<std::string>& flags,
                                                                    int64_t timeout_ms, const std::string& address) {
  char directory[] = "/tmp/farlook_bench_XXXXXX";
  if (mkdtemp(directory) == nullptr) return absl::ResourceExhaustedError("cannot create a directory in /tmp");
  std::unique_ptr<ServerProcess> server(new ServerProcess);
  server->directory_ = directory;
  server->address_ = address.empty() ? absl::StrCat("shm://", directory, "/socket") : address;
  server->output_path_ = absl::StrCat(directory, "/output");

  std::vector<std::string> args = {program, absl::StrCat("--listen=", server->address_)};
  args.insert(args.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  server->pid_ = fork();
  if (server->pid_ < 0) return absl::ResourceExhaustedError("cannot fork");
  if (server->pid_ == 0) {
    const int fd = open(server->output_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }

  const int64_t deadline_ns = NowNs() + timeout_ms * 1'000'000;
  while (NowNs() < deadline_ns) {
    if (server->Exited()) {
      return absl::UnavailableError(absl::StrCat(program, " ended at once: ", server->Output()));
    }
    if (Client::Connect(server->address_).ok()) return server;
    usleep(kLookEveryUs);
  }
  return absl::DeadlineExceededError(absl::StrCat(program, " does not answer: ", server->Output()));
}

ServerProcess::~ServerProcess() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

bool ServerProcess::Exited() {
  if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ <= 0;
}

std::string ServerProcess::Output() const {
  std::ifstream file(output_path_);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

int ServerProcess::Stop() {
  if (!Exited()) {
    kill(pid_, SIGTERM);
    const int64_t deadline_ns = NowNs() + kStopMs * 1'000'000;
    while (!Exited() && NowNs() < deadline_ns) usleep(kLookEveryUs);
    if (!Exited()) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
      pid_ = 0;
    }
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
}

absl::StatusOr<std::map<std::string, double>> ServerFigures(Client* client) {
  const absl::StatusOr<std::string> text = client->ServerStats();
  if (!text.ok()) return text.status();
  std::map<std::string, double> figures;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(*text), '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double number;
    if (absl::SimpleAtod(pair.second, &number)) figures[std::string(pair.first)] = number;
  }
  return figures;
}

}  // namespace farlook::bench
