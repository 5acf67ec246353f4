// A memory server in a process: memory, table, listeners, workers and their threads. What kv_server runs; also for
// tests and benchmarks that want a server of their own.
//
//     thread of the acceptor                  threads of the workers
//     Listener::Next -> Acceptor -> Mailbox -> Worker -> kv::Table, under the lock of the key's partition
//     (rejects what is no client)              one Endpoint for each listener
#ifndef FARLOOK_SERVER_SERVER_H_
#define FARLOOK_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/server_options.h"

namespace farlook::server {

inline constexpr absl::string_view kVersion = "0.1";

// Thread safety: Stats() from any thread; the others from one thread at a time.
class Server {
 public:
  // Blocks while the memory is prepared. Logs what it got. Errors name the cure:
  //   INVALID_ARGUMENT    an option; the message names the flag of kv_server
  //   ALREADY_EXISTS      another server has an address
  //   RESOURCE_EXHAUSTED  memory, huge pages, descriptors
  //   PERMISSION_DENIED, NOT_FOUND   an address's directory
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();  // Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Logs the line that scripts wait for. A program says so when it also handles the signals that those scripts send.
  void LogReady() const;

  // Turns new clients away, answers what has arrived, disconnects, ends the threads; within drain_timeout_ms and a
  // little. The memory is given back on destruction. Idempotent.
  void Stop();

  // As clients would write them.
  const std::vector<std::string>& addresses() const;
  // What kStat answers: "name value" lines, of names that start with `prefix`.
  std::string Stats(absl::string_view prefix = {}) const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVER_H_
