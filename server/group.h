// A server's part in its group: which role it has, and what follows from it.
//
//     directory --watcher's thread--> changes --> Member --> actions     on the group's thread, which also
//         as joiner and backup follows the primary, and promotes itself when that has ended for certain;
//         as primary fills joiners and adds them, and removes backups that are gone or stand still; of a cluster's
//         group it gives slots to others, and takes theirs.
//
// A backup takes the primary's place when nothing was heard of it for some time (Options::suspicion), stopped or cut
// off as it may be: then it waits for the leases of those who READ the former one's memory (docs/cluster.md). Where the
// directory is a folder of this host, and the kernel says that the former one's process has ended (process_lock.h), it
// waits for nothing.
//
// Thread safety: any thread.
// Invariants:
//   * clients are let in only while Member serves; before that all that was accepted is published, and what the former
//     primary told its clients is known to the workers;
//   * a process that was a member, and is none any more, ends: `deposed` is called, once.
#ifndef FARLOOK_SERVER_GROUP_H_
#define FARLOOK_SERVER_GROUP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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
#include "kv/cluster_map.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"
#include "server/adopter.h"
#include "server/backup.h"
#include "server/backup_watch.h"
#include "server/cluster_watch.h"
#include "server/commit_gate.h"
#include "server/eraser.h"
#include "server/follower.h"
#include "server/group_stream.h"
#include "server/log.h"
#include "server/partition_locks.h"
#include "server/refill.h"
#include "server/server_time.h"
#include "server/serving.h"
#include "server/stat_text.h"
#include "server/worker.h"

namespace farlook::server {

class Group {
 public:
  struct Options {
    std::string name;
    // Of the record: each thread has a directory of its own.
    ClusterWatch::OpenDirectory open_directory;
    // Whether that member's process has ended, for certain. Empty: nobody can know.
    std::function<absl::StatusOr<bool>(uint64_t member)> has_ended;
    uint64_t incarnation = 0;
    cluster::TableLayout layout = {};  // of its tables, where this server begins it
    // Whether this server can have a table of that layout, which the group or its cluster has.
    std::function<absl::Status(cluster::TableLayout)> accepts = [](cluster::TableLayout) { return absl::OkStatus(); };
    uint64_t begin_anew = 0;  // if this was the epoch of those who are gone; 0: never
    // As whom this server follows others, where these have --users. The secret is asked for with each connection.
    std::string user = {};
    std::function<std::string()> secret = {};
    absl::Duration suspicion = absl::Milliseconds(300);
    absl::Duration lease = absl::Milliseconds(150);  // of the group, where this server begins it
    uint32_t replicas = 2, min_insync = 1;           // likewise
    // Of a group that this server begins: of which cluster it is to be, with which slots, and the hash seed, if it is
    // the first there. Of one that is there: the cluster that it must be of. Empty: none; or whichever it is of.
    std::string cluster = {};
    kv::SlotSet slots = {};
    uint64_t hash_seed = 0;
  };
  // Reads the record. FAILED_PRECONDITION: it is of another cluster. Or what Options::accepts says.
  static absl::StatusOr<std::unique_ptr<Group>> Open(Options options);
  ~Group();  // Stop()

  // Where there is no group yet: has it be one of Options::cluster, for ever, so not before all else is had that may be
  // refused. Errors as of cluster::EnterCluster.
  absl::Status EnterCluster();

  // Of the group's tables, and the cluster's; 0, or empty: there is neither yet, and whoever begins it chooses.
  uint64_t hash_seed() const { return first_.hash_seed; }
  cluster::TableLayout layout() const { return first_.layout; }

  // The parts that it works with. All outlive it.
  struct Parts {
    kv::Table* table = nullptr;
    PartitionLocks* locks = nullptr;
    const rdma::Clock* clock = nullptr;
    ServerTime time;
    int64_t spin_ns = 0;  // without work before a backup's thread sleeps
    CommitGate* gate = nullptr;
    uint64_t hash_seed = 0;
    std::string address;  // of this server, as clients come to it
    std::vector<Worker*> workers;
    // Through which it follows others.
    std::function<absl::StatusOr<std::unique_ptr<rdma::Endpoint>>(absl::string_view address)> create_endpoint;
    std::function<void()> deposed;  // is to end this process' part, and begin anew; called on the group's thread
  };
  GroupStream* stream() { return &stream_; }
  Serving* serving() { return &serving_; }
  // Starts its threads.
  void Start(Parts parts);
  // Serves no more, and ends the threads. REQUIRES that the parts are still there.
  void Stop();
  // Has the record say that this primary ended in order: then a backup takes its place at once, where it would wait
  // until it suspects that the primary is gone, and for the end of its lease. Two requests to the directory, best
  // effort; nothing where its lock tells as much. REQUIRES Stop(), and that nobody can READ this server's memory any
  // more, over any connection.
  void SayLeft();

  // What the threads do, for one who has none of them, a simulation: first Attach() and Begin(), then Step() again and
  // again, at least once in kTick; Hear() when the record has changed; of a cluster LookAtOthers(), now and then.
  static constexpr absl::Duration kTick = absl::Milliseconds(2);
  void Attach(Parts parts);
  void Begin();
  bool Step();  // whether there may be more to do at once
  void Hear(cluster::Entry entry);
  void LookAtOthers();

  // What an operator asks: "status", "handover EPOCH", "resize REPLICAS [MIN_INSYNC]"; of a cluster's group "take GROUP
  // SLOTS", "cancel", "leave". The answer's lines; empty: there is no such thing.
  std::string Ask(absl::string_view what);
  GroupFigures figures() const {
    absl::MutexLock lock(&mutex_);
    return figures_;
  }
  // Of the cluster, while this server serves: as of Shared::map.
  std::optional<std::string> Map() const;

 private:
  static constexpr size_t kMostKept = 64 << 20;  // bytes of records, for backups that lag
  static constexpr size_t kBucketsOfAStep = 64;
  // So few that who sends the copies does not wait for this thread's processor until all are sent that there were.
  static constexpr size_t kBucketsOfACopyStep = 8;
  // Of records that are not accepted yet, copies wait for them: so a copy is sent from where it lies in a cache. Where
  // others' records are that many all the time, there is a step in each tick.
  static constexpr size_t kCopiesAhead = 1 << 20;
  static constexpr absl::Duration kDialAgain = absl::Milliseconds(10);
  // A turn that took longer was this server's own fault, and is no silence of the primary's.
  static constexpr absl::Duration kMostOfATurn = absl::Milliseconds(50);
  // A primary that refuses this one for so long has no place for it.
  static constexpr absl::Duration kMostRefused = absl::Seconds(3);
  // Between looks whether anybody is left; and after this without a word nobody is, as far as can be told.
  static constexpr absl::Duration kLookForLoss = absl::Milliseconds(100);
  static constexpr absl::Duration kNobodyAnswers = absl::Seconds(5);
  // For so long a backup may take to come to where the primary is that is to give its place to it.
  static constexpr absl::Duration kLongestHandover = absl::Seconds(5);
  // Between attempts to change the record, where it cannot be written.
  static constexpr absl::Duration kProposeAgain = absl::Milliseconds(100);

  // One that is being filled.
  struct Filling {
    uint64_t joiner = 0;
    std::string address;
    uint64_t from = 0;  // it hears all records after this one
    std::unique_ptr<Refill> refill;
    uint64_t caught_up = 0;  // it may be added when it has accepted this record; 0: not known yet
  };
  // Another group's primary that takes slots (group_give.cc).
  struct Giving {
    uint64_t taker = 0;  // its incarnation
    cluster::Move move;  // as the taker's record has it
    uint64_t from = 0;   // it hears all records after this one
    std::unique_ptr<Refill> refill;
    absl::Time copied_at = absl::InfiniteFuture();  // all that was there at the beginning
    absl::Time close_at = absl::InfinitePast();     // not before
    absl::Time closed_at = absl::InfiniteFuture();  // since then requests of the slots are refused
    uint64_t last = 0;  // it may have the slots when it has accepted this record; 0: not known
  };
  // Slots that this group takes (group_take.cc).
  struct Taking {
    cluster::Move move;
    cluster::Configuration giver = {};  // as it was read last; epoch 0: not yet
    absl::Time look_at = absl::InfinitePast(), dial_at = absl::InfinitePast();
    absl::Time given_at = absl::InfiniteFuture();  // it was seen that they are given
    std::unique_ptr<rdma::Endpoint> endpoint;
    std::unique_ptr<Adopter> adopter;  // before `follower`, which refers to it
    std::unique_ptr<Follower> follower;
    uint64_t followed = 0;           // whom
    std::unique_ptr<Eraser> eraser;  // of what a former attempt left
    bool is_clean = false;
    uint64_t estimate = 0;  // of the items that it will have copied
    std::string waits;      // what for; empty: it goes on
    std::string give_up;    // why; empty: it does not
  };
  struct Size {
    uint32_t replicas = 0, min_insync = 0;
  };
  // What operators asked for, and is not begun.
  struct Asked {
    std::optional<cluster::Move> take;
    std::optional<Size> size;
    bool cancel = false, leave = false;
  };

  Group(Options options, std::unique_ptr<cluster::Directory> directory);

  void Watch();
  void Run();
  bool Turn();
  bool Spins();
  void Learn(const cluster::Entry& entry);
  void CarryOut(cluster::Actions* actions);
  void CarryOutOne(const cluster::Action& action, cluster::Actions* more);
  void Publish();
  void SetMembers();
  void Describe();

  // Of a cluster's group (group_cluster.cc, group_give.cc, group_take.cc).
  absl::Status CheckCluster();
  cluster::TableLayout OwnLayout() const { return first_.layout.empty() ? options_.layout : first_.layout; }
  void TellCluster(const cluster::Configuration& configuration);
  void WatchCluster();
  void DescribeCluster();
  void DescribeMoves(std::string* text) const;
  std::string AskForSize(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskCluster(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AskToTake(absl::string_view what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ServeSlots();
  absl::StatusOr<cluster::Configuration> ReadGroup(const std::string& name);
  bool Reassign(const kv::SlotSet& slots, std::vector<cluster::Move> moves);
  bool Settle();
  bool SettleGiven(const cluster::Move& move);
  bool SettleTaken(const cluster::Move& move);
  kv::SlotSet Foreign() const;
  bool EraseForeign();
  void Leave();
  bool GiveSlots();
  bool BeginGiving(uint64_t taker, const GroupStream::Follower& state);
  bool Give();
  void CloseSlots();
  void ReopenSlots();
  void StopGiving();
  bool TakeSlots();
  bool BeginAsked();
  void LookAtGiver();
  void DialGiver();
  bool Clean();
  bool Adopt();
  bool Own();
  void EndTaking();
  void StartOver(absl::string_view why);
  bool GiveUp();

  // Of a joiner or backup.
  bool Follow();
  bool HasEnded(uint64_t member);
  // Whether nobody can READ the memory of a member with this address any more when HasEnded(): the kernel may let the
  // lock go before it destroys queue pairs, and then an adapter still answers.
  bool LockTells(absl::string_view address) const;
  // Of a joiner (group_lost.cc).
  bool LookForLoss();
  void TellLoss(bool is_certain);
  void Dial(const cluster::Replica& primary);
  bool IsSilent();
  void Unfollow();
  void Promote(bool ended);
  void ShareTail();
  bool AllAgree() const;
  bool AwaitTail();
  void Lead();
  bool Restore();
  // Of a primary.
  bool Serve();
  bool HandOver();
  bool Resize();
  bool RemoveSurplus();
  void FillOne();
  bool Fill();
  Refill::Progress CopySome(Refill* refill);
  void WatchBackups();
  absl::string_view See(uint64_t incarnation, const GroupStream::Follower& state);
  void Remove(const cluster::Replica& backup, absl::string_view why);
  bool TakeOut(uint64_t backup, const std::function<void()>& log);
  void Depose(absl::string_view why);
  void TaskDone();
  absl::Time Now() const;
  std::string Secret() const { return options_.secret ? options_.secret() : ""; }

  const Options options_;
  const std::unique_ptr<cluster::Directory> directory_;  // of the group's thread
  cluster::Entry entry_;                                 // as it was read first
  cluster::Configuration first_;
  Parts parts_;
  GroupStream stream_{kMostKept};
  Serving serving_;
  ClusterWatch cluster_watch_{options_.name};
  rdma::WakeFd wake_;

  // Of the group's thread.
  cluster::Member member_;
  std::unique_ptr<Backup> backup_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<Follower> follower_;
  absl::Time idle_since_ = absl::InfiniteFuture(), described_at_ = absl::InfinitePast();
  uint64_t described_epoch_ = 0;
  uint64_t leaving_ = 0;        // the backup that the record is being changed to be without
  uint64_t failed_backup_ = 0;  // one that is to be removed, until it is, and is counted
  absl::Time dial_at_ = absl::InfinitePast();
  absl::Time refused_since_ = absl::InfiniteFuture();
  bool lock_error_is_told_ = false;
  absl::Duration silent_ = absl::ZeroDuration();  // the primary was, for so long
  absl::Time listened_at_ = absl::InfinitePast();
  absl::Time ping_at_ = absl::InfinitePast();
  absl::Time propose_at_ = absl::InfinitePast();
  absl::Time heard_at_ = absl::InfinitePast(), look_for_loss_at_ = absl::InfinitePast();  // of a joiner
  uint64_t loss_is_told_ = 0;                                                             // of this epoch
  uint64_t filled_by_ = 0;  // the primary that backup_ heard first, or last
  std::unique_ptr<Filling> filling_;
  absl::Time copy_at_ = absl::InfinitePast();  // also where much is not accepted yet
  std::map<uint64_t, BackupWatch> watched_;
  std::unique_ptr<Giving> giving_;
  std::unique_ptr<Taking> taking_;
  std::unique_ptr<Eraser> eraser_;
  kv::SlotSet foreign_;  // what it has no use for, in this epoch:
  uint64_t foreign_epoch_ = 0;
  bool erases_ = false;                          // there may be items of these
  absl::Time settle_at_ = absl::InfinitePast();  // the next look at the other groups of moves
  absl::Time begin_giving_at_ = absl::InfinitePast();
  uint64_t handover_record_ = 0;  // whoever has accepted it may be the next primary; 0: nobody wants another one
  absl::Time give_up_handover_at_ = absl::InfinitePast();
  RateLimit record_log_;
  bool restores_ = false;  // it leads as soon as its workers know what the primary before told clients
  bool deposed_ = false;
  bool has_threads_ = false;  // since Start()

  mutable absl::Mutex mutex_;
  GroupFigures figures_ ABSL_GUARDED_BY(mutex_);
  std::deque<cluster::Entry> changes_ ABSL_GUARDED_BY(mutex_);
  int tasks_ ABSL_GUARDED_BY(mutex_) = 0;  // of workers, that are not done
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool handover_ ABSL_GUARDED_BY(mutex_) = false;  // is wanted, and may still be carried out
  std::string status_ ABSL_GUARDED_BY(mutex_);
  cluster::Configuration known_ ABSL_GUARDED_BY(mutex_);  // as it was described last; epoch 0: it does not serve
  Asked asked_ ABSL_GUARDED_BY(mutex_);
  std::string failed_ ABSL_GUARDED_BY(mutex_);                 // why the last move into this group was given up
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;             // it was, by an operator, or is about to be
  uint64_t led_since_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};  // the first epoch of which it was the primary
  bool can_hand_over_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread watcher_, runner_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_H_
