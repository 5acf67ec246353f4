// For tests: a real kv_server as a separate process, that can be stopped, killed and started again.
#ifndef FARLOOK_TESTS_FAULTS_SERVER_PROCESS_H_
#define FARLOOK_TESTS_FAULTS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "farlook/client.h"

namespace farlook {

class ServerProcess {
 public:
  // Has all processes that are started later append their logs to a file, instead of writing to stderr; "": to stderr.
  static void LogTo(std::string file);

  // Starts kv_server (from the test's runfiles) at an address of its own with these flags, and waits until it is ready,
  // or reports that its group is lost. Ends the test program when it does not start.
  explicit ServerProcess(std::vector<std::string> flags);
  ~ServerProcess();  // kills it
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

  void Signal(int signal);
  // Waits for its end; returns the exit code, or 128 + the signal that ended it.
  int Wait();
  // Another process at the same address, with these flags too.
  void Restart(const std::vector<std::string>& more_flags = {});

  // Nanoseconds of user and system time so far. Exact while none of its threads runs.
  int64_t CpuNs() const;

 private:
  void Start(const std::vector<std::string>& more_flags);
  void Spawn(const std::vector<std::string>& more_flags);

  const std::vector<std::string> flags_;
  const std::string address_;
  pid_t pid_ = -1;
};

// A client of the server at `address`. Ends the test program when it does not get connected.
std::unique_ptr<Client> MustConnect(const std::string& address, const ClientOptions& options);
// `timeout_ms`: of an emulated device on a busy machine.
std::unique_ptr<Client> MustConnect(const std::string& address, int64_t timeout_ms = 60'000);

// A figure of the server's statistics (docs/operations.md), or -1.
int64_t ServerStat(Client* client, absl::string_view name);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_SERVER_PROCESS_H_
