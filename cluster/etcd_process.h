// Processes of etcd for tests: a cluster of one or three members on free ports of the loopback device.
#ifndef FARLOOK_CLUSTER_ETCD_PROCESS_H_
#define FARLOOK_CLUSTER_ETCD_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace farlook::cluster {

// Everything that fails here fails the test that runs.
class EtcdProcesses {
 public:
  // Elections take 0.2 s; a `token` of its own makes it another cluster. Returns when all members answer.
  explicit EtcdProcesses(size_t members, const std::string& token = "one");
  ~EtcdProcesses();
  EtcdProcesses(const EtcdProcesses&) = delete;
  EtcdProcesses& operator=(const EtcdProcesses&) = delete;

  const std::vector<std::string>& endpoints() const { return endpoints_; }
  size_t Leader();

  void Signal(size_t member, int signal);  // SIGSTOP, SIGCONT
  void Kill(size_t member);
  void Start(size_t member);
  void AwaitHealthy();  // all members have a leader and a quorum
  // All of them, with other data: those of nobody.
  void Wipe();
  // What there is, in a file; and all of them from such a file, with their former names, addresses and token.
  std::string Snapshot();
  void Restore(const std::string& snapshot);
  // What etcdctl prints for these arguments. Dies of nothing: a failure is text too.
  std::string Control(const std::string& arguments);

 private:
  std::string Cluster() const;
  std::string DataFolder(size_t member) const;
  static std::string Control(const std::string& endpoints, const std::string& arguments);

  const std::string token_;
  std::string folder_;
  std::vector<std::string> endpoints_, peers_;
  std::vector<pid_t> pids_;
  int life_ = 0;  // number of data folders that were used
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_ETCD_PROCESS_H_
