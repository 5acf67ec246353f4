// Which SENDs ask for a completion.
//
// A completion costs both the device and this side; a SEND needs none but so that its place in the send queue, and the
// memory it was copied to, become free. The completion of any request frees all that were posted before it, so one SEND
// in kSignalInterval asks, and none after a READ, which always does.
#ifndef FARLOOK_RDMA_VERBS_SIGNALLING_H_
#define FARLOOK_RDMA_VERBS_SIGNALLING_H_

#include <cstdint>

#include "rdma/verbs/limits.h"

namespace farlook::rdma::verbs {

class Signalling {
 public:
  // Whether this SEND is signalled.
  bool ForSend() {
    if (++unsignalled_ < kSignalInterval) return false;
    unsignalled_ = 0;
    return true;
  }
  // READs and atomics are.
  void Signalled() { unsignalled_ = 0; }

  // SENDs since the last signalled request; below kSignalInterval.
  uint32_t unsignalled() const { return unsignalled_; }

 private:
  uint32_t unsignalled_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_SIGNALLING_H_
