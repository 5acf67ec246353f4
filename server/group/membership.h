// The group's record at this server: learns it, changes it by compare-and-swap, and publishes what follows from it.
//
//     record --> Learn --> cluster::Member --> actions --> CarryOut --> Publish --> clients, stream, gate
//
// The parts of the group (BackupKeeper, Standby, SlotGiver, SlotTaker, SlotSettler) read the configuration here, and
// propose changes here. What an action asks of these parts goes through MembershipEvents.
//
// Thread safety: the group's thread, except where a method says otherwise.
// Invariant: a process that loses its membership ends: GroupParts::deposed is called once, unless the process is
// ending.
#ifndef FARLOOK_SERVER_GROUP_MEMBERSHIP_H_
#define FARLOOK_SERVER_GROUP_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/member.h"
#include "cluster/table_layout.h"
#include "kv/wire/cluster_map.h"
#include "server/base/log.h"
#include "server/group/cluster_watch.h"
#include "server/group/group_parts.h"
#include "server/replication/group_stream.h"
#include "server/replication/serving.h"

namespace farlook::server {

// Called by Membership on the group's thread.
class MembershipEvents {
 public:
  virtual ~MembershipEvents() = default;
  // Clients are about to learn of the present configuration.
  virtual void OnPublish() = 0;
  // An epoch of another primary began; `former` was the primary before, 0: none was known.
  virtual void OnFollow(uint64_t former) = 0;
  // Sends the promoter's log to the other members. Returns whether they have all of it already.
  virtual bool OnShareTail() = 0;
  // Publishes the promoter's log.
  virtual absl::Status OnPublishTail() = 0;
  // This server is the primary from now on.
  virtual void OnLead() = 0;
};

class Membership {
 public:
  Membership(GroupOptions options, std::unique_ptr<cluster::Directory> directory);

  // REQUIRES that no thread of the group runs yet. `layout`: of this server's table.
  void Attach(GroupParts parts, cluster::TableLayout layout, MembershipEvents* events);

  const GroupOptions& options() const { return options_; }
  const GroupParts& parts() const { return parts_; }
  cluster::Directory* directory() const { return directory_.get(); }
  GroupStream* stream() { return &stream_; }
  const GroupStream& stream() const { return stream_; }
  Serving* serving() { return &serving_; }
  const Serving& serving() const { return serving_; }
  ClusterWatch* cluster_watch() { return &cluster_watch_; }
  const ClusterWatch& cluster_watch() const { return cluster_watch_; }
  cluster::Member* mutable_member() { return &member_; }  // to propose changes
  const cluster::Member& member() const { return member_; }
  const cluster::Configuration& configuration() const { return member_.configuration(); }
  bool is_deposed() const { return deposed_; }
  absl::Time Now() const;

  // Creates the group's record.
  void Create(cluster::Configuration first);
  // Queues a record for LearnQueued(). Any thread.
  void Enqueue(cluster::Entry entry);
  void LearnQueued();
  void Learn(const cluster::Entry& entry);
  // Does what is due by the clock. Repeats a proposal without an answer.
  void Tick();

  // Returns false within kProposeAgain of the last proposal. Otherwise begins that pause, and the caller may propose.
  bool BeginProposal();
  // Ends the pause, after the proposal became the record.
  void EndProposal() { propose_at_ = absl::InfinitePast(); }
  absl::Time propose_at() const { return propose_at_; }
  // Executes the actions of the member.
  void CarryOut(cluster::Actions* actions);
  // Changes the group's slots and moves. Returns whether the record has changed.
  bool Reassign(const kv::SlotSet& slots, std::vector<cluster::Move> moves);
  // Ends this server's part in the group.
  void Depose(absl::string_view why);
  // This process ends as soon as it is no member any more: it does not begin again.
  void Leave() { leaves_ = true; }

  // A joiner that must accept each record as members do; 0: none.
  void SetJoiner(uint64_t joiner);
  // Refuses requests for these slots, although the group owns them. Takes effect with PublishSlots().
  void SetClosed(const kv::SlotSet& slots) { closed_ = slots; }
  // Publishes which slots the group serves. Clients are not admitted before.
  void PublishSlots();

  // Reads the latest record of another group. NOT_FOUND: the cluster has no such group.
  absl::StatusOr<cluster::Configuration> ReadGroup(const std::string& name);
  // Writes to the record that this primary has left in order, so that a backup need not wait for suspicion and lease.
  // Two requests to the directory, best effort. REQUIRES that this server's memory can no longer be READ.
  void RecordDeparture();
  // Returns whether the lock of a member with this address also proves that its memory can no longer be READ. Not over
  // rdma://: the kernel may release the lock before it destroys queue pairs, and until then an adapter answers.
  bool LockProvesEnd(absl::string_view address) const;

  // Pause between attempts to change a record that cannot be written.
  static constexpr absl::Duration kProposeAgain = absl::Milliseconds(100);

 private:
  static constexpr size_t kMostKept = 64 << 20;  // bytes of records, for backups that lag

  void CarryOutOne(const cluster::Action& action, cluster::Actions* more);
  void Publish();
  void SetMembers();

  const GroupOptions options_;
  const std::unique_ptr<cluster::Directory> directory_;
  GroupParts parts_;
  cluster::TableLayout layout_;
  MembershipEvents* events_ = nullptr;
  GroupStream stream_{kMostKept};
  Serving serving_;
  ClusterWatch cluster_watch_{options_.name};
  cluster::Member member_;
  absl::Time propose_at_ = absl::InfinitePast();
  absl::Time retry_at_ = absl::InfinitePast();  // earliest time to repeat a proposal without an answer
  uint64_t joiner_ = 0;
  kv::SlotSet closed_;
  RateLimit record_log_;
  bool deposed_ = false;
  bool leaves_ = false;

  absl::Mutex mutex_;
  std::deque<cluster::Entry> queued_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_MEMBERSHIP_H_
