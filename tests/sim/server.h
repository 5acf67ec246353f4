// A memory server of a simulated run: table, workers and acceptor of the product, polled by the scheduler.
//
// Between any two stores to its region the others may continue, for nanoseconds or, if it is stopped just there, for
// long. It may die there, too: the store is then its last one.
#ifndef FARLOOK_TESTS_SIM_SERVER_H_
#define FARLOOK_TESTS_SIM_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kv/table/table.h"
#include "rdma/sim/network.h"
#include "rdma/transport.h"
#include "server/acceptor/acceptor.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/counters/counters.h"
#include "server/group/group.h"
#include "server/replication/commit_gate.h"
#include "server/session/connection_quota.h"
#include "server/worker/worker.h"
#include "tests/sim/world.h"

namespace farlook::sim {

class SimServer {
 public:
  SimServer(World* world, int number) : world_(world), number_(number), clock_(&world->scheduler) {}
  ~SimServer() { Destroy(); }

  std::string address() const { return "sim://server" + std::to_string(number_); }
  rdma::sim::Party party() const { return 1000 + number_; }
  rdma::sim::SimClock& clock() { return clock_; }
  // That it had at a moment.
  rdma::sim::SimClock ClockAt(int64_t true_ns) const;
  bool alive() const { return parts_ != nullptr; }
  bool ending() const { return ending_; }
  kv::TableStats stats() const { return parts_ ? parts_->table->stats() : kv::TableStats(); }
  // Since clients may connect.
  uint64_t splits() const { return stats().splits - (parts_ ? parts_->splits_before : 0); }
  int starts() const { return starts_; }
  uint64_t incarnation() const { return incarnation_; }
  // Sends an operator's request to its group (server/group/group.h).
  void Ask(const std::string& what);
  uint64_t no_memory() const;  // replies that said so
  // Cells of deleted counters that are not free yet.
  uint64_t cells_waiting() const;
  bool Holds(absl::string_view key) const;
  std::string State() const;  // of a member of the group, as operators receive it

  void Start();
  // Ends at once, or, if it is between two stores, after the last of them.
  void Kill();
  // Ends as at SIGTERM: a backup only after it was removed from its group, or after a while. Then another incarnation
  // starts.
  void EndInOrder();
  bool leaves() const { return leaves_until_ns_ != 0; }
  void Stop(int64_t ns) { stopped_until_ns_ = world_->now_ns() + ns; }

  // Notes that it has just stored a word that others can see.
  static void Stored(const void* at);

  // A run begins or ends: frees its regions.
  static void TakeArena();
  static void ClearArena();

 private:
  struct Killed {};
  struct Parts {                              // of one incarnation; destroyed from the last to the first
    std::unique_ptr<server::TableTime> time;  // null: nothing expires
    std::unique_ptr<kv::Table> table;
    uint64_t splits_before = 0;
    std::unique_ptr<server::PartitionLocks> locks;
    std::unique_ptr<server::Group> group;  // null: it is in none
    std::unique_ptr<server::CommitGate> gate;
    std::unique_ptr<server::Counters> counters;  // null without
    server::ConnectionQuota quota{1024};
    std::unique_ptr<rdma::Listener> listener;
    std::vector<std::unique_ptr<rdma::Endpoint>> endpoints;
    std::vector<std::unique_ptr<server::Worker>> workers;
    std::unique_ptr<server::Acceptor> acceptor;
  };

  uint64_t RegionBytes() const;
  void MakeSparse(kv::Table* table);
  void AlmostFill(kv::Table* table);
  void OpenGroup(uint64_t incarnation);
  void JoinGroup();
  bool StepGroup();
  void ExpectDescribed();
  std::string group_name() const { return World::GroupName(world_->GroupOf(number_)); }
  void OnRecord(cluster::Entry entry);
  void BeginAnew();
  void ExpectCopyElsewhere();
  void ExpectRoom();
  bool may_die() const { return !world_->may_die || world_->may_die(number_); }
  absl::Span<char> CreateCounters(uint64_t incarnation);
  void Wake();
  void Poll();
  void Pause();
  void AwaitDirectory();
  void StandStill(int64_t ns);
  void Destroy(bool in_order = false);

  World* const world_;
  const int number_;
  rdma::sim::SimClock clock_;
  std::vector<std::pair<int64_t, rdma::sim::SimClock>> past_clocks_;  // until when
  std::unique_ptr<Parts> parts_;
  int starts_ = 0;
  uint64_t incarnation_ = 0;
  uint64_t revision_ = 0;         // of the group's record that it has seen
  int64_t look_ns_ = 0;           // when it sees the next
  int64_t others_ns_ = 0;         // and the next of the cluster's other groups
  uint64_t described_epoch_ = 0;  // whose description was checked
  bool has_begun_ = false;        // its part in the group
  bool was_member_ = false;       // by a record that it knew
  bool deposed_ = false;          // and is to begin anew
  int64_t leaves_until_ns_ = 0;   // 0: it is not to end
  bool timer_is_set_ = false;
  int64_t died_ns_ = 0;
  int64_t stopped_until_ns_ = 0;
  bool scheduled_ = false;
  bool busy_ = false;
  bool woken_ = false;  // while busy
  bool kill_wanted_ = false;
  bool ending_ = false;
  int64_t stores_left_ = 1;  // until the next pause
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_SERVER_H_
