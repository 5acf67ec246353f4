// Calls for operators of a server: list its connections, end one, manage groups. If the server has users (--users), the
// client's user needs the role admin; otherwise the calls fail with PERMISSION_DENIED.
#ifndef FARLOOK_ADMIN_H_
#define FARLOOK_ADMIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook {

// A connection of a server.
struct ConnectedClient {
  uint64_t id = 0;   // of this connection, used once in the server's life
  std::string peer;  // origin: a process of the server's host, or an address
  std::string user;  // proven identity; "-": the server asked for none
  std::string role;  // its rights: read, write, admin; "-": not admitted yet
  int worker = 0;    // the worker that serves it
  // unproven, welcome, backup, paused, closing, atomic or kicked. paused: it does not take its replies. atomic: the
  // connection is closed, but its process was stopped within an atomic. It still counts as a client. kicked: the same,
  // not counted.
  std::string state;
  int64_t connected_s = 0;  // since it was opened
  uint64_t requests = 0;    // received
  uint64_t kept_bytes = 0;  // of requests that wait in the server
  uint64_t gets_per_s = 0;  // as last reported (kv_server --client_figures)
  uint64_t get_p99_ns = 0;  // as last reported
};

// One request of an operator that does not wait. The calls below send the same requests and wait.
class AdminOperation final : public AsyncOperation {
 public:
  explicit AdminOperation(std::string_view what, const ServerOptions& options = {});
  const std::string& text() const { return text_; }
  // Number of lines that did not fit in the reply.
  uint64_t left() const { return version(); }

 private:
  std::string text_;
};

// Returns all connections, by id; sends as many requests as needed. INTERNAL: the server's reply cannot be decoded.
absl::StatusOr<std::vector<ConnectedClient>> ListClients(Client* client, const ServerOptions& options = {});
// Makes the server close a connection. If the client reconnects, its operations continue. A closed connection in state
// atomic no longer counts as a client. OK also if it was kicked recently and is gone, so the call may be repeated.
// NOT_FOUND: no connection has this id. FAILED_PRECONDITION: --max_clients closed connections were kicked and are not
// gone yet.
absl::Status KickClient(Client* client, uint64_t id, const ServerOptions& options = {});

// A group of a cluster.
struct ClusterGroup {
  std::string name;
  uint64_t epoch = 0;                // 0: it has not begun yet
  std::vector<std::string> members;  // addresses, the primary first
  size_t slots = 0;                  // number of its slots, of 4,096
  std::string slot_ranges;           // "0-1023,2048"
};
// Returns the groups by name, as the asked server knows them; this may be a second old. FAILED_PRECONDITION: it is in
// no cluster.
absl::StatusOr<std::vector<ClusterGroup>> ListGroups(Client* client, const ServerOptions& options = {});
// Returns the state of the group whose primary the server is, in lines of words: "group NAME", "epoch N". Each server
// has a line with its role, address, incarnation and lag in records. UNIMPLEMENTED: it is in no group.
absl::StatusOr<std::string> GroupStatus(Client* client, const ServerOptions& options = {});
// Makes the primary hand over to a backup; returns when another server is the primary. Operations of clients continue
// there. FAILED_PRECONDITION: no backup is in sync, or the group's record cannot be read. DEADLINE_EXCEEDED: it takes
// longer.
absl::Status HandOver(Client* client, const ServerOptions& options = {});

// Sets the group's number of members, and how many of them a write needs at least (`min_insync`; 0: unchanged). Returns
// when the group's record says so: then spares are filled, or surplus members become spares. FAILED_PRECONDITION: the
// primary refuses, and says why. DEADLINE_EXCEEDED: it takes longer, and continues.
absl::Status ResizeGroup(Client* client, uint32_t replicas, uint32_t min_insync, const ServerOptions& options = {});

// Moving slots from one group of a cluster to another (docs/cluster.md). `options` name the group whose primary is
// asked. FAILED_PRECONDITION: it refuses, and says why. A request without a reply may have been executed, and may be
// repeated.

// Maximum length of `slot_ranges`, as in "0-682,2048": one request holds no more.
inline constexpr size_t kMaxSlotRangesBytes = 880;
// Makes this group take slots from the group `giver`. Returns when the move has begun, or if it was under way already.
// GroupStatus() shows its progress; at the end ListGroups() of this group shows the slots. INVALID_ARGUMENT: too many
// ranges.
absl::Status TakeSlots(Client* client, std::string_view giver, std::string_view slot_ranges,
                       const ServerOptions& options);
// Cancels the move by which this group takes slots, unless the giver has given them already. OK also if the last move
// was cancelled by an operator.
absl::Status CancelMove(Client* client, const ServerOptions& options);
// Removes this group, which has neither slots nor moves, from the cluster: afterwards its servers may be stopped.
absl::Status LeaveCluster(Client* client, const ServerOptions& options);

}  // namespace farlook

#endif  // FARLOOK_ADMIN_H_
