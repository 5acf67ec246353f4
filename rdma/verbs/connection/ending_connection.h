// A connection that has ended, until nothing of it is left.
//
// Ending has two phases. First the queue pair enters the error state, and the requests with the device are flushed.
// When all of them have completed, the queue pair is returned to its device; then nothing of the peer can arrive any
// more, and the remaining requests are reported.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_ENDING_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_ENDING_CONNECTION_H_

#include <cstdint>
#include <vector>

#include "rdma/transport.h"
#include "rdma/verbs/connection/endpoint_device.h"
#include "rdma/verbs/connection/live_connection.h"
#include "rdma/verbs/device/pair.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device, pair and live connection must outlive it.
class EndingConnection {
 public:
  // Fails the queue pair, and notifies the peer. `live`: null if it never existed.
  EndingConnection(EndpointDevice* device, Pair* pair, LiveConnection* live);

  // Returns whether the device has flushed its requests, or the time for that has expired.
  bool drained(int64_t now_ns) const;

  // Returns the queue pair to the device. `with_user`: slots of its messages that the user still reads, which are not
  // freed with it. Does nothing the second time.
  void GiveBack(const std::vector<uint32_t>& with_user);

  // Returns the next request that the device did not complete in `*done`, or false if none is left. REQUIRES:
  // GiveBack().
  bool FlushNext(Completion* done) { return live_ != nullptr && live_->FlushNext(done); }

 private:
  EndpointDevice* const device_;
  Pair* const pair_;
  LiveConnection* const live_;
  int64_t drained_until_ns_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_ENDING_CONNECTION_H_
