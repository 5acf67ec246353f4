#include "server/group/cluster_watch.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

using cluster::ClusterRecord;
using cluster::Configuration;
using cluster::Entry;
using cluster::Freshness;
using cluster::Replica;

kv::ClusterMap::Group GroupOf(const std::string& name, const Configuration& configuration) {
  kv::ClusterMap::Group group{.name = name, .epoch = configuration.epoch, .slots = configuration.slots};
  group.members.push_back(configuration.primary().address);
  for (const Replica& member : configuration.members) {
    if (member.kind != Replica::Kind::kPrimary) group.members.push_back(member.address);
  }
  return group;
}

}  // namespace

ClusterWatch::~ClusterWatch() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void ClusterWatch::Begin(ClusterRecord record) {
  absl::MutexLock lock(&mutex_);
  record_ = std::move(record);
  Compose();
}

void ClusterWatch::SetOwn(const Configuration& own) {
  absl::MutexLock lock(&mutex_);
  if (own == own_) return;
  own_ = own;
  Compose();
  pause_.End();  // most likely other groups have changed too
}

void ClusterWatch::Start(OpenDirectory open, absl::Duration interval) {
  open_ = std::move(open);
  interval_ = interval;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "cluster");
    Run();
  });
}

void ClusterWatch::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  pause_.End();
}

std::string ClusterWatch::Map() const {
  absl::MutexLock lock(&mutex_);
  return map_;
}

size_t ClusterWatch::groups() const {
  absl::MutexLock lock(&mutex_);
  return groups_;
}

// ---- The thread.

void ClusterWatch::Run() {
  std::unique_ptr<cluster::Directory> directory;
  for (;;) {
    absl::Status status;
    if (directory == nullptr) {
      auto opened = open_();
      status = opened.status();
      if (opened.ok()) directory = *std::move(opened);
    }
    if (status.ok()) status = Look(directory.get());
    if (status.ok()) failure_is_logged_ = false;
    if (!status.ok() && !std::exchange(failure_is_logged_, true)) {
      Log(LogLevel::kWarning, "cannot read the cluster's records; the map is unchanged",
          {{"group", group_}, {"reason", status.message()}});
    }
    absl::Duration pause;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      if (status.ok()) LogConflict();
      // While a cluster begins, clients wait for its last group. While slots move, they wait for the slots' next group.
      pause = complete_ && own_.moves.empty() ? interval_ : interval_ / 20;
    }
    pause_.Sleep(pause);
  }
}

absl::Status ClusterWatch::Look(cluster::Directory* directory) {
  {
    absl::MutexLock lock(&mutex_);
    cluster_ = own_.cluster;
  }
  const absl::StatusOr<Entry> entry = directory->Get(cluster_, Freshness::kMaybeOld);
  if (!entry.ok()) return entry.status();
  if (entry->revision > revision_) {
    absl::StatusOr<ClusterRecord> record = cluster::DecodeClusterRecord(entry->value);
    if (!record.ok()) return record.status();
    revision_ = entry->revision;
    Begin(*std::move(record));
  }
  if (revision_ == 0) return absl::NotFoundError("the directory has no record of the cluster");
  std::vector<std::string> names;
  {
    absl::MutexLock lock(&mutex_);
    for (const ClusterRecord::Group& group : record_.groups) {
      if (!group.has_left) names.push_back(group.name);
    }
  }
  for (const std::string& name : names) {
    if (name == group_) continue;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return absl::OkStatus();
    }
    if (absl::Status status = ReadGroup(directory, name); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ClusterWatch::ReadGroup(cluster::Directory* directory, const std::string& name) {
  const absl::StatusOr<Entry> entry = directory->Get(name, Freshness::kMaybeOld);
  if (!entry.ok()) return entry.status();
  if (entry->revision == 0) return absl::OkStatus();  // the group has not begun
  absl::StatusOr<Configuration> configuration = cluster::DecodeConfiguration(entry->value);
  absl::Status why = configuration.status();
  if (why.ok() && configuration->cluster != cluster_) {
    why = absl::FailedPreconditionError("its own record names another cluster or none");
  }
  if (!why.ok()) {
    LogOnce(name, why);
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mutex_);
  Configuration& known = others_[name];
  if (configuration->epoch <= known.epoch) return absl::OkStatus();  // an old state
  known = *std::move(configuration);
  Compose();
  return absl::OkStatus();
}

void ClusterWatch::LogOnce(const std::string& name, const absl::Status& why) {
  std::string& logged = logged_[name];
  if (logged == why.message()) return;
  logged = std::string(why.message());
  Log(LogLevel::kError, "a group's record is ignored", {{"group", name}, {"reason", why.message()}});
}

// ---- The map.

void ClusterWatch::Compose() {
  if (record_.id == 0 || own_.epoch == 0) return;
  kv::ClusterMap map{.name = own_.cluster, .id = record_.id, .hash_seed = record_.hash_seed};
  for (const ClusterRecord::Group& group : record_.groups) {
    if (group.has_left) continue;
    if (group.name == group_) {
      map.groups.push_back(GroupOf(group_, own_));
    } else if (const auto other = others_.find(group.name); other != others_.end()) {
      map.groups.push_back(GroupOf(group.name, other->second));
    } else {
      map.groups.push_back({.name = group.name, .slots = group.first_slots});
    }
  }
  Give(&map);
  // The record may be older than this group's entry.
  if (record_.Find(group_) == nullptr) map.groups.push_back(GroupOf(group_, own_));
  Share(&map);
  map_ = map.Encode();
  groups_ = map.groups.size();
  complete_ = map.Served().all();
}

// Adds given slots to their taker: no other group will have them, although the taker's record may not contain them yet.
void ClusterWatch::Give(kv::ClusterMap* map) const {
  const auto give = [map](const Configuration& giver) {
    for (const cluster::Move& move : giver.moves) {
      if (move.kind != cluster::Move::Kind::kGiven) continue;
      for (kv::ClusterMap::Group& group : map->groups) {
        if (group.name == move.group) group.slots |= move.slots;
      }
    }
  };
  give(own_);
  for (const auto& [name, other] : others_) give(other);
}

// Leaves each slot to one group.
void ClusterWatch::Share(kv::ClusterMap* map) {
  std::vector<kv::ClusterMap::Group*> order;
  for (kv::ClusterMap::Group& group : map->groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [this](const auto* a, const auto* b) {
    if ((a->name == group_) != (b->name == group_)) return a->name == group_;
    return a->epoch > b->epoch;
  });
  kv::SlotSet taken;
  conflict_ = {};
  for (kv::ClusterMap::Group* const group : order) {
    const kv::SlotSet common = group->slots & taken;
    group->slots &= ~taken;
    taken |= group->slots;
    if (common.any()) conflict_ = {group->name, common};
  }
}

// Logs a lasting conflict. While slots move, two records that are read one after the other may both contain them for a
// short time.
void ClusterWatch::LogConflict() {
  conflict_rounds_ = conflict_.second.any() ? conflict_rounds_ + 1 : 0;
  if (conflict_rounds_ != kRoundsOfAConflict) return;
  Log(LogLevel::kError, "two groups of the cluster claim the same slots; the map leaves them to the other one",
      {{"group", conflict_.first}, {"slots", kv::FormatSlots(conflict_.second)}});
}

}  // namespace farlook::server
