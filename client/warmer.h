// Client::Warm(): READs all of the index, segment by segment, into the mirror (index_mirror.h).
//
// First it has the client's copy of the directory READ anew, which gets refresh only entry by entry, as they meet what
// has changed. It takes the segments from there, in its order, and has kReads of them under way. What splits, merges or
// moves meanwhile is READ as it was or as it is: an image is a hint. A connection that breaks, or a directory that
// grew, has it begin anew. It ends when all was READ, or as much as the mirror holds.
//
// Operations are served one after the other.
#ifndef FARLOOK_CLIENT_WARMER_H_
#define FARLOOK_CLIENT_WARMER_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "client/directory_reader.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/index_mirror.h"
#include "client/operation.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/segment.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
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
  // `gets_by_reads`: else there is nothing to warm.
  Warmer(const Parts& parts, bool gets_by_reads) : parts_(parts), gets_by_reads_(gets_by_reads) {}

  void Connect(const Ready& ready) override;
  void Lost() override;
  void Start(Operation* operation);
  // The READ of WorkRequestId::Owner::kSegments with this number completed, successfully.
  void Completed(size_t number);
  // A refresh of the directory is done, whoever wanted it.
  void Refreshed();
  void Pump() override;
  bool wants_pump() const { return stalled_; }

  bool waiting() const override { return !operations_.empty(); }
  bool held_up() const override { return stalled_; }
  void Cancel(Operation* operation) override;
  void Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) override;
  uint64_t memory_bytes() const override { return buffer_ == nullptr ? 0 : buffer_->bytes().size(); }

 private:
  struct Piece {
    uint64_t offset = 0;  // of the region
    uint32_t bytes = 0;   // 0: free
  };

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
  std::array<Piece, kReads> pieces_;
  size_t under_way_ = 0;
  bool stalled_ = false;  // the queue of work requests was full

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  kv::ServerRange table_;
  uint64_t region_bytes_ = 0;
  uint32_t piece_bytes_ = 0;

  // Of the directory, for the operation that is being served: kWanted waits for another refresh.
  enum class Reload : uint8_t { kWanted, kUnderWay, kDone };
  Reload reload_ = Reload::kDone;

  // Where it is.
  size_t entries_ = 0;  // of the directory when it began
  size_t entry_ = 0;
  uint32_t within_ = 0;  // the entry's segment
  uint64_t read_bytes_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_WARMER_H_
