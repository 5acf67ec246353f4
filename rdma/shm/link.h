// What a handshake leaves on each side, and a connection lives from.
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
  LifeView life;  // a client's only
  PeerMemory memory;
  std::string peer;     // see Connection::peer
  std::string welcome;  // a client's only
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_LINK_H_
