// The cluster's map at one server: what it knows of the other groups, for clients that ask.
//
//     directory --the watch's thread, each second--> the cluster's record, and the other groups' --+
//     this server's own group, whenever its configuration changes ---------------------------------+--> map
//
// The map is a hint. Its entry of another group may be out of date; a client that connects there gets the truth
// (Welcome, kMoved). So the reads of the directory may be stale, and the map stays as it is while the directory does
// not answer.
//
// Thread safety: any thread.
// Invariants:
//   * For its own group the map contains the configuration that was set last.
//   * For another group, the map's epoch never falls.
//   * No slot belongs to two groups. If two records claim one, this server's own group has it; otherwise the group with
//     the higher epoch, or, if these are equal, the one that entered the cluster earlier. A lasting conflict is logged.
#ifndef FARLOOK_SERVER_GROUP_CLUSTER_WATCH_H_
#define FARLOOK_SERVER_GROUP_CLUSTER_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "cluster/cluster_record.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "kv/wire/cluster_map.h"

namespace farlook::server {

class ClusterWatch {
 public:
  // Creates a directory for one thread.
  using OpenDirectory = std::function<absl::StatusOr<std::unique_ptr<cluster::Directory>>()>;

  // `group`: name of this server's own group.
  explicit ClusterWatch(std::string group) : group_(std::move(group)) {}
  ~ClusterWatch();  // Stop(), then waits for the thread; its calls of the directory have timeouts
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  // Sets the cluster's record, as another reader found it, until the thread has read it.
  void Begin(cluster::ClusterRecord record);
  // Sets the present configuration of this server's own group.
  void SetOwn(const cluster::Configuration& own);
  // Starts the thread. REQUIRES SetOwn() of a group that is in a cluster. May be called once.
  void Start(OpenDirectory open, absl::Duration interval = absl::Seconds(1));
  // Reads the records once, as the thread does repeatedly. After an error, the records that could be read are still
  // used. REQUIRES SetOwn() of a group that is in a cluster.
  absl::Status Look(cluster::Directory* directory);
  // Makes the thread stop reading; the map stays.
  void Stop();

  // Returns kv::ClusterMap::Encode(); empty: the cluster's record, or this server's own group, is not known yet.
  std::string Map() const;
  size_t groups() const;  // in the map

 private:
  static constexpr int kRoundsOfAConflict = 5;

  void Run();
  absl::Status ReadGroup(cluster::Directory* directory, const std::string& name);
  void LogOnce(const std::string& name, const absl::Status& why);
  void Compose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(kv::ClusterMap* map) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Share(kv::ClusterMap* map) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LogConflict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string group_;

  // Used by the thread only.
  std::string cluster_;  // name of the cluster
  OpenDirectory open_;
  absl::Duration interval_;
  uint64_t revision_ = 0;                      // revision of the cluster's record
  std::map<std::string, std::string> logged_;  // by group: the last error logged for its record
  bool failure_is_logged_ = false;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  cluster::ClusterRecord record_ ABSL_GUARDED_BY(mutex_);                         // id 0: not known yet
  cluster::Configuration own_ ABSL_GUARDED_BY(mutex_);                            // epoch 0: not known yet
  std::map<std::string, cluster::Configuration> others_ ABSL_GUARDED_BY(mutex_);  // the known ones, by name
  // A group, and those of its slots that the map leaves to another group.
  std::pair<std::string, kv::SlotSet> conflict_ ABSL_GUARDED_BY(mutex_);
  int conflict_rounds_ ABSL_GUARDED_BY(mutex_) = 0;  // consecutive rounds of reading with a conflict
  std::string map_ ABSL_GUARDED_BY(mutex_);
  size_t groups_ ABSL_GUARDED_BY(mutex_) = 0;
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;  // each slot belongs to a group that has begun

  Pause pause_;  // between rounds of reading; End() makes the thread read at once, or stop
  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_CLUSTER_WATCH_H_
