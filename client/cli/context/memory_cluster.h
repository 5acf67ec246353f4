// A cluster in this process's memory, for tests of commands for operators. Its groups take slots from each other as in
// docs/cluster-design.md, one step for each request of the taker's status. Tests choose failures.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_CLUSTER_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/context/memory_store.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cli {

class MemoryCluster : public MemoryStore {
 public:
  explicit MemoryCluster(uint32_t seed = 1) : MemoryStore(seed) {}

  // Adds a group with these slots; if !serves, it has not begun. Without groups it behaves as a MemoryStore.
  void AddGroup(const std::string& name, absl::string_view slots, bool serves = true);
  // "kv.0 0-2047;kv.1 2048-4095;kv.2".
  void AddGroups(absl::string_view text);
  // Returns the present slots as "kv.0 0-2047;kv.1 2048-4095;kv.2".
  std::string ToString() const;

  // Called for each request, "status", "map", "take", "cancel" or "leave", with its group, before it is executed. A
  // status that is not OK is its result.
  using AdminFault = std::function<absl::Status(absl::string_view what, const std::string& group)>;
  void set_admin_fault(AdminFault fault) { admin_fault_ = std::move(fault); }
  // Number of status requests to the taker until it has copied all. Each further one is a step: the giver gives, the
  // taker has, the giver forgets.
  void set_copy_looks(int looks) { copy_looks_ = looks; }
  // Makes the next moves, one for each word, fail when they have copied half; "": that one does not fail.
  void set_failures(std::vector<std::string> why) { failures_ = std::move(why); }
  // Simulates a restart of all takers, whose moves are then forgotten.
  void ForgetMoves();
  // Why all takers wait; empty: they do not.
  void set_waits(std::string why) { waits_ = std::move(why); }

  const std::vector<std::string>& takes() const { return takes_; }  // moves that have begun, each as "kv.0>kv.2:0-682"

  absl::StatusOr<std::string> GroupStatus(const ServerOptions& options) override;
  absl::Status TakeSlots(const std::string& giver, const std::string& slot_ranges,
                         const ServerOptions& options) override;
  absl::Status CancelMove(const ServerOptions& options) override;
  absl::Status LeaveCluster(const ServerOptions& options) override;
  absl::StatusOr<std::vector<ClusterGroup>> Groups(const ServerOptions& options) override;

 private:
  enum class Step { kCopying, kGiven, kTaken };
  struct Move {
    std::string from = {};
    kv::SlotSet slots = {};
    Step step = Step::kCopying;
    int looks = 0;
    std::string failure = {};
  };
  struct Group {
    kv::SlotSet slots = {};
    bool serves = true;
    std::optional<Move> move = {};  // by which it takes slots
    std::string failed = {};
  };

  absl::Status Admit(absl::string_view what, const std::string& group);
  void GoOn(Group* taker);
  bool Gives(const std::string& name) const;

  std::map<std::string, Group> cluster_;
  AdminFault admin_fault_;
  int copy_looks_ = 2;
  std::vector<std::string> failures_;
  std::string waits_;
  std::vector<std::string> takes_;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_CLUSTER_H_
