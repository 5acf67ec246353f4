// The cores of a client: a single one, or one for each group of a cluster; and the choice of the core for a key
// (docs/cluster-design.md).
//
// A client that connects to any group of a cluster receives the map and connects to all groups. An operation goes to
// the group that owns its key's slot. All groups hash keys with one seed, so computing the slot takes a few
// instructions.
//
// Slots move between groups. Operations of a slot that moves wait in MovedOperations until they may start at the group
// that has the slot. Meanwhile other groups are asked for the map, which shows changes: epochs later than a core's,
// servers, groups.
#ifndef FARLOOK_CLIENT_CORE_CORES_H_
#define FARLOOK_CLIENT_CORE_CORES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/core/core.h"
#include "client/core/moved_operations.h"
#include "client/core/slot_owners.h"
#include "client/op/operation.h"
#include "farlook/stats.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {

// A text that a server sends in pages, as answers to Kind::kStat.
class Pages {
 public:
  // `what`: "" for statistics, or "map".
  explicit Pages(absl::string_view what) : what_(what), question_(what) {}

  // Prepares the operation for the next page. `operation` and this must outlive the request.
  void Ask(Operation* operation) {
    operation->kind = Kind::kStat;
    operation->key = question_;
    operation->to.string = &page_;
  }
  // Adds the page after the operation ended with OK. Returns whether there is another page, unless text() would be too
  // long.
  bool Take(const Operation& operation);
  const std::string& text() const { return text_; }

 private:
  const std::string what_;
  std::string question_, page_, text_;
  size_t pages_ = 0;
};

// Thread safety: one thread.
class Cores {
 public:
  explicit Cores(ClientCore* first) : home_(first), all_({first}) {}
  ~Cores();  // REQUIRES the cores are destroyed, if there are several
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // Makes a core for a group whose slots are not known yet. Like the others, the core outlives this.
  using MakeCore = std::function<absl::StatusOr<ClientCore*>(const kv::ClusterMap::Group&)>;

  // Makes the client one of a cluster. `cores` belong to the map's groups that have members, in its order, and include
  // the first core. `make` creates a core for a group that joins the cluster later. REQUIRES no operation is in flight.
  void Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores, MakeCore make);
  // Joins the cores' descriptors in one for fd(). REQUIRES !one(). RESOURCE_EXHAUSTED: no descriptors are left.
  absl::Status JoinDescriptors();

  bool one() const { return !cluster_.has_value(); }
  // The only core; in a cluster the core of the group that was reached first. It serves operations without a key.
  ClientCore& home() const { return *home_; }
  // All cores; in a cluster one for each group.
  absl::Span<ClientCore* const> all() const { return all_; }
  // Returns whether its group has a slot, as far as is known. REQUIRES !one().
  bool HasSlots(size_t index) const { return cluster_->owners.HasAny(index); }
  // Return the core for an operation, and set the operation's hash if there are several cores. Null: its slot moves, so
  // it is to be started in moved(). OfKey() REQUIRES an operation on a key.
  ClientCore* OfKey(Operation* operation) {
    if (one()) [[likely]]
      return home_;
    const size_t index = Route(operation);
    return index < all_.size() ? all_[index] : nullptr;
  }
  ClientCore* Of(Operation* operation) { return IsOfAKey(operation->kind) ? OfKey(operation) : home_; }
  // REQUIRES !one().
  MovedOperations* moved() { return &cluster_->moved; }
  // Returns the core of a group; "" means home(). NOT_FOUND: there is no such group.
  absl::StatusOr<ClientCore*> OfGroup(absl::string_view name);
  // The groups' names, in the order of all(); empty without a cluster.
  const std::vector<std::string>& groups() const { return groups_; }

  // Polls the other busy cores once in kCallsForEachTurn calls. To be called after a call for one core.
  void Tend() {
    if (one() || ++cluster_->calls % kCallsForEachTurn != 0) [[likely]]
      return;
    TendBusy();
  }
  // Continues operations whose slots move. While there are any, or an operation waits for an unreachable group, it asks
  // other groups for the map now and then. The unreachable group may have new servers. To be called after all busy
  // cores were polled, at the end of each turn of a wait. May add a core. REQUIRES !one().
  void PollMoved();
  // Returns the time in ms until PollMoved() has work that no core knows of; -1: none. REQUIRES !one().
  int64_t look_ms();

  // The calls of ClientCore, for all cores.
  void Start(absl::Span<Operation* const> operations);
  void GiveUp(absl::FunctionRef<bool(const Operation*)> which);
  size_t Poll(absl::Span<Operation*> done) { return one() ? home_->Poll(done) : PollAll(done); }
  size_t in_flight() const;
  bool has_ended() const;
  bool Arm();
  int fd() const { return one() ? home_->fd() : cluster_->epoll; }
  int64_t wait_ms();
  bool local() const;
  uint64_t memory_bytes() const;
  // The sums of all cores. The reference is valid until the next call.
  const ClientStats& stats() const;

  // Groups operations by core, in the order of all(); behind them, those for moved(). Valid until the next call.
  // `all_of_keys` REQUIRES that all operations have keys.
  absl::Span<const std::vector<Operation*>> Sort(absl::Span<Operation* const> operations, bool all_of_keys = false);

 private:
  static constexpr uint32_t kCallsForEachTurn = 64;
  // Time for which a group must be unreachable before another is asked, and time between two questions. A map may be
  // one second old.
  static constexpr int64_t kLostNs = 20'000'000, kAskAgainNs = 200'000'000;
  // Time between two questions while slots move. A group reports its own slots at once.
  static constexpr int64_t kLeastPauseNs = 5'000'000, kMostPauseNs = 50'000'000;
  // After this time without a moved operation, the pause starts at its minimum again.
  static constexpr int64_t kForgetNs = 100'000'000;
  static constexpr int64_t kAnswerMs = 250;

  // The request for the map, one page at a time.
  struct Question {
    Operation operation = {};
    ClientCore* asked = nullptr;  // null: no question is open
    std::optional<Pages> pages = {};
    bool lost = false;     // an operation waits for an unreachable group
    int64_t due_ns = 0;    // time of the next question
    int64_t pause_ns = 0;  // last pause between two questions; doubles while slots move
    size_t turn = 0;       // index of the group last asked
  };

  struct Cluster {
    Cluster(const kv::ClusterMap& map, const ClientCore& home, size_t cores, MakeCore make_core)
        : hasher(map.hash_seed),
          owners(cores),
          moved(&owners, home.options(), home.clock()),
          id(map.id),
          make(std::move(make_core)) {}
    kv::Hasher hasher;
    SlotOwners owners;  // indexes are those of all()
    MovedOperations moved;
    const uint64_t id;
    MakeCore make;
    int epoll = -1;                                    // readable when one of the cores' descriptors is
    std::vector<std::vector<Operation*>> sorted = {};  // for Sort()
    mutable ClientStats sums = {};
    Question question = {};
    int64_t held_ns = 0;    // when `moved` last held operations
    bool waiting = false;   // operations wait for a slot or an unreachable group, or did within kForgetNs
    int64_t waited_ns = 0;  // when they last did
    uint32_t calls = 0;
    size_t first = 0;  // core that the next Poll() begins with, so that each has its turn if `done` is short
  };

  size_t PollAll(absl::Span<Operation*> done);
  size_t Route(Operation* operation);
  bool has_moved() const;  // whether PollMoved() has work at once
  void TendBusy();
  void LookForMap();
  void Ask();
  void TakeMap();
  void Add(const kv::ClusterMap::Group& group);
  absl::Status Join(const ClientCore* core);

  ClientCore* const home_;
  std::vector<ClientCore*> all_;
  std::vector<std::string> groups_;
  std::optional<Cluster> cluster_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_CORES_H_
