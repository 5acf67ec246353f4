#include "server/group/group.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

using cluster::Configuration;
using cluster::Member;
using cluster::Replica;

// The time for which one change of the record is awaited, and the pause after a directory did not answer. A server
// without a primary does not trust one endpoint for so long.
constexpr absl::Duration kWatch = absl::Seconds(2);
constexpr absl::Duration kWatchAgain = absl::Milliseconds(100);
constexpr absl::Duration kWatchWithoutPrimary = absl::Milliseconds(200);

// The longest pause between two turns of a group in which nothing happens.
constexpr absl::Duration kMostIdle = absl::Milliseconds(25);

// Versions that are skipped at least when the group begins from a copy: those of weeks of writes. All partitions
// together use one for each write.
constexpr uint64_t kLeastSkip = uint64_t{1} << 42;

// After this copy was removed, others may have given versions to other writes.
void SkipVersions(const GroupParts& parts) {
  const auto partitions = static_cast<uint64_t>(parts.table->partitions());
  const uint64_t wanted = kLeastSkip + cluster::RandomId() % kLeastSkip;
  for (int i = 0; i < parts.table->partitions(); ++i) {
    const kv::LockedPartition lock(parts.locks->at(i));
    const uint64_t newest = parts.table->NewestVersion(i);
    const uint64_t skip = std::min(wanted, (kv::kEndOfVersions - newest) / 2);
    parts.table->RaiseVersions(newest + skip / partitions * partitions);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> Group::Open(Options options) {
  auto directory = options.open_directory();
  if (!directory.ok()) return directory.status();
  std::unique_ptr<Group> group(new Group(std::move(options), *std::move(directory)));
  const Options& own = group->membership_.options();
  absl::StatusOr<cluster::Entry> entry = group->membership_.directory()->Get(own.name, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  group->entry_ = *std::move(entry);
  if (group->entry_.revision == 0) return group;
  absl::StatusOr<Configuration> first = cluster::DecodeConfiguration(group->entry_.value);
  if (!first.ok()) return first.status();
  if (absl::Status status = own.accepts(first->layout); !status.ok()) return status;
  group->first_ = *std::move(first);
  if (absl::Status status = group->CheckCluster(); !status.ok()) return status;
  return group;
}

Group::Group(Options options, std::unique_ptr<cluster::Directory> directory)
    : membership_(std::move(options), std::move(directory)) {}

Group::~Group() {
  Stop();
  if (watcher_.joinable()) watcher_.join();
}

cluster::TableLayout Group::OwnLayout() const {
  return first_.layout.empty() ? membership_.options().layout : first_.layout;
}

void Group::Attach(Parts parts) {
  membership_.Attach(std::move(parts), OwnLayout(), this);
  stream()->OnNews([this] { wake_.Wake(); });
}

void Group::Start(Parts parts) {
  Attach(std::move(parts));
  has_threads_ = true;
  runner_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "group");
    Run();
  });
  watcher_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "directory");
    Watch();
  });
}

void Group::Leave(absl::Duration most) {
  if (!has_threads_) return;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    is_leaving_ = true;
  }
  wake_.Wake();
  left_.Sleep(most);
}

bool Group::StepLeaving() {
  membership_.Leave();
  standby_.Leave();
  return standby_.HasLeft();
}

void Group::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (watching_ != nullptr) watching_->Interrupt();
  }
  wake_.Wake();
  if (runner_.joinable()) runner_.join();
  membership_.cluster_watch()->Stop();
  standby_.Stop();
  taker_.Stop();
}

// ---- The directory's thread.

// Uses a directory of its own, since an object of it is for one thread.
void Group::Watch() {
  const Options& options = membership_.options();
  uint64_t seen = entry_.revision;
  bool loss_is_logged = false;
  std::unique_ptr<cluster::Directory> directory;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      watching_ = stopping_ ? nullptr : directory.get();
      if (stopping_) return;
    }
    if (directory == nullptr) {
      auto opened = options.open_directory();
      if (opened.ok()) directory = *std::move(opened);
    }
    absl::StatusOr<cluster::Entry> entry = absl::UnavailableError("not open");
    if (directory != nullptr) entry = directory->Wait(options.name, seen, kWatch);
    if (absl::IsCancelled(entry.status())) continue;
    desk_.SetDirectory(absl::IsDeadlineExceeded(entry.status()) ? absl::OkStatus() : entry.status());
    if (absl::IsDataLoss(entry.status()) && !std::exchange(loss_is_logged, true)) {
      Log(LogLevel::kError, "the group's record is lost", {{"reason", entry.status().message()}});
    }
    if (entry.ok()) {
      seen = entry->revision;
      OnRecord(*std::move(entry));
    } else if (!absl::IsDeadlineExceeded(entry.status())) {
      absl::SleepFor(kWatchAgain);
    }
  }
}

void Group::OnRecord(cluster::Entry entry) {
  membership_.Enqueue(std::move(entry));
  wake_.Wake();
}

// ---- The group's thread.

void Group::Begin() {
  if (entry_.revision != 0) return membership_.Learn(entry_);
  const Options& options = membership_.options();
  const Parts& parts = membership_.parts();
  Configuration first = first_;  // with its cluster and slots, if it is in a cluster
  first.group = cluster::RandomId();
  first.hash_seed = parts.hash_seed;
  first.layout = OwnLayout();
  first.limits = options.limits;
  // On this host words are loaded with each get, and need no lease.
  const bool is_local = absl::StartsWith(parts.address, "shm:");
  first.lease_us = is_local ? cluster::kMinLeaseUs : static_cast<uint32_t>(absl::ToInt64Microseconds(options.lease));
  first.replicas = options.replicas;
  first.min_insync = options.min_insync;
  first.members.push_back({options.incarnation, Replica::Kind::kPrimary, parts.address});
  membership_.Create(std::move(first));
}

void Group::Run() {
  Begin();
  const absl::Duration idle = std::clamp(membership_.options().suspicion / 12, kTick, kMostIdle);
  for (bool is_leaving = false;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
      if (is_leaving_ && StepLeaving()) left_.End();
      is_leaving = is_leaving_;
    }
    if (Step()) {
      // Yield, like WorkerThread: the worker that sends these copies, or the primary that a joiner waits for, may need
      // this processor.
      const bool waits = idle_since_ != absl::InfiniteFuture() && membership_.member().role() == Member::Role::kJoining;
      if (keeper_.is_filling() || waits) sched_yield();
      continue;
    }
    pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (rdma::Endpoint* const endpoint = standby_.endpoint(); endpoint != nullptr) {
      if (!endpoint->Arm()) continue;
      fds[1].fd = endpoint->fd();
    }
    idle_since_ = absl::InfiniteFuture();
    AskAgain();
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(is_leaving || Awaits() ? kTick : idle)));
    wake_.Clear();
  }
}

bool Group::Step() {
  const bool did = !membership_.is_deposed() && Turn();
  if (did) idle_since_ = absl::InfiniteFuture();
  const bool goes_on = did || Spins();
  if (!goes_on || membership_.Now() >= status_.updated_at() + kTick) status_.Update();
  return goes_on;
}

// Returns whether something is due that wakes no thread.
bool Group::Awaits() const {
  const Member& member = membership_.member();
  if (membership_.is_deposed()) return false;
  if (member.is_proposing() || member.role() == Member::Role::kPromoting || restores_) return true;
  if (!member.Serves()) return !standby_.IsSettled();
  return keeper_.Awaits() || desk_.has_requests() || !membership_.configuration().moves.empty();
}

// Has the directory's thread read the record, perhaps at another endpoint, while this server has no primary.
void Group::AskAgain() {
  const Member& member = membership_.member();
  if (member.Serves() || membership_.is_deposed() || standby_.IsSettled()) return;
  if (membership_.Now() < ask_again_at_) return;
  ask_again_at_ = membership_.Now() + kWatchWithoutPrimary;
  absl::MutexLock lock(&mutex_);
  if (watching_ != nullptr) watching_->Interrupt();
}

// Returns whether an idle backup looks again before it sleeps: clients of the primary wait for its acceptances.
bool Group::Spins() {
  const int64_t spin_ns = membership_.parts().spin_ns;
  const rdma::Endpoint* const endpoint = standby_.endpoint();
  if (spin_ns == 0 || endpoint == nullptr || endpoint->peer_activity() == rdma::PeerActivity::kHere) return false;
  const absl::Time now = membership_.Now();
  idle_since_ = std::min(idle_since_, now);
  return now - idle_since_ < absl::Nanoseconds(spin_ns);
}

// Returns whether there may be more to do at once.
bool Group::Turn() {
  membership_.LearnQueued();
  if (membership_.is_deposed()) return false;
  membership_.Tick();
  if (membership_.is_deposed()) return false;
  if (membership_.member().Serves()) return restores_ ? BeginServing() : Serve();
  if (membership_.member().role() == Member::Role::kRemoved) return standby_.HoldCopy(desk_.from_copy());
  return membership_.member().role() == Member::Role::kPromoting ? keeper_.AwaitTail() : standby_.Step();
}

// ---- A change of the record.

void Group::OnPublish() {
  rules_.Set(membership_.configuration());
  if (status_.epoch() != membership_.member().epoch()) status_.Update();
}

void Group::OnFollow(uint64_t former) { standby_.OnFollow(former); }

bool Group::OnShareTail() {
  keeper_.ShareTail(standby_.backup());
  return keeper_.AllAgree();
}

absl::Status Group::OnPublishTail() {
  if (standby_.backup() == nullptr) return absl::OkStatus();
  absl::Status promoted = standby_.backup()->Promote();
  if (promoted.ok() && standby_.copy_epoch() != 0) SkipVersions(membership_.parts());
  return promoted;
}

// Makes the workers restore the former primary's replies. BeginServing() follows.
void Group::OnLead() {
  desk_.SetLedSince(membership_.member().epoch());
  restores_ = true;
  // Clients may have other answers than a copy from which the group begins, so their sessions are lost.
  if (standby_.backup() == nullptr || standby_.copy_epoch() != 0) return;
  for (Worker* const worker : membership_.parts().workers) {
    tasks_.Start(worker, [this, worker] {
      worker->Restore(standby_.filled_by(), standby_.backup()->outcomes());
      return true;
    });
  }
}

// Returns whether this server serves now. The workers wake the thread when they are done.
bool Group::BeginServing() {
  if (!tasks_.are_done()) return false;
  restores_ = false;
  const Options& options = membership_.options();
  if (has_threads_ && !membership_.configuration().cluster.empty()) {
    membership_.cluster_watch()->Start(options.open_directory);
  }
  serving()->Set(true);
  Log(LogLevel::kInfo, "primary of the group", {{"group", options.name}, {"epoch", membership_.member().epoch()}});
  return true;
}

// Returns whether there may be more to do at once.
bool Group::Serve() {
  keeper_.Watch();
  if (membership_.is_deposed() || desk_.HandOver() || desk_.Resize() || keeper_.RemoveSurplus()) return true;
  const bool moved = MoveSlots();
  if (membership_.is_deposed()) return true;
  return keeper_.FillJoiners() || moved;
}

// Returns whether there may be more to do at once.
bool Group::MoveSlots() {
  if (membership_.configuration().cluster.empty()) return false;
  desk_.Leave();
  bool did = taker_.Step();
  if (!membership_.is_deposed()) did = giver_.Step() || did;
  if (!membership_.is_deposed()) did = settler_.Settle() || did;
  if (!membership_.is_deposed()) did = settler_.EraseForeign() || did;
  return did;
}

}  // namespace farlook::server
