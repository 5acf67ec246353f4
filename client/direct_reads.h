// Gets that never wait: where the server's memory is mapped (Capabilities::local), they are done on the spot, without a
// flight, a work request and a completion for each.
//
// One alone goes from step to step. Up to 64 of a batch do side by side, in phases, so that cache misses overlap:
//
//     1  hash the key; the directory says where to look; prefetch that
//     2  of the buckets: which slot bears the fingerprint? prefetch its item, of a long one the beginning
//     3  READ each item to private memory; verify that copy, and copy its value to the caller. Where no fingerprint
//        fits, READ the bucket, and verify in that copy that the key is absent. Meanwhile the rest of long items that
//        come soon is prefetched
//
// Of an item this is kv::Lookup's READ of a remembered location, once, and nothing else. What leads there, the
// bucket, is a hint that is looked at in place and may be wrong in any way: the item proves itself, by version,
// checksum, expiry and key, in the copy whose bytes the caller gets. "Absent" is what kv::Lookup would say after the
// READ of a bucket in which nothing matches. Whatever is unusual (the first fingerprint that fits is another key's; an
// overflow bucket; a writer was faster; what expires, counters, long values, errors) is left alone: Reads begins it
// anew. See "Gets at once" in docs/design-notes.md.
//
// Invariants:
//   * alive() is asked after the last READ of a batch, and before anything that was read counts; of a group's server
//     also whether all members show this epoch.
//   * What is absent counts only if all of the batch took less than kMaxBucketReadNs, and the directory trusts its copy
//     by then, which is the one that led to each bucket. Only then is the clock read.
#ifndef FARLOOK_CLIENT_DIRECT_READS_H_
#define FARLOOK_CLIENT_DIRECT_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "client/engine.h"
#include "client/epoch_watch.h"
#include "client/finished.h"
#include "client/last_time.h"
#include "client/latencies.h"
#include "client/operation.h"
#include "client/touches.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "kv/lookup.h"
#include "kv/slot.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class DirectReads final : public Engine {
 public:
  struct Parts {
    Touches* touches;
    LastTime* time;
    Finished* finished;
    Latencies* latencies;
    ClientStats* stats;
  };
  // `enabled`: gets over local connections go this way.
  DirectReads(const Parts& parts, bool enabled) : parts_(parts), enabled_(enabled) {}

  void Connect(const Ready& ready) override;
  void Lost() override { connection_ = nullptr; }
  void Pump() override {}
  void Cancel(Operation* /*operation*/) override {}  // it never has one

  bool connected() const { return connection_ != nullptr; }
  // Whether operations bear their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) { hashes_are_given_ = are_given; }

  // Ends those of `operations` that it can, and returns how many; the others are as they were, but for bytes of their
  // buffer or string. They are new, and a call waits for them. REQUIRES connected().
  size_t Run(absl::Span<Operation* const> operations);
  // The same of one: whether it has ended.
  bool Run(Operation* operation);

  uint64_t memory_bytes() const override { return batch_ == nullptr ? 0 : sizeof(Batch); }

 private:
  // Operations whose answers count together.
  static constexpr size_t kBatch = 64;
  // Longer items are left alone.
  static constexpr size_t kMostItemBytes = 4 << 10;

  struct Get {
    Operation* operation;
    uint64_t hash;
    const char* bucket;
    kv::Slot slot;
    const char* item;  // where the slot leads
    uint64_t bytes;    // 0: no fingerprint fits
  };
  struct Batch {
    Get gets[kBatch];
    // One is copied while the last one's copy is verified, since the processor must not load vectors from what it has
    // just stored as words.
    alignas(64) char copies[2][kMostItemBytes];
    Operation* absent[kBatch];
  };
  size_t RunTimed(absl::Span<Operation* const> operations);
  size_t RunAll(absl::Span<Operation* const> operations);
  bool RunOne(Operation* operation);
  size_t RunBatch(absl::Span<Operation* const> operations);
  bool FindBucket(Operation* operation, Get* get) const;
  void FollowBucket(Get* get) const;
  static void PrefetchRest(const Get& get);
  bool Take(const Get& get, const char* item);
  bool IsAbsent(const Get& get, char* copy) const;
  bool MayBelieve();
  bool EndAbsent(absl::Span<Operation* const> absent, int64_t since_ns);
  void Count(size_t found, size_t absent);

  const Parts parts_;
  const bool enabled_;

  // Set while connected.
  rdma::Connection* connection_ = nullptr;
  const char* table_ = nullptr;  // as it is mapped
  kv::ReaderContext context_{};
  bool hashes_are_given_ = false;
  EpochWatch* watch_ = nullptr;                // of a group
  uint64_t last_segment_ = 0, last_item_ = 0;  // the greatest offsets at which any fits

  std::unique_ptr<Batch> batch_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_DIRECT_READS_H_
