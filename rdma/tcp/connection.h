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
#include "rdma/host/ip_address.h"
#include "rdma/tcp/channel.h"
#include "rdma/tcp/frame.h"
#include "rdma/tcp/limits.h"
#include "rdma/tcp/read_server.h"
#include "rdma/tcp/receive_arena.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {

class TcpConnection;

// What a connection asks of its endpoint.
class ConnectionHost {
 public:
  // Waits for `wanted` of the socket (EPOLLIN, EPOLLOUT, not neither). `watched`: what epoll waits for already, 0
  // before the first time. False without memory for it.
  virtual bool Watch(int socket, TcpConnection* connection, bool of_reads, uint32_t wanted, uint32_t* watched) = 0;
  // Before it is closed: a child of a fork() may hold it still.
  virtual void Unwatch(int socket) = 0;
  // An answer is waited for from now on.
  virtual void OnPosted() = 0;
  // It has something to do though no socket may say so.
  virtual void PollAgain(TcpConnection* connection) = 0;
  // A message fits that did not before.
  virtual void OnRoom() = 0;
  virtual void Forget(TcpConnection* connection) = 0;
  // Of all its connections.
  virtual SpareMemory* spare() = 0;
  // Of a buffer that peers may READ; null when there is none such, or it does not reach so far.
  virtual const char* Find(const ReadOrder& order) = 0;

 protected:
  ~ConnectionHost() = default;
};

// A client's way to a server.
struct Way {
  SocketAddress address;
  std::string shown;  // as the user wrote it
  int64_t liveness_ms = 0;
  int64_t until_ns = 0;
};

class TcpConnection final : public Connection {
 public:
  // A client's, which begins to connect with Begin().
  TcpConnection(ConnectionHost* host, Way way, absl::string_view hello);
  // A server's, of a client that is granted what `grant` says. `server` and `liveness_ms` are the listener's.
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
  absl::Status status() const override { return status_; }
  std::string peer() const override { return peer_; }

  // For the endpoint:
  size_t Poll(absl::Span<Completion> out, ReceiveArena* arena);
  // Poll() would do something, though the sockets are silent.
  bool unfinished() const;
  // Once in kTickMs.
  void Tick(int64_t now_ns);
  // Whether Tick() is to come: something is waited for that may never come.
  bool ticks() const { return dialing() || posted_ != completed_; }
  // A buffer of this side is gone.
  void OnFreed(const char* begin, const char* end);

  void OnEvent(bool of_reads) { (of_reads ? reads_ready_ : messages_ready_) = true; }

  // Where the peer was when it last sent something, as ThisProcessor() counts; 0: who knows. Asks the kernel once after
  // each time that something came.
  uint32_t peer_processor();

  // The endpoint's marks.
  bool waits_turn = false;
  bool heard = false;  // it sent something since this side last slept

 private:
  enum class State : uint8_t {
    kDialing,    // the first socket is not connected yet
    kGreeting,   // hello was said
    kReturning,  // it was welcomed; the second socket is not connected yet
    kAttaching,  // the ticket was shown
    kConnected,
    kEnding,  // what was posted is flushed, and kDisconnected is to be told
    kEnded,
  };
  struct Read {
    uint64_t wr_id;
    uint32_t bytes;
    Sge to[kMaxReadSges];
  };

  // State is in the order of a life.
  bool dialing() const { return state_ < State::kConnected; }
  bool over() const { return state_ > State::kConnected; }
  bool client() const { return grant_ == nullptr; }
  // Where this side asks for READs.
  Channel& asking() { return client() ? reads_ : messages_; }

  void ContinueDialing();
  bool MayTakeFrom(const Channel& channel);
  size_t PollChannel(Channel* channel, bool receive, absl::Span<Completion> out, ReceiveArena* arena);
  // Each returns whether `*done` is to be delivered.
  bool Handle(const Channel& channel, const Frame& frame, Completion* done);
  bool HandleGreeting(const Frame& frame, Completion* done);
  bool OnMessage(const Frame& frame, Completion* done);
  bool OnData(absl::string_view bytes, Completion* done);
  void OnTaken(uint64_t taken);
  void OnWelcome(absl::string_view payload);
  void OnRead(const ReadOrder& order);
  size_t DeliverKept(absl::Span<Completion> out, ReceiveArena* arena);
  void TellTaken();
  size_t End(absl::Span<Completion> out);
  // `oldest`: how the oldest READ that is not complete ends.
  void Break(const absl::Status& status, WcStatus oldest = WcStatus::kFlushed);
  void BreakWith(const Channel& channel);  // which has ended
  void BreakOff(absl::string_view what);   // the peer breaks the protocol
  void CloseSockets();
  void Watch();

  ConnectionHost* const host_;
  const std::shared_ptr<ReadGrant> grant_;  // of a server's
  ReadServer* const server_ = nullptr;
  Way way_;
  std::string hello_;
  std::string welcome_;
  std::string server_address_;
  std::string peer_;
  absl::Status status_;
  Capabilities capabilities_;
  State state_;
  bool receiving_ = true;
  bool of_this_host_ = false;
  bool processor_known_ = false;  // since something came
  uint32_t processor_ = 0;

  Channel messages_;
  Channel reads_;                // a client's second
  bool messages_ready_ = false;  // something came
  bool reads_ready_ = false;
  uint32_t messages_watched_ = 0;
  uint32_t reads_watched_ = 0;

  // Messages, numbered from the first on: taken <= sent <= taken + kWindow, each way.
  uint64_t sent_ = 0;
  uint64_t taken_by_peer_ = 0;
  bool refused_message_ = false;  // for want of room
  uint64_t received_ = 0;
  uint64_t taken_ = 0;
  uint64_t told_ = 0;
  Bytes kept_;  // frames of messages that came while they were not received

  // READs of this side: completed <= posted <= completed + kSendDepth.
  std::unique_ptr<Read[]> posted_reads_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint32_t fetched_ = 0;                         // bytes of the oldest
  WcStatus oldest_status_ = WcStatus::kFlushed;  // of the oldest, at the end
  // For Tick(): bytes that came, then and until the tick before.
  uint64_t progress_ = 0;
  uint64_t last_progress_ = 0;
  int64_t stalled_ticks_ = 0;

  Answer answer_;  // to a READ of the peer's
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_CONNECTION_H_
