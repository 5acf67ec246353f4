// The cores of a client: one; or, of a cluster, one for each group, and which of them has a key (docs/cluster.md).
//
// Who connects to a group of a cluster is told the map, and connects to all groups; a key's operation is for the group
// that has its slot. All groups hash keys with one seed, so the slot is a few instructions.
//
// Slots move between groups (slot_owners.h). What a group did not do as the slot was moved begins anew with the one
// that has it; while none has, it waits with nobody:
//
//     a core -> `moved` -> nobody -> the core that has the slot        LookAround(), which each turn of a wait ends with
//                                 -> DEADLINE_EXCEEDED
//
// and other groups are asked for the map, which tells what is new: epochs that are later than a core's, servers,
// groups.
#ifndef FARLOOK_CLIENT_CORES_H_
#define FARLOOK_CLIENT_CORES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/core.h"
#include "client/operation.h"
#include "client/slot_owners.h"
#include "farlook/stats.h"
#include "kv/cluster_map.h"
#include "kv/hash.h"

namespace farlook::client {

// A text that a server tells in pages, as answers to Kind::kStat.
class Pages {
 public:
  // `what`: "", for figures; "map".
  explicit Pages(absl::string_view what) : what_(what), question_(what) {}

  // Prepares the operation for the next page. It must stay until it has ended, and so must this.
  void Ask(Operation* operation) {
    operation->kind = Kind::kStat;
    operation->key = question_;
    operation->to.string = &page_;
  }
  // It has ended with OK. Whether there is another page, as far as text() may be longer.
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

  // Makes a core for a group of whose slots it is not known yet which it has; it outlives this as the others do.
  using MakeCore = std::function<absl::StatusOr<ClientCore*>(const kv::ClusterMap::Group&)>;

  // From now on the client is one of a cluster: `cores` are those of the map's groups that have members, in its order,
  // the first one among them. `make`: one for a group that joins the cluster later. REQUIRES no operation is in flight.
  void Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores, MakeCore make);
  // Makes one descriptor of theirs, for fd(). REQUIRES !one(). RESOURCE_EXHAUSTED: there are none left.
  absl::Status JoinDescriptors();

  bool one() const { return !cluster_.has_value(); }
  // The only one; of a cluster that of the group which was reached first: for what has no key.
  ClientCore& home() const { return *home_; }
  // Of a cluster nobody's is the last.
  absl::Span<ClientCore* const> all() const { return all_; }
  // Those that have a server.
  absl::Span<ClientCore* const> served() const { return one() ? all() : all().first(groups_.size()); }
  // Whether its group has a slot, as far as is known. REQUIRES !one().
  bool HasSlots(size_t index) const { return cluster_->owners.HasAny(index); }
  // The one for an operation, whose hash is set where there are several. The first REQUIRES it is of a key.
  ClientCore& OfKey(Operation* operation) {
    if (one()) [[likely]]
      return *home_;
    return *all_[Route(operation)];
  }
  ClientCore& Of(Operation* operation) { return IsOfAKey(operation->kind) ? OfKey(operation) : *home_; }
  // The one of a group; "": home(). NOT_FOUND: there is no such group.
  absl::StatusOr<ClientCore*> OfGroup(absl::string_view name);
  // The groups' names, in the order of served(); none where there is no cluster.
  const std::vector<std::string>& groups() const { return groups_; }

  // After a call for one core only: others that are busy have their turn now and then.
  void Tend() {
    if (one() || ++cluster_->calls % kCallsForEachTurn != 0) [[likely]]
      return;
    TendBusy();
  }
  // To be called when all cores that are busy were polled. Goes on with operations whose slots have moved; and asks
  // another group for the map, now and then, while there are such, or somebody waits for a group that is not reached,
  // as it may have other servers by now. May add a core. REQUIRES !one().
  void LookAround();
  // In how many milliseconds LookAround() has something to do that no core knows of; -1: it has not. REQUIRES !one().
  int64_t look_ms() const;

  // As the calls of ClientCore, for all of them.
  void Start(absl::Span<Operation* const> operations);
  size_t Poll(absl::Span<Operation*> done) { return one() ? home_->Poll(done) : PollAll(done); }
  size_t in_flight() const;
  bool has_ended() const;
  bool Arm();
  int fd() const { return one() ? home_->fd() : cluster_->epoll; }
  int64_t wait_ms();
  bool local() const;
  uint64_t memory_bytes() const;
  // The sums of all. The reference holds until the next call.
  const ClientStats& stats() const;

  // For several operations: those of each core, in the order of all(). Holds until the next call. `all_of_keys`:
  // REQUIRES that they are.
  absl::Span<const std::vector<Operation*>> Sort(absl::Span<Operation* const> operations, bool all_of_keys = false);

 private:
  static constexpr uint32_t kCallsForEachTurn = 64;
  // How long a group is not reached before another one is asked, and between two questions: a map may be a second old.
  static constexpr int64_t kLostNs = 20'000'000, kAskAgainNs = 200'000'000;
  // Between two questions while slots move: a group itself tells at once which it has.
  static constexpr int64_t kLeastPauseNs = 5'000'000, kMostPauseNs = 50'000'000;
  // When no operation was moved for so long, the next one is the first.
  static constexpr int64_t kForgetNs = 100'000'000;
  static constexpr int64_t kAnswerMs = 250;

  // The map is asked for, a page at a time.
  struct Question {
    Operation operation = {};
    ClientCore* asked = nullptr;  // null: nobody is
    std::optional<Pages> pages = {};
    bool lost = false;     // somebody waits for a group that is not reached
    int64_t due_ns = 0;    // of the next
    int64_t pause_ns = 0;  // while slots move: before the next but one
    size_t turn = 0;       // whose it is to be asked
  };

  struct Cluster {
    Cluster(const kv::ClusterMap& map, size_t cores, MakeCore make_core)
        : hasher(map.hash_seed), owners(cores), id(map.id), make(std::move(make_core)) {}
    kv::Hasher hasher;
    SlotOwners owners;  // as indexes in all()
    const uint64_t id;
    MakeCore make;
    std::unique_ptr<ClientCore> nobody = {};
    int epoll = -1;                                    // readable when one of the cores' descriptors is
    std::vector<std::vector<Operation*>> sorted = {};  // for Sort()
    mutable ClientStats sums = {};
    Question question = {};
    int64_t held_ns = 0;    // when nobody held operations last
    bool waiting = false;   // operations wait for a slot or for a group that is not reached, or did within kForgetNs
    int64_t waited_ns = 0;  // when they did last
    uint32_t calls = 0;
    size_t first = 0;  // of the next Poll(): each core has its turn where `done` has room for few
  };

  size_t PollAll(absl::Span<Operation*> done);
  size_t Route(Operation* operation);
  bool has_moved() const;  // whether LookAround() has something to do at once
  void TendBusy();
  void TakeMoved();
  void StartMoved();
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

#endif  // FARLOOK_CLIENT_CORES_H_
