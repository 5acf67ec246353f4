// A completion queue of the shm backend, of a client or of one worker of a server.
//
// One epoll descriptor covers the sockets of all connections and a timer for handshakes. Poll() checks the rings of
// active connections, which costs one load each. It checks the epoll descriptor (a system call) rarely, or after
// sleeping. If there are many connections, those that were silent for long are not polled: their peers wake this side.
#ifndef FARLOOK_RDMA_SHM_ENDPOINT_H_
#define FARLOOK_RDMA_SHM_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/clock.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/buffer_registry.h"
#include "rdma/shm/connection.h"
#include "rdma/shm/dialer.h"
#include "rdma/shm/disposal.h"
#include "rdma/shm/limits.h"
#include "rdma/shm/link.h"
#include "rdma/shm/receive_arena.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::shm {

class ShmEndpoint final : public Endpoint, private ConnectionHost {
 public:
  // A listener's endpoint uses its `disposal`, which must outlive it and is emptied by the listener's thread; a
  // client's has none. RESOURCE_EXHAUSTED if there are no descriptors left.
  static absl::StatusOr<std::unique_ptr<ShmEndpoint>> Create(Disposal* disposal = nullptr);

  // Endpoint:
  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override;
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  int fd() const override { return epoll_.get(); }
  void Wake() override { wake_.Wake(); }
  bool LeaveToParent() override;
  PeerActivity peer_activity() const override;

  // Adds a connection that a listener accepted.
  std::unique_ptr<Connection> Adopt(Link link);

  // For buffers.
  void Free(uint32_t rkey);

 private:
  ShmEndpoint(UniqueFd epoll, UniqueFd timer, Disposal* disposal);

  // ConnectionHost:
  bool Watch(int socket, ShmConnection* connection, bool writing) override;
  void Unwatch(int socket) override;
  void PollAgain(ShmConnection* connection) override;
  void Unmap(Mapping mapping) override;
  void Forget(ShmConnection* connection) override;
  const BufferRegistry& buffers() const override { return buffers_; }

  size_t PollOne(ShmConnection* connection, absl::Span<Completion> out);
  size_t PollInTurn(absl::Span<Completion> out);
  void Disarm();
  void CheckEvents();
  void StepDialing();
  void SetTimer();
  void RetireSilent(size_t index);

  UniqueFd epoll_;
  WakeFd wake_;
  UniqueFd timer_;
  Disposal* const disposal_;
  const Clock& clock_;
  bool armed_ = false;
  uint32_t polls_until_check_ = 1;
  size_t next_turn_ = 0;  // index in polled_ of the first connection of the next Poll
  std::vector<ShmConnection*> polled_;
  std::vector<ShmConnection*> dialing_;
  std::vector<ShmConnection*> all_;
  ReceiveArena arena_;
  BufferRegistry buffers_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_ENDPOINT_H_
