// Steps of scans: connects kv::Scan, which does no I/O, with READs.
//
// On this host the table is mapped, and bytes are copied in place. Elsewhere they are READ.
//
// Operations are served one after the other. If the connection breaks, the step begins again over the next one.
//
// Invariants:
// * The segment's READs are timed: one that took longer than kMaxBucketReadNs is not believed.
// * The result counts only if the directory still trusts the entries that led to the segment.
// * In a group it also waits until EpochWatch believes it.
#ifndef FARLOOK_CLIENT_READS_SCANS_H_
#define FARLOOK_CLIENT_READS_SCANS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/connection/directory_reader.h"
#include "client/connection/epoch_watch.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/last_time.h"
#include "client/op/operation.h"
#include "client/op/scan_operation.h"
#include "farlook/stats.h"
#include "kv/read/scan.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class Scans final : public Engine {
 public:
  struct Parts {
    rdma::Endpoint* endpoint;
    DirectoryReader* directory;
    LastTime* time;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  explicit Scans(const Parts& parts) : parts_(parts) {}

  void Connect(const Ready& ready) override;
  void Lost() override;
  // REQUIRES a ScanOperation.
  void Start(Operation* operation);
  // A READ of WorkRequestId::Owner::kScans has completed successfully.
  void Completed();
  // A refresh of the directory has finished, for any user of it.
  void Refreshed();
  // In a group: judges a result again that waits to be believed.
  void JudgeAgain();
  void Pump() override;
  bool wants_pump() const { return stalled_; }

  bool waiting() const override { return !operations_.empty(); }
  bool held_up() const override { return stalled_; }
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return buffer_ == nullptr ? 0 : buffer_->bytes().size(); }

 private:
  // The reason why the first operation waits.
  enum class Wait : uint8_t {
    kNothing,
    kReads,
    kOthers,   // a refresh of the directory for others, before its own
    kRefresh,  // of the directory
    kTrust,    // the directory is asked whether its entries can be relied on
    kBelief,
  };

  ScanOperation* current() { return static_cast<ScanOperation*>(operations_.front()); }
  void Begin();
  void Advance(kv::Scan::Step step);
  bool Place();
  bool CopyHere();
  kv::Scan::Step Feed();
  void Post();
  bool Refresh();
  bool Trust();
  void Judge();
  void Done();
  void End(absl::Status status);

  const Parts parts_;
  OperationQueue operations_;  // the first is being served, while connected
  kv::Scan scan_;
  std::unique_ptr<rdma::Buffer> buffer_;
  Wait wait_ = Wait::kNothing;

  // The READs of wanted().
  size_t next_ = 0;      // the first range that is not wholly posted
  uint32_t within_ = 0;  // what is posted of it
  uint64_t filled_ = 0;  // bytes posted
  size_t pending_ = 0;
  int64_t since_ns_ = 0;
  bool stalled_ = false;    // the queue of work requests was full
  bool abandoned_ = false;  // the operation of the posted READs was cancelled

  // The time, and the round of the watch, of a result that waits to be believed.
  int64_t completed_ns_ = 0;
  uint64_t begun_ = 0;

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  const char* mapped_ = nullptr;  // the table, on this host
  Ready ready_ = {};
  uint64_t piece_bytes_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_SCANS_H_
