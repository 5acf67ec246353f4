// The core workload of YCSB: selects operations, records and contents.
//
// It selects and checks; it does not access a store. The workers execute its operations.
#ifndef FARLOOK_BENCH_YCSB_CORE_WORKLOAD_H_
#define FARLOOK_BENCH_YCSB_CORE_WORKLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/random.h"
#include "bench/stores/db.h"
#include "bench/ycsb/acknowledged_counter.h"
#include "bench/ycsb/key_chooser.h"
#include "bench/ycsb/workload_config.h"

namespace farlook::bench {

enum class Operation : uint8_t { kRead, kUpdate, kInsert, kReadModifyWrite };

// One operation, ready to be executed. Reused, so that nothing is allocated after a while.
struct Task {
  Operation operation = Operation::kRead;
  int64_t number = 0;                // of the record
  std::optional<size_t> read_field;  // the only field of interest, unless all
  DbRequest read;                    // of kRead and kReadModifyWrite
  DbRequest write;                   // of all except kRead
};

class WorkloadThread;

// The state that the threads of all phases share.
//
// Thread safety: all methods, from any thread. Outlives its WorkloadThreads.
class CoreWorkload {
 public:
  explicit CoreWorkload(const WorkloadConfig& config);

  // For one thread. Threads with different seeds draw differently.
  std::unique_ptr<WorkloadThread> NewThread(uint64_t seed);

  const WorkloadConfig& config() const { return config_; }

 private:
  friend class WorkloadThread;

  const WorkloadConfig config_;
  const std::vector<std::string> field_names_;
  std::atomic<int64_t> next_load_;
  AcknowledgedCounter inserted_;  // by transactions; the loaded records count as acknowledged
  const std::unique_ptr<KeyChooser> keys_;
};

// Thread safety: belongs to one thread.
class WorkloadThread {
 public:
  WorkloadThread(CoreWorkload* shared, uint64_t seed);

  // Makes *task the insert of the next record of the load phase.
  void NextLoad(Task* task);

  // Makes *task the next operation of the run phase.
  void NextTransaction(Task* task);

  // To be called once for each task of NextTransaction(), whatever its result: its insert no longer holds back readers.
  // Returns false if inserts are acknowledged too far out of order (see AcknowledgedCounter::kWindow).
  bool Finished(const Task& task);

  // With dataintegrity: kOk if task.read.result is what was written, kUnexpectedState if it differs, kError if there is
  // nothing, as YCSB counts them under VERIFY.
  DbStatus Verify(const Task& task);

  Random* random() { return &random_; }

 private:
  Operation NextOperation();
  size_t NextField() { return static_cast<size_t>(random_.Below(shared_->config_.field_count)); }
  void FieldValue(const std::string& key, size_t field, std::string* bytes);
  void WholeRecord(Task* task);
  void PrepareRead(Task* task);
  void PrepareUpdate(Task* task);

  CoreWorkload* const shared_;
  Random random_;
  const std::unique_ptr<KeyChooser> keys_;
  std::vector<std::string> values_;       // for WholeRecord
  std::vector<absl::string_view> views_;  // of values_, and for Verify
  std::string expected_;                  // for Verify
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_CORE_WORKLOAD_H_
