// One connection over TCP: two sockets at the client, the first of them at the server (see frame.h).
#ifndef FARLOOK_RDMA_TCP_CONNECTION_H_
#define FARLOOK_RDMA_TCP_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/candidates.h"
#include "rdma/host/ip_address.h"
#include "rdma/tcp/channel.h"
#include "rdma/tcp/dialing.h"
#include "rdma/tcp/frame.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/read_server.h"
#include "rdma/tcp/receive_arena.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {

class TcpConnection;

// Services that a connection needs of its endpoint.
class ConnectionHost {
 public:
  // Waits for `wanted` of the socket (EPOLLIN, EPOLLOUT, or neither). `watched`: the events that epoll waits for
  // already, initially 0. Returns false if there is no memory for it.
  virtual bool Watch(int socket, TcpConnection* connection, bool of_reads, uint32_t wanted, uint32_t* watched) = 0;
  // Called before the socket is closed: a child of a fork() may still hold it.
  virtual void Unwatch(int socket) = 0;
  // From now on an answer is expected.
  virtual void OnPosted() = 0;
  // The connection has work, although its sockets may have no event.
  virtual void PollAgain(TcpConnection* connection) = 0;
  // A message fits that did not before.
  virtual void OnRoom() = 0;
  virtual void Forget(TcpConnection* connection) = 0;
  // Shared by all its connections.
  virtual SpareMemory* spare() = 0;
  // Returns the address within a buffer that peers may READ; null if there is no such buffer, or it is too short.
  virtual const char* Find(const ReadOrder& order) = 0;

 protected:
  ~ConnectionHost() = default;
};

// A client's way to a server.
struct Way {
  SocketAddress address = {};  // from kGreeting on
  std::string shown;           // as written by the user
  int64_t liveness_ms = 0;
  int64_t until_ns = 0;
};

class TcpConnection final : public Connection {
 public:
  // A client's connection, which begins to connect to one of the candidates with Begin().
  TcpConnection(ConnectionHost* host, Candidates candidates, Way way, absl::string_view hello);
  // A server's connection to a client with this `grant`. `server` and `liveness_ms` are the listener's.
  TcpConnection(ConnectionHost* host, UniqueFd socket, std::shared_ptr<ReadGrant> grant, ReadServer* server,
                absl::string_view welcome, int64_t liveness_ms);
  ~TcpConnection() override;
  void Begin();

  // Connection:
  bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) override;
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t, uint64_t*, uint64_t, uint32_t, uint64_t) override { return false; }
  bool PostCompareSwap(uint64_t, uint64_t*, uint64_t, uint32_t, uint64_t, uint64_t) override { return false; }
  void SetReceiving(bool receiving) override;
  void Ring() override;
  void Disconnect() override;
  bool alive() const override { return state_ == State::kConnected; }
  absl::Status Grant(bool atomics) override;
  std::string server_address() const override { return server_address_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return welcome_; }
  absl::Status status() const override { return dials() ? dialing_->Pending() : status_; }
  std::string peer() const override { return peer_; }

  // For the endpoint:
  size_t Poll(absl::Span<Completion> out, ReceiveArena* arena);
  // Returns whether Poll() has work although the sockets are silent.
  bool unfinished() const;
  // Called once in kTickMs.
  void Tick(int64_t now_ns);
  // Returns whether Tick() is needed: an event is awaited that may never happen.
  bool ticks() const { return dialing() || posted_ != completed_; }
  // See Endpoint::LeaveToParent(): the sockets are not shut down.
  void LeaveToParent();
  // Returns whether this is a client's, with no connected socket yet.
  bool dials() const { return dialing_ != nullptr; }
  // A buffer of this side was freed.
  void OnFreed(const char* begin, const char* end);

  void OnEvent(bool of_reads) { (of_reads ? reads_ready_ : messages_ready_) = true; }

  // Returns the processor that the peer last sent from, as ThisProcessor() counts; 0: unknown. Asks the kernel at most
  // once after each arrival.
  uint32_t peer_processor();

  // Marks of the endpoint.
  bool waits_turn = false;
  bool active = false;  // it sent something since this side last slept

 private:
  enum class State : uint8_t {
    kDialing,    // the name is looked up, or no first socket is connected yet
    kGreeting,   // hello was sent
    kReturning,  // welcomed; the second socket is not connected yet
    kAttaching,  // the ticket was sent
    kConnected,
    kEnding,  // posted work is flushed, and kDisconnected must be delivered
    kEnded,
  };
  struct Read {
    uint64_t wr_id;
    uint32_t bytes;
    Sge to[kMaxReadSges];
  };

  // States are in the order of a connection's life.
  bool dialing() const { return state_ < State::kConnected; }
  bool over() const { return state_ > State::kConnected; }
  bool client() const { return grant_ == nullptr; }
  // The channel over which this side asks for READs.
  Channel& asking() { return client() ? reads_ : messages_; }

  void ContinueDialing();
  void ContinueReturning();
  absl::Status Unreachable(int error) const;
  bool MayTakeFrom(const Channel& channel);
  size_t PollChannel(Channel* channel, bool receive, absl::Span<Completion> out, ReceiveArena* arena);
  // Each returns whether `*done` must be delivered.
  bool Handle(const Channel& channel, const Frame& frame, Completion* done);
  bool HandleGreeting(const Frame& frame, Completion* done);
  bool OnMessage(const Frame& frame, Completion* done);
  bool OnData(absl::string_view bytes, Completion* done);
  void OnTaken(uint64_t taken);
  void OnWelcome(absl::string_view payload);
  void OnRead(const ReadOrder& order);
  size_t DeliverKept(absl::Span<Completion> out, ReceiveArena* arena);
  void SendConsumed();
  size_t End(absl::Span<Completion> out);
  // `oldest`: the result of the oldest incomplete READ.
  void Break(const absl::Status& status, WcStatus oldest = WcStatus::kFlushed);
  void BreakWith(const Channel& channel);  // the channel has ended
  void BreakOff(absl::string_view what);   // the peer breaks the protocol
  void CloseSockets();
  void Watch();
  void WatchAttempts();

  ConnectionHost* const host_;
  const std::shared_ptr<ReadGrant> grant_;  // only a server's
  ReadServer* const server_ = nullptr;
  Way way_;
  std::string hello_;
  std::string welcome_;
  std::string server_address_;
  std::string peer_;
  absl::Status status_;
  Capabilities capabilities_;
  State state_;
  std::unique_ptr<Dialing> dialing_;  // in kDialing
  bool receiving_ = true;
  bool of_this_host_ = false;
  bool processor_known_ = false;  // valid since the last arrival
  uint32_t processor_ = 0;

  Channel messages_;
  Channel reads_;                // a client's second
  bool messages_ready_ = false;  // something arrived
  bool reads_ready_ = false;
  uint32_t messages_watched_ = 0;
  uint32_t reads_watched_ = 0;

  // Messages, numbered from the first: taken <= sent <= taken + kWindow, each way.
  uint64_t sent_ = 0;
  uint64_t taken_by_peer_ = 0;
  bool refused_message_ = false;  // for lack of room
  uint64_t received_ = 0;
  uint64_t taken_ = 0;
  uint64_t reported_ = 0;
  Bytes kept_;  // frames of messages that arrived while receiving was off

  // READs of this side: completed <= posted <= completed + kSendDepth.
  std::unique_ptr<Read[]> posted_reads_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint32_t fetched_ = 0;                         // bytes of the oldest
  WcStatus oldest_status_ = WcStatus::kFlushed;  // of the oldest, at the end
  // For Tick(): received bytes, now and at the previous tick.
  uint64_t progress_ = 0;
  uint64_t last_progress_ = 0;
  int64_t stalled_ticks_ = 0;

  Answer answer_;  // to a READ of the peer
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_CONNECTION_H_
