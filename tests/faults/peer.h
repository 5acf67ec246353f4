// For tests in several guests (tests/vm, --hosts): another host, and processes there.
#ifndef FARLOOK_TESTS_FAULTS_PEER_H_
#define FARLOOK_TESTS_FAULTS_PEER_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace farlook {

// A process on another host, in the same directory. Thread safety: none.
class PeerProcess {
 public:
  // `host`: a, on which the test runs, b, or c.
  explicit PeerProcess(std::vector<std::string> command, char host = 'b');
  ~PeerProcess();  // gives it up: it ends with its host at the latest
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Its exit status; 128 + SIGKILL when its host died.
  int Wait();

 private:
  pid_t pid_;
};

// "kill": the other host is lost, without notice. "boot": it boots again. Waits until that is done.
void Peer(const std::string& what);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_PEER_H_
