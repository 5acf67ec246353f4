#include "tests/linearizable/group_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/host_time.h"
#include "tests/linearizable/orders.h"
#include "tests/linearizable/user.h"
#include "tests/linearizable/users.h"

namespace farlook {
namespace {

int RunFenced(Board* board, int lane, const std::string& address, uint32_t seed, Fencing fencing) {
  ClientOptions options;
  options.timeout_ms = 120'000;
  options.fencing = fencing;
  options.min_backoff_ms = 50;  // an attempt in vain keeps the guest's only processor busy
  options.max_backoff_ms = 500;
  // The log of a process has room for a few minutes at this pace.
  return RunUserUntilAllIsRead(board, lane, address, seed, options, /*most_rest_us=*/80'000);
}

int RunByLease(Board* board, int lane, const std::string& address, uint32_t seed) {
  return RunFenced(board, lane, address, seed, Fencing::kLease);
}

int RunStrictly(Board* board, int lane, const std::string& address, uint32_t seed) {
  return RunFenced(board, lane, address, seed, Fencing::kStrict);
}

class GroupHost {
 public:
  GroupHost(char host, const std::string& folder)
      : host_(host),
        folder_(folder),
        board_(host - 'a'),
        time_(MachineTime(absl::StrCat(folder, "/clock-", Name())), 15'000) {}
  ~GroupHost() {
    if (etcd_ <= 0) return;
    kill(etcd_, SIGKILL);
    waitpid(etcd_, nullptr, 0);
  }

  // Carries out an order, and returns the answer.
  std::string Obey(const std::string& order) {
    const std::vector<std::string> words = absl::StrSplit(order, ' ', absl::SkipEmpty());
    const std::string& verb = words[0];
    if (verb == "etcd") return StartEtcd();
    if (verb == "serve") {
      server_ = std::make_unique<ServerProcess>(std::vector<std::string>(words.begin() + 1, words.end()));
      return server_->address();
    }
    if (verb == "kill") {
      server_->Signal(SIGKILL);
      server_->Wait();
    } else if (verb == "restart") {
      server_->Restart();
    } else if (verb == "stop" || verb == "continue") {
      server_->Signal(verb == "stop" ? SIGSTOP : SIGCONT);
    } else if (verb == "use") {
      StartUsers(words);
    } else if (verb == "disturb") {
      users_->Disturb();
    } else if (verb == "run") {
      return absl::StrCat(std::system(absl::StrJoin(words.begin() + 1, words.end(), " ").c_str()));
    } else if (verb == "end") {
      return End() ? "" : "failed";
    } else {
      return "what?";
    }
    return "";
  }

 private:
  std::string Name() const { return std::string(1, host_); }

  std::string StartEtcd() {
    std::string data = "/tmp/etcd-XXXXXX";
    if (mkdtemp(data.data()) == nullptr) return "no folder";
    const std::string url = absl::StrCat("http://", EtcdOn(host_));
    std::vector<std::string> words = {
        "etcd", "--data-dir", data,  "--listen-client-urls", url,    "--advertise-client-urls",
        url,    "--logger",   "zap", "--log-level",          "error"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    etcd_ = fork();
    if (etcd_ != 0) return "";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Its guest has one processor, and servers give up a request to it after a second.
    setpriority(PRIO_PROCESS, 0, -5);
    const int log = open((data + ".log").c_str(), O_WRONLY | O_CREAT, 0666);
    dup2(log, 1);
    dup2(log, 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }

  void StartUsers(const std::vector<std::string>& words) {
    ASSERT_TRUE(time_.AwaitAnswer());
    uint32_t seed = 0;
    int processes = 0;
    ASSERT_TRUE(absl::SimpleAtoi(words[3], &seed) && absl::SimpleAtoi(words[4], &processes));
    users_.emplace(&board_, words[1], seed, words[2] == "strict" ? RunStrictly : RunByLease);
    users_->Start(processes);
  }

  bool End() {
    users_->Join();
    const bool told = time_.AwaitAnswer();
    return told && board_.Write(HistoryPath(folder_, host_)) && WriteSamples(time_.Stop(), TimePath(folder_, host_)) &&
           !testing::Test::HasFailure();
  }

  const char host_;
  const std::string folder_;
  Board board_;
  TimeAsker time_;
  pid_t etcd_ = -1;
  std::unique_ptr<ServerProcess> server_;
  std::optional<Users> users_;
};

}  // namespace

std::string IpOf(char host) { return absl::StrCat("10.0.0.", host - 'a' + 1); }

std::string EtcdOn(char host) { return absl::StrCat(IpOf(host), ":2379"); }

std::string HistoryPath(const std::string& folder, char host) {
  return absl::StrCat(folder, "/history-", std::string(1, host));
}

std::string TimePath(const std::string& folder, char host) {
  return absl::StrCat(folder, "/time-", std::string(1, host));
}

int ObeyAsHost(char host, const std::string& folder) {
  Orders orders(folder);
  GroupHost self(host, folder);
  for (;;) {
    const std::optional<std::string> order = orders.Next(host);
    if (!order.has_value()) return 2;
    const std::string answer = self.Obey(*order);
    orders.Done(host, answer);
    if (*order == "end") return answer.empty() ? 0 : 1;
  }
}

}  // namespace farlook
