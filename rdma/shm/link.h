// The result of a handshake on each side: everything that a connection uses.
#ifndef FARLOOK_RDMA_SHM_LINK_H_
#define FARLOOK_RDMA_SHM_LINK_H_

#include <string>

#include "rdma/host/unique_fd.h"
#include "rdma/shm/life_sign.h"
#include "rdma/shm/peer_memory.h"
#include "rdma/shm/segment.h"

namespace farlook::rdma::shm {

struct Link {
  UniqueFd socket;
  Segment segment;
  LifeView life;  // only a client's
  PeerMemory memory;
  std::string peer;     // see Connection::peer
  std::string welcome;  // only a client's
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_LINK_H_
