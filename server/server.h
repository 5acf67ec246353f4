// A memory server in a process: memory, table, listeners, workers and their threads. What kv_server runs; also for
// tests and benchmarks that want a server of their own.
//
//     thread of the acceptor                  threads of the workers
//     Listener::Next -> Acceptor -> Mailbox -> Worker -> kv::Table, under the lock of the key's partition
//     (rejects what is no client)              one Endpoint for each listener
#ifndef FARLOOK_SERVER_SERVER_H_
#define FARLOOK_SERVER_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/limits.h"
#include "rdma/shared_memory.h"

namespace farlook::server {

inline constexpr absl::string_view kVersion = "0.1";

struct ServerOptions {
  std::vector<std::string> listen;  // at least one: "shm:///path"
  uint64_t memory_bytes = 1ull << 30;
  rdma::HugePages huge_pages = rdma::HugePages::kAuto;
  uint64_t counter_memory_bytes = 16ull << 20;  // for cells of counters, 64 bytes each; 0: no counters
  int64_t counter_patience_ms = 2000;  // before a client that does not acknowledge deleted counters is disconnected
  int numa_node = -1;                  // -1: the device's; where there is none, or nobody knows, as the kernel likes
  int workers = 1;                     // threads, 1 .. 64
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  uint32_t window = kv::kDefaultWindow;    // requests that a client may have without a reply
  int64_t max_clients = 1024;              // connections at once
  size_t max_kept_sessions = 4096;         // of clients that are gone
  int64_t keep_sessions_ms = 10 * 60'000;  // for how long at most
  int64_t spin_us = 20;                    // without work before a worker sleeps
  int64_t drain_timeout_ms = 2000;         // for Stop()
  int64_t liveness_ms = 3000;              // in which a client that is silently gone is noticed (rdma)
};

// Thread safety: Stats() from any thread; the others from one thread at a time.
class Server {
 public:
  // Blocks while the memory is prepared. Logs what it got. Errors name the cure:
  //   INVALID_ARGUMENT    an option; the message names the flag of kv_server
  //   ALREADY_EXISTS      another server has an address
  //   RESOURCE_EXHAUSTED  memory, huge pages, descriptors
  //   PERMISSION_DENIED, NOT_FOUND   an address's directory
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // INVALID_ARGUMENT as of Start(), looking at nothing but the options.
  static absl::Status CheckOptions(const ServerOptions& options);
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
