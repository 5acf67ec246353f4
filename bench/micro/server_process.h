// A separate kv_server for a benchmark or a test, and its figures.
#ifndef FARLOOK_BENCH_MICRO_SERVER_PROCESS_H_
#define FARLOOK_BENCH_MICRO_SERVER_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farlook/client.h"

namespace farlook::bench {

// Thread safety: belongs to one thread. Destroying it stops the server.
class ServerProcess {
 public:
  // Starts `program` with --listen at `address` (empty: a new one in /tmp) and with `flags`, its output redirected to a
  // file beside the socket. Waits until a client can connect. DEADLINE_EXCEEDED or UNAVAILABLE, with the server's
  // output, if it ends first or takes longer than `timeout_ms`.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& program,
                                                              const std::vector<std::string>& flags,
                                                              int64_t timeout_ms = 60'000,
                                                              const std::string& address = "");
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }
  std::string Output() const;

  // SIGTERM, then SIGKILL if that is not enough. Returns the exit code, or -1 if it was killed.
  int Stop();

 private:
  ServerProcess() = default;
  bool Exited();

  std::string directory_;  // its own
  std::string address_;
  std::string output_path_;
  pid_t pid_ = 0;
  int status_ = 0;
};

// The server's numeric figures, by name. The client's error if it cannot ask for them.
absl::StatusOr<std::map<std::string, double>> ServerFigures(Client* client);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_SERVER_PROCESS_H_
