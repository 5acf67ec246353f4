// A connection that is over, until nothing of it is left.
//
// Ending has two phases. First the queue pair is put in the error state, and what the device has is flushed. When all
// of that has come the queue pair goes back to its device; then nothing of the peer can arrive any more, and what is
// left is reported.
#ifndef FARLOOK_RDMA_VERBS_ENDING_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_ENDING_CONNECTION_H_

#include <cstdint>
#include <vector>

#include "rdma/transport.h"
#include "rdma/verbs/endpoint_device.h"
#include "rdma/verbs/live_connection.h"
#include "rdma/verbs/pair.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device, pair and live connection outlive it.
class EndingConnection {
 public:
  // Fails the queue pair, and tells the peer. `live`: null where there never was one.
  EndingConnection(EndpointDevice* device, Pair* pair, LiveConnection* live);

  // Whether the device has flushed what it had, or is overdue with it.
  bool drained(int64_t now_ns) const;

  // Gives the queue pair back. `with_user`: slots of its messages that the user still reads, and which do not go with
  // it. No-op the second time.
  void GiveBack(const std::vector<uint32_t>& with_user);

  // The next request that the device did not complete. False: none is left. REQUIRES: GiveBack().
  bool FlushNext(Completion* done) { return live_ != nullptr && live_->FlushNext(done); }

 private:
  EndpointDevice* const device_;
  Pair* const pair_;
  LiveConnection* const live_;
  int64_t drained_until_ns_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDING_CONNECTION_H_
