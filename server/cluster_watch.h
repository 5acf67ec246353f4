// What a server that serves in a cluster knows of the others: the cluster's map, for clients that ask.
//
//     directory --the watch's thread, each second--> the cluster's record, and the other groups' --+
//     this server's own group, whenever its configuration changes ---------------------------------+--> map
//
// The map is a hint: that of a group other than its own may be out of date, and whoever goes where it says learns the
// truth there (Welcome, kMoved). So it is read as cheaply as can be, and kept where the directory does not answer.
//
// Thread safety: any thread.
// Invariants:
//   * of its own group the map shows the configuration that was set last;
//   * of another one an epoch that is not less than what it showed before;
//   * no slot is of two groups. Where two records claim one, this server's own group has it; else the one of the higher
//     epoch, or, of two that are the same, the one that entered earlier. The log says so, where that lasts.
#ifndef FARLOOK_SERVER_CLUSTER_WATCH_H_
#define FARLOOK_SERVER_CLUSTER_WATCH_H_

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
#include "cluster/cluster_record.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "kv/cluster_map.h"

namespace farlook::server {

class ClusterWatch {
 public:
  // Makes a directory for one thread.
  using OpenDirectory = std::function<absl::StatusOr<std::unique_ptr<cluster::Directory>>()>;

  // `group` is the name of this server's own.
  explicit ClusterWatch(std::string group) : group_(std::move(group)) {}
  ~ClusterWatch();  // Stop(); waits for the thread, whose call of the directory has an end
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  // The record as it was read by another: the map until the thread has read.
  void Begin(cluster::ClusterRecord record);
  // This server's own group, as it is from now on.
  void SetOwn(const cluster::Configuration& own);
  // Starts the thread. REQUIRES SetOwn() of a group that is in a cluster, and that it was not started before.
  void Start(OpenDirectory open, absl::Duration interval = absl::Seconds(1));
  // What the thread does again and again, in its place. What could be read is known afterwards, also where something
  // could not. REQUIRES SetOwn() of a group that is in a cluster.
  absl::Status Look(cluster::Directory* directory);
  // The thread looks at nothing more; what is known stays.
  void Stop();

  // kv::ClusterMap::Encode(); empty: the cluster's record, or this server's own group, is not known yet.
  std::string Map() const;
  size_t groups() const;  // of the map

 private:
  static constexpr int kRoundsOfAConflict = 5;

  void Run();
  absl::Status ReadGroup(cluster::Directory* directory, const std::string& name);
  void TellOnce(const std::string& name, const absl::Status& why);
  void Compose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(kv::ClusterMap* map) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Share(kv::ClusterMap* map) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellOfConflict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string group_;

  // Of the thread.
  std::string cluster_;  // its name
  OpenDirectory open_;
  absl::Duration interval_;
  uint64_t revision_ = 0;                    // of the cluster's record
  std::map<std::string, std::string> told_;  // what the log says of a record
  bool failure_is_told_ = false;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurries_ ABSL_GUARDED_BY(mutex_) = false;           // its own group has changed, and so have others, most likely
  cluster::ClusterRecord record_ ABSL_GUARDED_BY(mutex_);  // id 0: none is known
  cluster::Configuration own_ ABSL_GUARDED_BY(mutex_);     // epoch 0: likewise
  std::map<std::string, cluster::Configuration> others_ ABSL_GUARDED_BY(mutex_);  // those that are known
  // A group, and its slots that another one has in the map.
  std::pair<std::string, kv::SlotSet> conflict_ ABSL_GUARDED_BY(mutex_);
  int conflict_rounds_ ABSL_GUARDED_BY(mutex_) = 0;  // of reading, one after the other, after which there was one
  std::string map_ ABSL_GUARDED_BY(mutex_);
  size_t groups_ ABSL_GUARDED_BY(mutex_) = 0;
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;  // each slot has a group that has begun

  std::thread thread_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_CLUSTER_WATCH_H_
