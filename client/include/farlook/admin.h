// What operators ask of a server: who is connected, and to end a connection. Where the server knows its users
// (--users), the client's user needs the role admin: else PERMISSION_DENIED.
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
  std::string peer;  // from where: a process of the server's host, or an address
  std::string user;  // who it has proved to be; "-": nobody was asked
  std::string role;  // what it may do: read, write, admin; "-": it was not let in yet
  int worker = 0;    // that serves it
  // unproven, welcome, backup, deaf (it does not take its replies), closing; atomic: its connection is over, but its
  // process was stopped within an atomic, and counts as a client; kicked: that, but it does not count any more
  std::string state;
  int64_t connected_s = 0;  // since it came
  uint64_t requests = 0;    // that arrived
  uint64_t kept_bytes = 0;  // that wait for it in the server
  uint64_t gets_per_s = 0;  // as it told last (kv_server --client_figures)
  uint64_t get_p99_ns = 0;  // likewise
};

// One request of an operator, as the protocol has it, that does not wait. The calls below make the same, and wait.
class AdminOperation final : public AsyncOperation {
 public:
  explicit AdminOperation(std::string_view what, const ServerOptions& options = {});
  const std::string& text() const { return text_; }
  // Lines that the reply had no room for.
  uint64_t left() const { return version(); }

 private:
  std::string text_;
};

// Those that there are, by id: as many requests as it takes. INTERNAL: the server's answer is not understood.
absl::StatusOr<std::vector<ConnectedClient>> ListClients(Client* client, const ServerOptions& options = {});
// Has the server end a connection; what its client has under way is taken up by the next, if it comes again. One that
// is over (atomic) counts as a client no more. OK also if it was kicked lately, and is gone: who lost the answer may
// ask again. NOT_FOUND: there is none of this id. FAILED_PRECONDITION: as many as --max_clients that are over were
// kicked, and are not gone.
absl::Status KickClient(Client* client, uint64_t id, const ServerOptions& options = {});

// A group of a cluster.
struct ClusterGroup {
  std::string name;
  uint64_t epoch = 0;                // 0: it has not begun yet
  std::vector<std::string> members;  // addresses, the primary first
  size_t slots = 0;                  // of 4,096, by which keys are divided
  std::string slot_ranges;           // "0-1023,2048"
};
// By name, as the server that is asked knows them, which may be a second old. FAILED_PRECONDITION: it is of no cluster.
absl::StatusOr<std::vector<ClusterGroup>> ListGroups(Client* client, const ServerOptions& options = {});
// Of the group that the server is the primary of, lines of words: "group NAME", "epoch N", and of each of its servers
// its role, address and incarnation, and how many records it lags behind. UNIMPLEMENTED: it is in none.
absl::StatusOr<std::string> GroupStatus(Client* client, const ServerOptions& options = {});
// Has the primary give its place to a backup, and returns when another one serves; what clients have under way goes on
// there. FAILED_PRECONDITION: no backup is in sync, or the group's record cannot be read. DEADLINE_EXCEEDED: it takes
// longer.
absl::Status HandOver(Client* client, const ServerOptions& options = {});

// Has the group have so many members, and a write at least `min_insync` of them (0: as many as before), and returns
// when its record says so: spares are filled then, or those that are too many become spares. FAILED_PRECONDITION: the
// primary refuses, and says why. DEADLINE_EXCEEDED: it takes longer, and goes on.
absl::Status ResizeGroup(Client* client, uint32_t replicas, uint32_t min_insync, const ServerOptions& options = {});

// Slots that move from one group of a cluster to another (docs/cluster.md). Each is asked of the primary of the group
// that `options` name. FAILED_PRECONDITION: it refuses, and says why. What got no answer may have been done, and may be
// asked again.

// Of slots that are to move at once, as "0-682,2048": a request has no room for more.
inline constexpr size_t kMaxSlotRangesBytes = 880;
// Has this group take slots from the group `giver`, and returns when that has begun, or is under way already; how far
// it is GroupStatus() tells, and ListGroups() of this group when it has them. INVALID_ARGUMENT: they are too many
// ranges.
absl::Status TakeSlots(Client* client, std::string_view giver, std::string_view slot_ranges,
                       const ServerOptions& options);
// Has this group give up the move by which it takes slots, unless the giver has given them already. OK also where an
// operator has cancelled the last one.
absl::Status CancelMove(Client* client, const ServerOptions& options);
// Has this group, which has neither slots nor moves, be one of the cluster no more: its servers may be stopped.
absl::Status LeaveCluster(Client* client, const ServerOptions& options);

}  // namespace farlook

#endif  // FARLOOK_ADMIN_H_
