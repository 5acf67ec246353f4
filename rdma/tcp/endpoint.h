// A completion queue of the TCP backend, of a client or of one worker of a server.
//
// One epoll descriptor covers the sockets of all connections, a timer for events that may never happen, and Wake().
#ifndef FARLOOK_RDMA_TCP_ENDPOINT_H_
#define FARLOOK_RDMA_TCP_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/resolver.h"
#include "rdma/host/unique_fd.h"
#include "rdma/tcp/connection.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/read_server.h"
#include "rdma/tcp/receive_arena.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::tcp {

class TcpEndpoint final : public Endpoint, private ConnectionHost {
 public:
  // RESOURCE_EXHAUSTED if there are no descriptors or no memory left.
  static absl::StatusOr<std::unique_ptr<TcpEndpoint>> Create(const TransportOptions& options);

  // Endpoint:
  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> memory) override;
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override;
  int fd() const override { return epoll_.get(); }
  void Wake() override { wake_.Wake(); }
  bool LeaveToParent() override;
  PeerActivity peer_activity() const override;

  // Adds a client that a listener accepted.
  std::unique_ptr<Connection> Adopt(UniqueFd socket, std::shared_ptr<ReadGrant> grant, ReadServer* server,
                                    absl::string_view welcome);

  // For buffers.
  void Free(uint32_t rkey);

 private:
  TcpEndpoint(UniqueFd epoll, UniqueFd timer, const TransportOptions& options);

  // ConnectionHost:
  bool Watch(int socket, TcpConnection* connection, bool of_reads, uint32_t wanted, uint32_t* watched) override;
  void Unwatch(int socket) override;
  void OnPosted() override { quiet_polls_ = 0; }
  void PollAgain(TcpConnection* connection) override;
  void OnRoom() override { room_came_ = true; }
  void Forget(TcpConnection* connection) override;
  SpareMemory* spare() override { return &spare_; }
  const char* Find(const ReadOrder& order) override;

  uint32_t Offer(absl::Span<char> memory);
  void CheckEvents();
  void OnAnswered();
  void ClearActive();
  void Tick();
  bool AnyTicks() const;

  Resolver* resolver();

  UniqueFd epoll_;
  UniqueFd timer_;
  const TransportOptions options_;
  WakeFd wake_;
  std::unique_ptr<Resolver> resolver_;  // a client's, from its first Connect() on
  ReceiveArena arena_;
  SpareMemory spare_;
  std::vector<TcpConnection*> all_;
  std::vector<TcpConnection*> waiting_;           // for their turn, in order
  std::vector<TcpConnection*> turns_;             // of this Poll
  std::vector<TcpConnection*> active_;            // peers that sent something since this side last slept
  std::map<uint32_t, absl::Span<char>> buffers_;  // that peers may READ, by rkey
  uint32_t next_rkey_ = 1;
  bool armed_ = false;
  bool room_came_ = false;  // since Arm() asked
  uint32_t quiet_polls_ = 0;
  int64_t next_tick_ns_ = 1;
  int64_t timer_ns_ = 0;  // when the timer fires; 0: never
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_ENDPOINT_H_
