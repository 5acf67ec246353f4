// A memory server in a process: memory, table, listeners, workers and their threads. Used by kv_server, and by tests
// and benchmarks that need a server of their own.
//
//     thread of the acceptor                  threads of the workers
//     Listener::Next -> Acceptor -> Mailbox -> Worker -> kv::Table, under the lock of the key's partition
//     (rejects peers that are no clients)      one Endpoint for each listener
#ifndef FARLOOK_SERVER_DAEMON_SERVER_H_
#define FARLOOK_SERVER_DAEMON_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/daemon/server_options.h"

namespace farlook::server {

// Thread safety: Stats() from any thread; the others from one thread at a time.
class Server {
 public:
  // Blocks while the memory is prepared. Logs the result. Errors name the remedy:
  //   INVALID_ARGUMENT    an option; the message names the flag of kv_server
  //   ALREADY_EXISTS      another server has an address
  //   DATA_LOSS           memory_file names something that this server cannot continue, and which it left as it was
  //   RESOURCE_EXHAUSTED  memory, huge pages, descriptors
  //   PERMISSION_DENIED, NOT_FOUND   an address's directory
  // `on_progress` is called with the per cent of memory that are prepared, from 0 on, by the threads that prepare it.
  // Clients that connect meanwhile are notified as well, once it takes longer than a moment.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::function<void(int)>& on_progress = nullptr);
  ~Server();  // Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Logs "ready", the line that scripts wait for. A program calls it once it handles SIGTERM and SIGINT, which those
  // scripts send next.
  void LogReady() const;

  // Begins to take part in its group, if it has one: until then no client is admitted. REQUIRES that it is called once.
  void JoinGroup();

  // Reads the file of users again and puts it into force. Connections of users that have changed are closed. On an
  // error, which describes the fault in the file, nothing changes. Does nothing if there is no such file.
  absl::Status ReloadUsers();

  // An operator declares the members of its group lost in that epoch: if this server keeps a copy, it begins the group
  // from it.
  void BeginGroupFromCopy(uint64_t epoch);

  // Rejects new clients, answers what has arrived, disconnects, ends the threads; within drain_timeout_ms and a little
  // more. The memory is freed on destruction. Idempotent.
  void Stop();

  // The addresses at which clients reach the listeners, in the form that Client::Connect() takes.
  const std::vector<std::string>& addresses() const;
  // Returns the answer to kStat: "name value" lines whose names start with `prefix`.
  std::string Stats(absl::string_view prefix = {}) const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_SERVER_H_
