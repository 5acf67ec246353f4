#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/common/clocks.h"
#include "bench/ycsb/worker.h"

namespace farlook::bench {
namespace {

// Maximum delay until a thread that waits for the store notices a stop.
constexpr int64_t kLongestWaitNs = 50'000'000;

struct Slot {
  Task task;
  int64_t due_ns = 0;
  OperationTimes request;  // of the request in progress
  OperationTimes whole;    // of the operation, if it has more than one request
};

class PipelinedLoop {
 public:
  PipelinedLoop(Worker* worker, Db* db, size_t inflight)
      : worker_(worker), db_(db), slots_(new Slot[inflight]), inflight_(inflight), done_(inflight) {
    for (size_t i = 0; i < inflight; ++i) {
      slots_[i].task.read.owner = slots_[i].task.write.owner = &slots_[i];
      free_.push_back(&slots_[i]);
    }
  }

  void Run() {
    TakeTurn();
    while (has_turn_ || free_.size() < inflight_) {
      if (worker_->stopped()) has_turn_ = false;
      while (has_turn_ && !free_.empty() && IsDue()) {
        Begin();
        TakeTurn();
      }
      if (free_.size() == inflight_) {
        // Nothing to poll for.
        if (has_turn_) worker_->pacer().WaitUntil(due_ns_);
        continue;
      }
      const size_t count = db_->Poll(absl::MakeSpan(done_), WaitNs());
      const int64_t now_ns = count == 0 ? 0 : NowNs();
      for (size_t i = 0; i < count; ++i) Ended(done_[i], now_ns);
    }
  }

 private:
  void TakeTurn() {
    has_turn_ = worker_->TakeTurn();
    if (has_turn_) due_ns_ = worker_->pacer().NextDue();
  }

  bool IsDue() const { return due_ns_ == 0 || NowNs() >= due_ns_; }

  int64_t WaitNs() const {
    if (!has_turn_ || free_.empty() || due_ns_ == 0) return kLongestWaitNs;
    return std::clamp<int64_t>(due_ns_ - NowNs(), 0, kLongestWaitNs);
  }

  void Begin() {
    Slot* slot = free_.back();
    free_.pop_back();
    slot->due_ns = due_ns_;
    worker_->Next(&slot->task);
    const Operation operation = slot->task.operation;
    const bool reads = operation == Operation::kRead || operation == Operation::kReadModifyWrite;
    Submit(slot, reads ? &slot->task.read : &slot->task.write);
    slot->whole = slot->request;
  }

  void Submit(Slot* slot, DbRequest* request) {
    const int64_t now_ns = NowNs();
    slot->request = {.intended_ns = slot->due_ns == 0 ? now_ns : slot->due_ns, .start_ns = now_ns};
    db_->Submit(request);
  }

  void Ended(DbRequest* request, int64_t now_ns) {
    Slot* slot = static_cast<Slot*>(request->owner);
    Task& task = slot->task;
    slot->request.end_ns = slot->whole.end_ns = now_ns;
    worker_->Ended(MetricOf(*request), request->status, slot->request, *db_);
    if (task.operation == Operation::kReadModifyWrite) {
      if (request == &task.read) {
        task.write.basis = request->status == DbStatus::kOk ? &task.read.result : nullptr;
        Submit(slot, &task.write);
        return;
      }
      worker_->Measure(Metric::kReadModifyWrite, slot->whole);
    }
    worker_->Finished(task, task.operation == Operation::kInsert ? request->status : DbStatus::kOk);
    free_.push_back(slot);
  }

  static Metric MetricOf(const DbRequest& request) {
    if (request.kind == DbRequest::Kind::kRead) return Metric::kRead;
    return request.kind == DbRequest::Kind::kInsert ? Metric::kInsert : Metric::kUpdate;
  }

  Worker* const worker_;
  Db* const db_;
  const std::unique_ptr<Slot[]> slots_;
  const size_t inflight_;
  std::vector<Slot*> free_;
  std::vector<DbRequest*> done_;
  bool has_turn_ = false;
  int64_t due_ns_ = 0;  // of the turn
};

}  // namespace

void RunPipelined(Worker* worker, Db* db, size_t inflight) { PipelinedLoop(worker, db, inflight).Run(); }

}  // namespace farlook::bench
