// Samples the items that gets find, for a server that is a cache, so that it knows which items are used.
//
// One hit in N, chosen by the server, appends its slot to a list. The list is sent when it is full or its first entry
// is a tenth of a second old; if the send queue has no room, it is dropped. If the server evicts nothing, N is
// infinite: then this costs two instructions per hit.
//
// Thread safety: one thread. The stats and the time outlive it.
#ifndef FARLOOK_CLIENT_OP_HIT_SAMPLER_H_
#define FARLOOK_CLIENT_OP_HIT_SAMPLER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "client/op/last_time.h"
#include "farlook/stats.h"
#include "kv/layout/slot.h"
#include "kv/wire/touched.h"
#include "rdma/transport.h"

namespace farlook::client {

class HitSampler {
 public:
  static constexpr int64_t kLongestNs = 100'000'000;

  HitSampler(LastTime* time, const ClientStats* stats) : time_(time), stats_(stats) {}

  // A get found its item at `slot`.
  void Hit(kv::Slot slot) {
    if (--left_ == 0) [[unlikely]]
      Note(slot);
  }

  // `sample`: one hit in N is listed; 0: none.
  void Connect(rdma::Connection* connection, uint32_t sample);
  void Lost() { Connect(nullptr, 0); }
  // Changes N on request of the server.
  void SetSample(uint32_t sample);

  uint64_t memory_bytes() const { return list_ == nullptr ? 0 : sizeof *list_; }

 private:
  using List = std::array<uint64_t, kv::TouchedLocations::kMaxSlots>;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void Note(kv::Slot slot);
  void Send();

  uint64_t left_ = kNever;  // hits until the next that is listed
  uint32_t sample_ = 0;
  LastTime* const time_;
  const ClientStats* const stats_;
  rdma::Connection* connection_ = nullptr;
  std::unique_ptr<List> list_;
  size_t listed_ = 0;
  int64_t first_ns_ = 0;  // time of the first list entry
  uint64_t reported_hits_ = 0, reported_misses_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_HIT_SAMPLER_H_
