// A memory server in a process: memory, table, listeners, workers and their threads. What kv_server runs; also for
// tests and benchmarks that want a server of their own.
//
//     thread of the acceptor                  threads of the workers
//     Listener::Next -> Acceptor -> Mailbox -> Worker -> kv::Table, under the lock of the key's partition
//     (rejects what is no client)              one Endpoint for each listener
#ifndef FARLOOK_SERVER_SERVER_H_
#define FARLOOK_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/server_options.h"

namespace farlook::server {

// Thread safety: Stats() from any thread; the others from one thread at a time.
class Server {
 public:
  // Blocks while the memory is prepared. Logs what it got. Errors name the cure:
  //   INVALID_ARGUMENT    an option; the message names the flag of kv_server
  //   ALREADY_EXISTS      another server has an address
  //   RESOURCE_EXHAUSTED  memory, huge pages, descriptors
  //   PERMISSION_DENIED, NOT_FOUND   an address's directory
  // `on_progress` is told, by the threads that prepare it, how many per cent of the memory are prepared, from 0 on; so
  // are clients that come meanwhile, once that takes longer than a moment.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::function<void(int)>& on_progress = nullptr);
  ~Server();  // Stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Logs "ready", the line for which scripts wait. A program calls it once it handles SIGTERM and SIGINT, which those
  // scripts send next.
  void LogReady() const;

  // Begins its part in its group, where it has one: until then nobody is let in. REQUIRES that it is called once.
  void JoinGroup();

  // Reads the file of users again: from now on it is in force, and connections of users who are not what they were end.
  // An error, which says what is wrong with the file: nothing has changed. Nothing where there is no such file.
  absl::Status ReloadUsers();

  // Turns new clients away, answers what has arrived, disconnects, ends the threads; within drain_timeout_ms and a
  // little. The memory is given back on destruction. Idempotent.
  void Stop();

  // The addresses at which clients reach the listeners, in the form that Client::Connect() takes.
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
