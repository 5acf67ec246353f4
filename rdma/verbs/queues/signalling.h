// Decides which SENDs request a completion.
//
// A completion costs both the device and this side. A SEND needs one only to free its place in the send queue, and the
// memory it was copied to. The completion of any request frees all that were posted before it. So one SEND in
// kSignalInterval requests a completion, counted from the last signalled request; READs are always signalled.
#ifndef FARLOOK_RDMA_VERBS_QUEUES_SIGNALLING_H_
#define FARLOOK_RDMA_VERBS_QUEUES_SIGNALLING_H_

#include <cstdint>

#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

class Signalling {
 public:
  // Returns whether this SEND is signalled; `needed`: it must be.
  bool ForSend(bool needed) {
    if (++unsignalled_ < kSignalInterval && !needed) return false;
    unsignalled_ = 0;
    return true;
  }
  // Notes a READ or atomic, which is always signalled.
  void Signalled() { unsignalled_ = 0; }

  // SENDs since the last signalled request; below kSignalInterval.
  uint32_t unsignalled() const { return unsignalled_; }

 private:
  uint32_t unsignalled_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_SIGNALLING_H_
