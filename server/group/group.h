// A server's part in its group: its state, its threads, and the order of its work.
//
//     directory --watcher's thread--> Membership                     the group's record
//                                         |  the group's thread
//             Standby                     BackupKeeper               SlotGiver, SlotTaker, SlotSettler
//             joins, follows, promotes    fills, adds, removes       a cluster's slots that move
//                                         OperatorDesk
//
// Reading order: membership.h, standby.h, backup_keeper.h, slot_giver.h, slot_taker.h, slot_settler.h, operator_desk.h.
//
// Thread safety: any thread.
// Invariant: clients are admitted only while the member serves. Before that all accepted records are published, and the
// workers have the former primary's replies.
#ifndef FARLOOK_SERVER_GROUP_GROUP_H_
#define FARLOOK_SERVER_GROUP_GROUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/table_layout.h"
#include "kv/wire/handshake.h"
#include "rdma/wake_fd.h"
#include "server/group/backup_keeper.h"
#include "server/group/copy_pace.h"
#include "server/group/group_figures.h"
#include "server/group/group_parts.h"
#include "server/group/group_status.h"
#include "server/group/join_rules.h"
#include "server/group/membership.h"
#include "server/group/operator_desk.h"
#include "server/group/slot_giver.h"
#include "server/group/slot_settler.h"
#include "server/group/slot_taker.h"
#include "server/group/standby.h"
#include "server/group/worker_tasks.h"
#include "server/replication/group_stream.h"
#include "server/replication/serving.h"

namespace farlook::server {

class Group final : private MembershipEvents {
 public:
  using Options = GroupOptions;
  using Parts = GroupParts;

  // Reads the record. FAILED_PRECONDITION: the group is in another cluster. Otherwise errors of Options::accepts.
  static absl::StatusOr<std::unique_ptr<Group>> Open(Options options);
  ~Group() override;  // Stop()

  // Returns what EnterCluster() would refuse for certain. Changes nothing.
  absl::Status CheckEntry();
  // Enters a group that has no record yet into Options::cluster. That is permanent, so it is done after all other
  // checks. Errors: see cluster::EnterCluster.
  absl::Status EnterCluster();

  // Returns whether the group had a record when this was opened. Otherwise this server begins the group.
  bool has_begun() const { return entry_.revision != 0; }
  // The record as first read; without one, epoch 0.
  const cluster::Configuration& found() const { return first_; }
  // The hash seed and layout of the tables of the group and its cluster. 0 or empty: the server that begins the group
  // chooses.
  uint64_t hash_seed() const { return first_.hash_seed; }
  cluster::TableLayout layout() const { return first_.layout; }

  GroupStream* stream() { return membership_.stream(); }
  Serving* serving() { return membership_.serving(); }

  // Starts the threads.
  void Start(Parts parts);
  // Before Stop(): a backup has its primary remove it from the record, so that clients do not wait for a member that is
  // gone. Returns when that is done, or after `most`. Workers continue meanwhile.
  void Leave(absl::Duration most);
  // Stops serving and ends the threads. REQUIRES that the parts still exist.
  void Stop();
  // See Membership::RecordDeparture(). REQUIRES Stop().
  void RecordDeparture() { membership_.RecordDeparture(); }

  // The work of the threads, for a simulation, which has none: first Attach() and Begin(), then Step() repeatedly, at
  // least once in kTick; OnRecord() when the record has changed; in a cluster RefreshMap() now and then.
  static constexpr absl::Duration kTick = absl::Milliseconds(2);
  void Attach(Parts parts);
  void Begin();
  bool Step();         // returns whether there may be more to do at once
  bool StepLeaving();  // begins to leave; returns whether it has left
  void OnRecord(cluster::Entry entry);
  void RefreshMap();

  // See OperatorDesk.
  std::string Ask(absl::string_view question) { return desk_.Ask(question); }
  // An operator has this server begin the group from the copy that it keeps, if the last epoch of the lost members is
  // `epoch`.
  void BeginFromCopy(uint64_t epoch) { desk_.SetFromCopy(epoch); }
  GroupFigures figures() const { return desk_.figures(); }
  // See JoinRules. Any thread, once clients are admitted.
  absl::Status MayJoin(const kv::Follow& follow) { return rules_.Examine(follow, membership_.Now()); }
  // Returns the cluster's map, as Shared::map, while this server serves.
  std::optional<std::string> Map() const;

 private:
  Group(Options options, std::unique_ptr<cluster::Directory> directory);

  void OnPublish() override;
  void OnFollow(uint64_t former) override;
  bool OnShareTail() override;
  absl::Status OnPublishTail() override;
  void OnLead() override;

  absl::Status CheckCluster();
  cluster::TableLayout OwnLayout() const;
  void Watch();
  void Run();
  bool Turn();
  bool Awaits() const;
  void AskAgain();
  bool Spins();
  bool BeginServing();
  bool Serve();
  bool MoveSlots();

  Membership membership_;
  cluster::Entry entry_;  // as first read
  cluster::Configuration first_;
  JoinRules rules_{membership_.options().users_digest};
  rdma::WakeFd wake_;
  WorkerTasks tasks_{&wake_};
  OperatorDesk desk_{&membership_, &wake_};
  Standby standby_{&membership_};
  CopyPace pace_{&membership_};
  BackupKeeper keeper_{&membership_, &pace_, &tasks_};
  SlotGiver giver_{&membership_, &pace_};
  SlotTaker taker_{&membership_, &desk_};
  SlotSettler settler_{&membership_, &giver_, &taker_};
  GroupStatus status_{&membership_, &standby_, &keeper_, &rules_, &giver_, &taker_, &desk_};

  absl::Time idle_since_ = absl::InfiniteFuture();
  absl::Time ask_again_at_ = absl::InfinitePast();
  bool restores_ = false;     // it serves as soon as its workers have the former primary's replies
  bool has_threads_ = false;  // since Start()

  Pause left_;  // of Leave()
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_leaving_ ABSL_GUARDED_BY(mutex_) = false;
  cluster::Directory* watching_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the directory's thread's
  std::thread watcher_, runner_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_GROUP_H_
