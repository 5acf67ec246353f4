#include "tests/faults/peer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "gtest/gtest.h"

namespace farlook {
namespace {

pid_t Spawn(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  execvp(argv[0], argv.data());
  std::perror("peer");
  _exit(127);
}

int StatusOf(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

PeerProcess::PeerProcess(std::vector<std::string> command, char host) {
  if (host != 'a') command.insert(command.begin(), {"peer", std::string(1, host), "run"});
  pid_ = Spawn(std::move(command));
}

PeerProcess::~PeerProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

int PeerProcess::Wait() {
  const int status = StatusOf(pid_);
  pid_ = -1;
  return status;
}

void Peer(const std::string& what) { ASSERT_EQ(StatusOf(Spawn({"peer", what})), 0) << what; }

}  // namespace farlook
