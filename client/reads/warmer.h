// Client::Warm(): READs the whole index, segment by segment, into the mirror (index_mirror.h).
//
// First it READs the whole directory again, since refreshes update only entries that were found outdated. It takes the
// segments from there, in order, with kReads READs in flight. A segment that is split, merged or moved meanwhile is
// READ in its old or new state: an image is a hint. If the connection breaks or the directory grows, it begins again.
// It ends when all was READ, or as much as the mirror holds.
//
// Operations are served one after the other.
#ifndef FARLOOK_CLIENT_READS_WARMER_H_
#define FARLOOK_CLIENT_READS_WARMER_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "client/connection/directory_reader.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/operation.h"
#include "client/reads/index_mirror.h"
#include "farlook/stats.h"
#include "kv/layout/segment.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class Warmer final : public Engine {
 public:
  static constexpr size_t kReads = 16;  // at once; enough for a link of 100 Gbit/s and 20 us

  struct Parts {
    rdma::Endpoint* endpoint;
    IndexMirror* mirror;
    DirectoryReader* directory;
    Finished* finished;
    ClientStats* stats;
    Posted* posted;
  };
  // `gets_by_reads`: if false, there is nothing to warm.
  Warmer(const Parts& parts, bool gets_by_reads) : parts_(parts), gets_by_reads_(gets_by_reads) {}

  void Connect(const Ready& ready) override;
  void Lost() override;
  void Start(Operation* operation);
  // The READ of WorkRequestId::Owner::kSegments with this number has completed successfully.
  void Completed(size_t number);
  // A refresh of the directory has finished, for any user of it.
  void Refreshed();
  void Pump() override;
  bool wants_pump() const { return stalled_; }

  bool waiting() const override { return !operations_.empty(); }
  bool held_up() const override { return stalled_; }
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return buffer_ == nullptr ? 0 : buffer_->bytes().size(); }

 private:
  void Begin();
  void ReloadDirectory();
  bool Next(kv::Range* range);
  void Post();
  void End(absl::Status status);
  const kv::Directory& directory() const { return *parts_.directory->directory(); }
  char* MemoryOf(size_t number) { return buffer_->bytes().data() + number * kv::kSegmentBytes; }

  const Parts parts_;
  const bool gets_by_reads_;
  OperationQueue operations_;  // the first is being served, while connected
  std::unique_ptr<rdma::Buffer> buffer_;
  std::array<uint32_t, kReads> pieces_ = {};  // bytes of each READ; 0: free
  size_t under_way_ = 0;
  bool stalled_ = false;  // the queue of work requests was full

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  kv::ServerRange table_;
  uint64_t region_bytes_ = 0;
  uint32_t piece_bytes_ = 0;

  // State of the directory for the current operation: kWanted waits for another refresh.
  enum class Reload : uint8_t { kWanted, kUnderWay, kDone };
  Reload reload_ = Reload::kDone;

  // Current position.
  size_t entries_ = 0;  // of the directory when it began
  size_t entry_ = 0;
  uint32_t within_ = 0;  // within the entry's segment
  uint64_t read_bytes_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_WARMER_H_
