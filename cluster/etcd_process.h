// Processes of etcd for tests: a cluster of one or three members, on free ports of the loopback device or on hosts of a
// test.
#ifndef FARLOOK_CLUSTER_ETCD_PROCESS_H_
#define FARLOOK_CLUSTER_ETCD_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace farlook::cluster {

// Every failure here fails the running test.
class EtcdProcesses {
 public:
  // Elections take 0.2 s; another `token` makes it another cluster. Returns when all members answer.
  explicit EtcdProcesses(size_t members, const std::string& token = "one");
  // A member at each of these addresses, at etcd's own ports. `on_host` calls `run` where sockets and processes are
  // those of that member's host.
  using OnHost = std::function<void(size_t member, const std::function<void()>& run)>;
  EtcdProcesses(const std::vector<std::string>& hosts, OnHost on_host);
  ~EtcdProcesses();
  EtcdProcesses(const EtcdProcesses&) = delete;
  EtcdProcesses& operator=(const EtcdProcesses&) = delete;

  const std::vector<std::string>& endpoints() const { return endpoints_; }
  size_t Leader();

  void Signal(size_t member, int signal);  // SIGSTOP, SIGCONT
  void Kill(size_t member);
  void Start(size_t member);
  void AwaitHealthy();  // all members have a leader and a quorum
  // Restarts all of them with empty data.
  void Wipe();
  // Writes the data to a file; and restarts all members from such a file, with their former names, addresses and token.
  std::string Snapshot();
  void Restore(const std::string& snapshot);
  // The output of etcdctl for these arguments. A failure is returned as text.
  std::string Control(const std::string& arguments);

 private:
  void Begin();
  std::string Cluster() const;
  std::string DataFolder(size_t member) const;
  std::string Control(const std::string& endpoints, const std::string& arguments);

  const std::string token_;
  const OnHost on_host_;
  std::string folder_;
  std::vector<std::string> endpoints_, peers_;
  std::vector<pid_t> pids_;
  int life_ = 0;  // number of data folders used so far
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_ETCD_PROCESS_H_
