// Gets that never wait. If the server's memory is mapped (Capabilities::local), they are executed within the call,
// without a flight, a work request and a completion for each.
//
// A single get runs step by step. Up to 64 gets of a batch run side by side, in phases, so that cache misses overlap:
//
//     1  hash the key; find the bucket by the directory; prefetch it
//     2  in each bucket find the slot with the fingerprint; prefetch its item, of a long one the beginning
//     3  READ each item to private memory; verify that copy, and copy its value to the caller. If no fingerprint
//        matches, READ the bucket, and verify in that copy that the key is absent. Meanwhile prefetch the rest of
//        the next long items
//
// For an item this is one READ of a remembered location by kv::Lookup, and nothing else. The bucket that leads there is
// a hint; it is used in place and may be wrong in any way. The item proves itself, by version, checksum, expiry and
// key, in the copy whose bytes the caller gets. "Absent" is the result of kv::Lookup after the READ of a bucket without
// a match. Unusual cases are left to Reads, which starts them again: the first matching fingerprint is another key's;
// an overflow bucket; a faster writer; items that expire, counters, long values, errors. See "Gets at once" in
// docs/design-notes.md.
//
// Invariants:
// * alive() is checked after the last READ of a batch, and before any result counts. For a server of a group, all
//   members must also show this epoch.
// * "Absent" counts only if the whole batch took less than kMaxBucketReadNs, and the directory still trusts the copy
//   that led to each bucket. Only then is the clock read.
#ifndef FARLOOK_CLIENT_READS_DIRECT_READS_H_
#define FARLOOK_CLIENT_READS_DIRECT_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "client/connection/epoch_watch.h"
#include "client/op/engine.h"
#include "client/op/finished.h"
#include "client/op/hit_sampler.h"
#include "client/op/last_time.h"
#include "client/op/latencies.h"
#include "client/op/operation.h"
#include "farlook/stats.h"
#include "kv/layout/slot.h"
#include "kv/read/lookup.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class DirectReads final : public Engine {
 public:
  struct Parts {
    HitSampler* touches;
    LastTime* time;
    Finished* finished;
    Latencies* latencies;
    ClientStats* stats;
  };
  // `enabled`: gets over local connections are executed here.
  DirectReads(const Parts& parts, bool enabled) : parts_(parts), enabled_(enabled) {}

  void Connect(const Ready& ready) override;
  void Lost() override { connection_ = nullptr; }
  void Pump() override {}
  void Cancel(Operation* /*operation*/) override {}  // it never has an operation

  bool connected() const { return connection_ != nullptr; }
  // Sets whether operations carry their keys' hashes by the table's seed.
  void TakeHashes(bool are_given) { hashes_are_given_ = are_given; }

  // Ends as many of `operations` as it can, and returns their number. The others are unchanged, except for bytes of
  // their buffer or string. REQUIRES connected(), and new operations of a blocking call.
  size_t Run(absl::Span<Operation* const> operations);
  // The same for one operation. Returns whether it has ended.
  bool Run(Operation* operation);

  uint64_t memory_bytes() const override { return batch_ == nullptr ? 0 : sizeof(Batch); }

 private:
  // Maximum number of operations whose results are accepted together.
  static constexpr size_t kBatch = 64;
  // Longer items are left to Reads.
  static constexpr size_t kMostItemBytes = 4 << 10;

  struct Get {
    Operation* operation;
    uint64_t hash;
    const char* bucket;
    kv::Slot slot;
    const char* item;  // location in the slot
    uint64_t bytes;    // 0: no fingerprint matches
  };
  struct Batch {
    Get gets[kBatch];
    // Two buffers: one is filled while the other is verified. A processor must not load vectors from words that it has
    // just stored.
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
  const char* table_ = nullptr;  // as mapped
  kv::ReaderContext context_{};
  bool hashes_are_given_ = false;
  EpochWatch* watch_ = nullptr;                // groups only
  uint64_t last_segment_ = 0, last_item_ = 0;  // the greatest offsets at which a segment or item fits

  std::unique_ptr<Batch> batch_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_DIRECT_READS_H_
