// The server's end of an shm:// address.
#ifndef FARLOOK_RDMA_SHM_LISTENER_H_
#define FARLOOK_RDMA_SHM_LISTENER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/clock.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/disposal.h"
#include "rdma/shm/life_sign.h"
#include "rdma/shm/request.h"
#include "rdma/shm/socket_address.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

class ShmListener final : public Listener {
 public:
  // Errors as for SocketAddress::Take, and RESOURCE_EXHAUSTED. REQUIRES: `path` comes from ParseAddress.
  static absl::StatusOr<std::unique_ptr<ShmListener>> Create(const std::string& path,
                                                             const TransportOptions& options = {});

  // Listener:
  std::string address() const override;
  // FAILED_PRECONDITION: the memory is not sealed as SharedMemory seals it for `access`.
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) override;
  AtomicDomain atomic_domain() const override { return AtomicDomain::kCpu; }
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override;
  absl::Status status() const override { return file_status_; }
  std::unique_ptr<ConnectionRequest> Next() override;
  void CleanUp() override { disposal_.Free(); }
  int fd() const override { return epoll_.get(); }

 private:
  // A client that connected and has not sent its hello. Nothing waits for it.
  struct Pending {
    UniqueFd socket;
    int64_t deadline_ns;
  };

  ShmListener(SocketAddress address, UniqueFd epoll, UniqueFd timer, UniqueFd spare, std::unique_ptr<LifeSign> life);
  bool Watch(int fd);
  void AcceptAll(int64_t now_ns);
  void RefuseForLackOfDescriptors();
  void ReadHello(int socket);
  void Drop(const std::deque<Pending>::iterator& pending);
  void SetTimer();

  const SocketAddress address_;
  absl::Status file_status_;  // of its socket's file
  const UniqueFd epoll_;
  const UniqueFd timer_;
  UniqueFd spare_;  // closed for a moment to refuse a client when no descriptors are left
  const Clock& clock_;
  const std::shared_ptr<Offers> offers_;
  Disposal disposal_;            // for its endpoints
  std::deque<Pending> pending_;  // oldest first
  std::deque<std::unique_ptr<ConnectionRequest>> requests_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_LISTENER_H_
