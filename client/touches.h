// Of a server that is a cache: which items gets found, a sample of it, so that the server knows what is wanted.
//
// One hit in so many as the server says appends its slot to a list. When the list is full, or its first entry is a
// tenth of a second old, it is sent, if there is room just then; else it is forgotten. Where the server evicts nothing
// the count never comes to its end: then this costs a hit two instructions.
//
// Thread safety: one thread. The stats and the time outlive it.
#ifndef FARLOOK_CLIENT_TOUCHES_H_
#define FARLOOK_CLIENT_TOUCHES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "client/last_time.h"
#include "farlook/stats.h"
#include "kv/slot.h"
#include "kv/touched.h"
#include "rdma/transport.h"

namespace farlook::client {

class Touches {
 public:
  static constexpr int64_t kLongestNs = 100'000'000;

  Touches(LastTime* time, const ClientStats* stats) : time_(time), stats_(stats) {}

  // A get found its item there.
  void Hit(kv::Slot slot) {
    if (--left_ == 0) [[unlikely]]
      Note(slot);
  }

  // `sample`: one hit in so many; 0: none.
  void Connect(rdma::Connection* connection, uint32_t sample);
  void Lost() { Connect(nullptr, 0); }
  // The server wants another share.
  void SetSample(uint32_t sample);

  uint64_t memory_bytes() const { return list_ == nullptr ? 0 : sizeof *list_; }

 private:
  using List = std::array<uint64_t, kv::TouchedLocations::kMaxSlots>;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  void Note(kv::Slot slot);
  void Send();

  uint64_t left_ = kNever;  // hits, to the next that is told
  uint32_t sample_ = 0;
  LastTime* const time_;
  const ClientStats* const stats_;
  rdma::Connection* connection_ = nullptr;
  std::unique_ptr<List> list_;
  size_t listed_ = 0;
  int64_t first_ns_ = 0;  // when the first of the list was
  uint64_t told_hits_ = 0, told_misses_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TOUCHES_H_
