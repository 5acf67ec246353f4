// Gets that never wait: where a READ is a copy (Capabilities::local), a batch of them is made on the spot, without a
// flight, a work request and a completion for each.
//
// The lookups are kv::Lookup's, as everywhere; some run side by side, in turns: all that they want is READ, then each
// is fed. What it wants next is prefetched; where it ended, the next operation's begins in its place. So cache misses
// overlap, with each other and with the hashing. See "Gets at once" in docs/design-notes.md for why all is
// copied before anything is looked at.
//
// What one look at bucket and items does not answer (the directory is old, a writer was faster), or answers with a
// long value, a counter or an error, is left alone: Reads begins it anew.
//
// Invariants:
//   * alive() is asked after the last READ of a batch, and before anything that was read counts.
//   * NOT_FOUND is believed only in time, and with a directory that can be relied on, as in reads.h.
#ifndef FARLOOK_CLIENT_DIRECT_READS_H_
#define FARLOOK_CLIENT_DIRECT_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/engine.h"
#include "client/finished.h"
#include "client/last_time.h"
#include "client/latencies.h"
#include "client/location_cache.h"
#include "client/operation.h"
#include "client/touches.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/lookup.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class DirectReads final : public Engine {
 public:
  struct Parts {
    const LocationCache* cache;
    Touches* touches;
    LastTime* time;
    Latencies* latencies;
    Finished* finished;
    ClientStats* stats;
  };
  // `enabled`: gets over local connections go this way. False where the user wants locations to be remembered: that
  // rarely pays where a READ costs a cache miss, and only Reads does it.
  DirectReads(const Parts& parts, bool enabled) : parts_(parts), enabled_(enabled) {}

  void Connect(const Ready& ready) override;
  void Lost() override { connection_ = nullptr; }
  void Pump() override {}
  void Cancel(Operation* /*operation*/) override {}  // it never has one

  bool connected() const { return connection_ != nullptr; }

  // Ends those of `operations` that it can, and returns how many; the others are as they were, but for bytes of their
  // buffer or string. They are new, and a call waits for them. REQUIRES connected().
  size_t Run(absl::Span<Operation* const> operations);

  uint64_t memory_bytes() const override { return batch_ == nullptr ? 0 : sizeof(Batch); }

 private:
  // Operations whose answers count together.
  static constexpr size_t kBatch = 256;
  // Lookups side by side: enough to overlap cache misses, and few enough for what is touched to stay in the first
  // cache.
  static constexpr size_t kLookups = 32;
  static constexpr size_t kStagingBytes = 16 << 10;
  // Longer items are worth being copied straight to where they are wanted.
  static constexpr size_t kMaxItemBytes = 4 << 10;
  static constexpr size_t kLineBytes = 64;
  static_assert(kStagingBytes % kLineBytes == 0 && kMaxItemBytes <= kStagingBytes);

  struct Get {
    Operation* operation;
    kv::Lookup lookup;
  };
  struct Batch {
    alignas(kLineBytes) char staging[kStagingBytes];
    Get gets[kLookups];
    Get* wanting[kLookups];  // those that want a READ
    rdma::NowRead reads[kLookups];
    Operation* absent[kBatch];
  };
  // What the batch adds to the statistics, if it counts.
  struct Counts {
    size_t found = 0, absent = 0;
    uint64_t bucket_reads = 0, item_reads = 0;
  };

  size_t RunTimed(absl::Span<Operation* const> operations);
  size_t RunAll(absl::Span<Operation* const> operations);
  size_t RunBatch(absl::Span<Operation* const> operations);
  bool Begin(Get* get);
  size_t Turn(size_t wanting);
  size_t ReadSome(size_t begin, size_t end);
  bool Feed(Get* get, absl::string_view bytes);
  void Expect(const Get& get);
  size_t EndAbsent(size_t count, int64_t since_ns);
  bool Confirm(int64_t now_ns);

  const Parts parts_;
  const bool enabled_;

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  kv::ServerRange table_;
  kv::ReaderContext context_{};

  std::unique_ptr<Batch> batch_;
  Operation* const* next_ = nullptr;  // of the batch, not begun
  Operation* const* end_ = nullptr;
  Counts counts_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_DIRECT_READS_H_
