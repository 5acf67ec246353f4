#include "cluster/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);  // the machine may be busy

// Different ports: all sockets stay open until the last is bound. The ports are below the ephemeral ports that the
// kernel assigns to connections, also to those that try to reach a stopped member, and below those of tests over tcp.
std::vector<int> FreePorts(size_t count) {
  constexpr unsigned kFirstPort = 10'000, kPorts = 10'000;
  unsigned next = std::random_device()();
  std::vector<int> sockets, ports;
  while (ports.size() < count) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      ADD_FAILURE() << "no socket: " << strerror(errno);
      break;
    }
    const unsigned port = kFirstPort + next++ % kPorts;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    sockets.push_back(fd);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      ports.push_back(static_cast<int>(port));
    }
  }
  for (const int fd : sockets) close(fd);
  ports.resize(count);
  return ports;
}

std::string MakeFolder() {
  std::string folder = testing::TempDir() + "/etcd_XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

}  // namespace

EtcdProcesses::EtcdProcesses(size_t members, const std::string& token)
    : token_(token),
      on_host_([](size_t, const std::function<void()>& run) { run(); }),
      folder_(MakeFolder()),
      pids_(members) {
  const std::vector<int> ports = FreePorts(2 * members);
  for (size_t i = 0; i < members; ++i) {
    endpoints_.push_back(absl::StrCat("http://127.0.0.1:", ports[2 * i]));
    peers_.push_back(absl::StrCat("http://127.0.0.1:", ports[2 * i + 1]));
  }
  Begin();
}

EtcdProcesses::EtcdProcesses(const std::vector<std::string>& hosts, OnHost on_host)
    : token_("one"), on_host_(std::move(on_host)), folder_(MakeFolder()), pids_(hosts.size()) {
  for (const std::string& host : hosts) {
    endpoints_.push_back(absl::StrCat("http://", host, ":2379"));
    peers_.push_back(absl::StrCat("http://", host, ":2380"));
  }
  Begin();
}

void EtcdProcesses::Begin() {
  for (size_t i = 0; i < pids_.size(); ++i) Start(i);
  AwaitHealthy();
}

EtcdProcesses::~EtcdProcesses() {
  for (size_t i = 0; i < pids_.size(); ++i) Kill(i);
}

std::string EtcdProcesses::Cluster() const {
  std::vector<std::string> members;
  for (size_t i = 0; i < peers_.size(); ++i) members.push_back(absl::StrCat("m", i, "=", peers_[i]));
  return absl::StrJoin(members, ",");
}

std::string EtcdProcesses::DataFolder(size_t member) const { return absl::StrCat(folder_, "/", member, ".", life_); }

void EtcdProcesses::Start(size_t member) {
  std::vector<std::string> arguments = {"etcd",
                                        "--name",
                                        absl::StrCat("m", member),
                                        "--data-dir",
                                        DataFolder(member),
                                        "--listen-client-urls",
                                        endpoints_[member],
                                        "--advertise-client-urls",
                                        endpoints_[member],
                                        "--listen-peer-urls",
                                        peers_[member],
                                        "--initial-advertise-peer-urls",
                                        peers_[member],
                                        "--initial-cluster",
                                        Cluster(),
                                        "--initial-cluster-token",
                                        token_,
                                        "--heartbeat-interval",
                                        "20",
                                        "--election-timeout",
                                        "200",
                                        "--logger",
                                        "zap",
                                        "--log-level",
                                        "error"};
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = absl::StrCat(folder_, "/", member, ".log");
  on_host_(member, [&] {
    pids_[member] = fork();
    ASSERT_GE(pids_[member], 0);
    if (pids_[member] != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(out, 1);
    dup2(out, 2);
    execvp("etcd", argv.data());
    _exit(127);
  });
}

void EtcdProcesses::Signal(size_t member, int signal) { EXPECT_EQ(kill(pids_[member], signal), 0); }

void EtcdProcesses::Kill(size_t member) {
  if (pids_[member] == 0) return;
  kill(pids_[member], SIGKILL);
  waitpid(pids_[member], nullptr, 0);
  pids_[member] = 0;
}

void EtcdProcesses::Wipe() {
  for (size_t i = 0; i < pids_.size(); ++i) Kill(i);
  ++life_;
  for (size_t i = 0; i < pids_.size(); ++i) Start(i);
  AwaitHealthy();
}

std::string EtcdProcesses::Snapshot() {
  std::string file = absl::StrCat(folder_, "/snapshot.", life_);
  EXPECT_THAT(Control(endpoints_[0], "snapshot save " + file), testing::HasSubstr("saved"));
  return file;
}

void EtcdProcesses::Restore(const std::string& snapshot) {
  for (size_t i = 0; i < pids_.size(); ++i) Kill(i);
  ++life_;
  for (size_t i = 0; i < pids_.size(); ++i) {
    Control(absl::StrCat("snapshot restore ", snapshot, " --name m", i, " --data-dir ", DataFolder(i),
                         " --initial-cluster ", Cluster(), " --initial-cluster-token ", token_,
                         " --initial-advertise-peer-urls ", peers_[i]));
    Start(i);
  }
  AwaitHealthy();
}

std::string EtcdProcesses::Control(const std::string& arguments) {
  return Control(absl::StrJoin(endpoints_, ","), arguments);
}

std::string EtcdProcesses::Control(const std::string& endpoints, const std::string& arguments) {
  const std::string command =
      absl::StrCat("ETCDCTL_API=3 timeout 20 etcdctl --endpoints=", endpoints, " ", arguments, " 2>&1");
  FILE* pipe = nullptr;
  on_host_(0, [&] { pipe = popen(command.c_str(), "r"); });
  std::string text;
  std::array<char, 4096> bytes;
  while (const size_t got = fread(bytes.data(), 1, bytes.size(), pipe)) text.append(bytes.data(), got);
  pclose(pipe);
  return text;
}

void EtcdProcesses::AwaitHealthy() {
  const absl::Time end = absl::Now() + kLong;
  std::string health;
  do {
    health = Control("endpoint health");
    if (!absl::StrContains(health, "unhealthy") && absl::StrContains(health, "is healthy")) return;
    absl::SleepFor(absl::Milliseconds(20));
  } while (absl::Now() < end);
  FAIL() << "etcd (Debian: etcd-server, etcd-client; tools/setup installs them) does not answer:\n" << health;
}

size_t EtcdProcesses::Leader() {
  const absl::Time end = absl::Now() + kLong;
  do {
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      // Fields: endpoint, id, version, size, is leader, ...
      const std::string status = Control(endpoints_[i], "endpoint status --write-out=simple");
      const std::vector<std::string> fields = absl::StrSplit(status, ", ");
      if (fields.size() > 4 && fields[4] == "true") return i;
    }
    absl::SleepFor(absl::Milliseconds(20));
  } while (absl::Now() < end);
  ADD_FAILURE() << "etcd has no leader";
  return 0;
}

}  // namespace farlook::cluster
