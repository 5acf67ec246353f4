// A directory in memory for tests, with the faults of a real one: lost requests and replies, changes that are executed
// long after the request, old answers.
#ifndef FARLOOK_CLUSTER_SIMULATED_DIRECTORY_H_
#define FARLOOK_CLUSTER_SIMULATED_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cluster/directory.h"

namespace farlook::cluster {

// The state that all servers of a simulation share. Thread safety: any thread may call anything.
class SimulatedRecords {
 public:
  // The record as it was `ago` changes before the present one.
  Entry Get(absl::string_view name, size_t ago = 0) const;
  CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value);
  // Returns false if it did not change in time.
  bool Wait(absl::string_view name, uint64_t after, absl::Duration timeout) const;

  // Compare-and-swaps in transit.
  void Delay(absl::string_view name, uint64_t expected, absl::string_view value);
  size_t delayed() const;
  // Executes number `i` of them. REQUIRES i < delayed().
  void Execute(size_t i);

 private:
  struct Request {
    std::string name;
    uint64_t expected;
    std::string value;
  };

  Entry Find(absl::string_view name, size_t ago) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, std::vector<Entry>, std::less<>> history_ ABSL_GUARDED_BY(mutex_);
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;  // of all names, as in etcd
  std::vector<Request> delayed_ ABSL_GUARDED_BY(mutex_);
};

class SimulatedDirectory final : public Directory {
 public:
  enum class Fault : uint8_t {
    kNone,
    kRequestLost,
    kReplyLost,
    kLate,  // the change is executed by SimulatedRecords::Execute(); for reads the same as kRequestLost
    kOld,   // for reads that may be old: the state of some changes ago
  };

  // `fault` is called for each call.
  SimulatedDirectory(SimulatedRecords* records, std::function<Fault()> fault)
      : records_(*records), fault_(std::move(fault)) {}

  absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) override;
  CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) override;
  absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) override;

 private:
  SimulatedRecords& records_;
  const std::function<Fault()> fault_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_SIMULATED_DIRECTORY_H_
