// The backups at a primary: fills and adds joiners, and removes members that leave, are gone, hang, are slow or are
// surplus.
// At a promoter: shares its log with the other members before it serves.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_BACKUP_KEEPER_H_
#define FARLOOK_SERVER_GROUP_BACKUP_KEEPER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "server/group/copy_pace.h"
#include "server/group/membership.h"
#include "server/group/process_probe.h"
#include "server/group/worker_tasks.h"
#include "server/replication/backup.h"
#include "server/replication/backup_watch.h"
#include "server/replication/group_stream.h"
#include "server/replication/snapshot_sender.h"

namespace farlook::server {

class BackupKeeper {
 public:
  BackupKeeper(Membership* membership, CopyPace* pace, WorkerTasks* tasks)
      : membership_(membership), pace_(pace), tasks_(tasks) {}

  // Removes backups that leave, are gone, hang or are slow. Until then writes wait for members, and records are kept
  // for joiners. To be called in each turn.
  void Watch();
  // If the group has a member too many, removes the one that lacks most. Returns whether it was removed.
  bool RemoveSurplus();
  // Begins or continues to fill a joiner. Returns whether it did something; otherwise it waits.
  bool FillJoiners();

  // Shares the log of a promoter. The other members follow it, discard records that it lacks, and accept the records of
  // `backup` that they lack and that may not be committed. `backup` is null if this server had no primary.
  void ShareTail(const Backup* backup);
  // Returns whether each other member follows, and has the promoter's log and nothing beyond it.
  bool AllAgree() const;
  // Returns whether the promoter has begun to serve. Removes members that do not answer.
  bool AwaitTail();

  bool is_filling() const { return filling_ != nullptr; }
  // The joiner that is being filled, 0: none, and how far that is.
  uint64_t filled() const { return filling_ == nullptr ? 0 : filling_->joiner; }
  uint64_t FilledPercent() const;
  // Returns whether it fills a server, copies slots to one, or waits for one that is not connected.
  bool Awaits() const { return is_filling() || !probes_.empty() || has_takers_; }
  // The backup that the pending change of the record removes; 0: none.
  uint64_t leaving() const { return leaving_; }
  // A backup that does not answer and is not removed, as its copy is needed: reads and writes wait for it. 0: none.
  uint64_t kept() const { return kept_; }
  // Returns how many backups were removed because they were in trouble.
  uint64_t CountRemoved();
  // Returns for how long the member that is furthest behind has been behind.
  absl::Duration Behind() const;
  // Returns how long a member or joiner has not been connected.
  absl::Duration GoneFor(uint64_t incarnation) const;

 private:
  // A joiner that is being filled.
  struct Filling {
    uint64_t joiner = 0;
    std::string address;
    uint64_t from = 0;  // it receives all records after this one
    std::unique_ptr<SnapshotSender> sender;
    uint64_t caught_up = 0;  // it may be added when it has accepted this record; 0: not known yet
  };

  // Returns why the server must be given up; empty: it need not be. `address`: empty if it cannot be asked there.
  absl::string_view Look(uint64_t incarnation, const std::string& address, const GroupStream::Follower& state);
  bool HasEnded(uint64_t incarnation, const std::string& address);
  bool LockShowsEnd(uint64_t incarnation) const;
  bool KeepsCopy(const cluster::Replica& backup, absl::string_view why);
  void Remove(const cluster::Replica& backup, absl::string_view why);
  bool TakeOut(uint64_t backup, absl::FunctionRef<void()> log);
  void ForgetTheAbsent(const std::map<uint64_t, GroupStream::Follower>& followers);
  void BeginFilling();
  void SendOutcomes(uint64_t from);
  bool Fill();
  bool Add();

  Membership* const membership_;
  CopyPace* const pace_;
  WorkerTasks* const tasks_;
  std::unique_ptr<Filling> filling_;
  std::map<uint64_t, BackupWatch> watched_;
  std::map<uint64_t, ProcessProbe> probes_;  // of those that are not connected
  bool has_takers_ = false;                  // other groups' servers that take slots
  uint64_t leaving_ = 0;
  uint64_t kept_ = 0;
  uint64_t failed_ = 0;   // a backup in trouble that must be removed; 0 after that
  uint64_t removed_ = 0;  // removed backups that were in trouble
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_BACKUP_KEEPER_H_
