// The cores of a client: one; or, of a cluster, one for each group, and which of them has a key (docs/cluster.md).
//
// Who connects to a group of a cluster is told the map, and connects to all groups; a key's operation is for the group
// that has its slot. All groups hash keys with one seed, so the slot is a few instructions.
#ifndef FARLOOK_CLIENT_CORES_H_
#define FARLOOK_CLIENT_CORES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/core.h"
#include "client/operation.h"
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
};

// Thread safety: one thread.
class Cores {
 public:
  explicit Cores(ClientCore* first) : home_(first), all_({first}) {}
  ~Cores();  // REQUIRES the cores are destroyed, if there are several
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // From now on the client is one of a cluster: `cores` are those of the map's groups that have members, in its order,
  // the first one among them; where that leaves slots without a group, one more, for their keys. REQUIRES no operation
  // is in flight.
  void Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores);
  // Makes one descriptor of theirs, for fd(). REQUIRES !one(). RESOURCE_EXHAUSTED: there are none left.
  absl::Status JoinDescriptors();

  bool one() const { return !cluster_.has_value(); }
  // The only one; of a cluster that of the group which was reached first: for what has no key.
  ClientCore& home() const { return *home_; }
  absl::Span<ClientCore* const> all() const { return all_; }
  // The one for an operation, whose hash is set where there are several. The first REQUIRES it is of a key.
  ClientCore& OfKey(Operation* operation) {
    if (one()) [[likely]]
      return *home_;
    return *all_[Route(operation)];
  }
  ClientCore& Of(Operation* operation) { return IsOfAKey(operation->kind) ? OfKey(operation) : *home_; }
  // The one of a group; "": home(). NOT_FOUND: there is no such group.
  absl::StatusOr<ClientCore*> OfGroup(absl::string_view name);
  // The groups' names, in the order of all(), which may have one more; none where there is no cluster.
  const std::vector<std::string>& groups() const { return groups_; }

  // After a call for one core only: others that are busy have their turn now and then.
  void Tend() {
    if (one() || ++cluster_->calls % kCallsForEachTurn != 0) [[likely]]
      return;
    TendBusy();
  }
  // While somebody waits for a group that is not reached, as it may have other servers by now: asks another group for
  // the map, now and then. To be called after Poll(). REQUIRES !one().
  void LookForLost();

  // As the calls of ClientCore, for all of them.
  void Start(absl::Span<Operation* const> operations);
  size_t Poll(absl::Span<Operation*> done);
  size_t in_flight() const;
  bool has_ended() const;
  bool Arm();
  int fd() const { return one() ? home_->fd() : cluster_->epoll; }
  int64_t wait_ms();
  bool local() const;
  uint64_t memory_bytes() const;
  // The sums of all. The reference holds until the next call.
  const ClientStats& stats() const;

  // For several operations: those of each core, in the order of all(). Holds until the next call.
  absl::Span<const std::vector<Operation*>> Sort(absl::Span<Operation* const> operations);

 private:
  static constexpr uint32_t kCallsForEachTurn = 64;
  // How long a group is not reached before another one is asked, and between two questions: a map may be a second old.
  static constexpr int64_t kLostNs = 20'000'000, kAskAgainNs = 200'000'000;
  static constexpr int64_t kAnswerMs = 1000;

  // The map is asked for, a page at a time.
  struct Question {
    Operation operation = {};
    ClientCore* asked = nullptr;  // null: nobody is
    std::optional<Pages> pages = {};
    int64_t due_ns = 0;  // of the next; 0: no group is lost
    size_t turn = 0;     // whose it is to be asked
  };

  struct Cluster {
    explicit Cluster(uint64_t hash_seed) : hasher(hash_seed) {}
    kv::Hasher hasher;
    std::array<uint8_t, kv::kClusterSlots> owners = {};  // indexes in all()
    int epoll = -1;                                      // readable when one of the cores' descriptors is
    std::vector<std::vector<Operation*>> sorted = {};    // for Sort()
    mutable ClientStats sums = {};
    Question question = {};
    uint32_t calls = 0;
    size_t first = 0;  // of the next Poll(): each core has its turn where `done` has room for few
  };

  size_t Route(Operation* operation);
  void TendBusy();
  void Ask();
  void TakeMap();

  ClientCore* const home_;
  std::vector<ClientCore*> all_;
  std::vector<std::string> groups_;
  std::optional<Cluster> cluster_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORES_H_
