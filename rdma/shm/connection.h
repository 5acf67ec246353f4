// One connection of the shm backend, on either side.
//
// A READ is a copy out of this process's own mapping of the peer's memory: posting checks bounds and prefetches,
// ringing copies, polling reports. Messages use rings (ring.h). Everything else uses the Unix socket (packet.h), whose
// end of file ends the connection.
#ifndef FARLOOK_RDMA_SHM_CONNECTION_H_
#define FARLOOK_RDMA_SHM_CONNECTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/buffer_registry.h"
#include "rdma/shm/dialer.h"
#include "rdma/shm/limits.h"
#include "rdma/shm/link.h"
#include "rdma/shm/notice_queue.h"
#include "rdma/shm/receive_arena.h"
#include "rdma/shm/ring.h"
#include "rdma/shm/segment.h"
#include "rdma/shm/work_queue.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

class ShmConnection;

// Services that a connection needs of its endpoint. Called on the slow paths only, except processor().
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;

  // From now on OnEvent() is called when the socket is readable, or writable if `writing`. Returns false if there is no
  // memory for that.
  virtual bool Watch(int socket, ShmConnection* connection, bool writing) = 0;
  virtual void Unwatch(int socket) = 0;

  // Poll() must be called again.
  virtual void PollAgain(ShmConnection* connection) = 0;

  // Nothing uses the mapping any more.
  virtual void Unmap(Mapping mapping) = 0;

  virtual void Forget(ShmConnection* connection) = 0;
  virtual const BufferRegistry& buffers() const = 0;

  // The processor that its thread ran on recently, as ThisProcessor() counts. Called on the hot path.
  uint32_t processor() const { return processor_; }

 protected:
  uint32_t processor_ = 0;
};

class ShmConnection final : public Connection {
 public:
  // A client's connection; Step() establishes it.
  ShmConnection(ConnectionHost* host, std::unique_ptr<Dialer> dialer);
  // A server's connection, already accepted.
  ShmConnection(ConnectionHost* host, Link link);
  ~ShmConnection() override;

  // Connection:
  bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) override;
  const char* Mapped(uint64_t remote_address, uint64_t bytes, uint32_t rkey) override;
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostSendAndRing(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override;
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override;
  void SetReceiving(bool receiving) override;
  void Ring() override;
  void Disconnect() override;
  bool alive() const override;
  bool quiescent() override;
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return link_.welcome; }
  absl::Status status() const override { return status_; }
  std::string peer() const override { return link_.peer; }

  // For the endpoint.

  // Continues the handshake. REQUIRES: dialing().
  bool dialing() const { return dialer_ != nullptr; }
  int64_t due_ns() const { return dialer_->due_ns(); }
  void Step(int64_t now_ns);

  // The socket has an event.
  void OnEvent();

  // Returns completions, up to out.size(); copies messages to the arena as long as it has room.
  size_t Poll(absl::Span<Completion> out, ReceiveArena* arena);

  // Returns whether Poll() would return something, according to this side's memory and the rings.
  bool Ready();

  // Asks the peer to wake this side from now on, or no longer. After true, the caller executes a seq_cst fence and
  // calls Ready().
  void SetSleeping(bool sleeping);

  // See Endpoint::LeaveToParent(): neither the socket nor the rings are touched.
  void LeaveToParent();

  // A buffer of this side was added or removed.
  void Offer(const BufferRegistry::Entry& entry);
  void Withdraw(uint32_t rkey);

  // Set if the endpoint polls the connection, and the number of polls for which it was silent.
  bool polled = false;
  uint32_t silent_polls = 0;
  // Set if it delivered something since the endpoint last slept.
  bool active = false;
  // The processor that the peer's thread ran on when it last sent something, as ThisProcessor() counts; untrusted.
  uint32_t peer_processor() const { return link_.segment.ok() ? producer_.processor() : 0; }

 private:
  enum class State : uint8_t {
    kDialing,
    kWelcomed,  // kConnected must be delivered
    kConnected,
    kBroken,  // posted work must be reaped, messages that had arrived must be delivered, then kDisconnected
    kOver,
  };
  WorkRequest* NextRequest();
  bool PostAtomic(Opcode opcode, uint64_t wr_id, uint64_t remote_address, uint32_t rkey, WorkRequest::Atomic atomic);
  char* Resolve(uint32_t rkey, uint64_t offset, uint64_t bytes, Access access);
  char* ResolveSlow(uint32_t rkey, uint64_t offset, uint64_t bytes, Access access);
  void Execute();
  void ExecuteOne(WorkRequest& request);
  bool EnterGate(WorkRequest& request);
  void RingBell();
  void RingBellHere();
  bool Send(absl::string_view head, absl::string_view body);
  void Wake();
  size_t Reap(absl::Span<Completion> out);
  size_t ReceiveMessages(absl::Span<Completion> out, ReceiveArena* arena);
  size_t PollSlow(absl::Span<Completion> out, size_t count, ReceiveArena* arena);
  void Establish();
  bool ReceiveOnePacket();
  bool FlushNotices();
  void PeerIsGone();
  void BreakBy(WcStatus status);
  void BreakByMalformedMessage();
  void Break(absl::Status status, bool deliver_messages);
  void CloseSocket();

  ConnectionHost* const host_;
  State state_;
  bool is_client_;
  bool receiving_ = true;
  bool sent_since_ring_ = false;
  bool owes_wake_ = false;         // the peer sleeps, and could not be woken
  bool wants_room_ = false;        // a PostSend failed
  bool watches_writing_ = false;   // of the socket
  bool deliver_messages_ = false;  // kBroken: the ring may hold messages that arrived before the end
  bool peer_closed_ = false;       // the peer closed the socket, or is dead
  size_t undelivered_ = 0;         // an upper bound
  WorkQueue work_;
  RingConsumer consumer_;
  RingProducer producer_;
  Link link_;
  UniqueFd lingering_;  // the socket, while the peer may still be within an atomic: reports its death
  std::unique_ptr<Dialer> dialer_;
  Capabilities capabilities_;
  NoticeQueue notices_;
  absl::Status status_;
};

// Here, and inline in the endpoint's Poll(), which calls nothing else for each connection.
[[gnu::always_inline]] inline size_t ShmConnection::Poll(absl::Span<Completion> out, ReceiveArena* arena) {
  size_t count = 0;
  if (!work_.empty()) {
    if (!work_.all_executed()) Execute();
    count = Reap(out);
  }
  if (sent_since_ring_) RingBell();
  if (ABSL_PREDICT_FALSE(state_ != State::kConnected)) return PollSlow(out, count, arena);
  return count + ReceiveMessages(absl::MakeSpan(out.data() + count, out.size() - count), arena);
}

[[gnu::always_inline]] inline size_t ShmConnection::ReceiveMessages(absl::Span<Completion> out, ReceiveArena* arena) {
  if (ABSL_PREDICT_FALSE(!receiving_)) return 0;
  const size_t most = std::min(out.size(), kMessagesPerTurn);
  char* room = arena->room();
  // Last position at which a message of this turn may begin.
  const char* const last = room + std::min<std::ptrdiff_t>(arena->last() - room, kBytesPerTurn - 1);
  size_t count = 0;
  while (count < most && room <= last) {
    size_t bytes;
    const Received received = consumer_.Receive(room, &bytes);
    if (ABSL_PREDICT_TRUE(received == Received::kNothing)) break;
    if (ABSL_PREDICT_FALSE(received == Received::kMalformed)) {
      BreakByMalformedMessage();
      break;
    }
    Completion& completion = out[count++];
    completion.wr_id = 0;
    completion.connection = this;
    completion.opcode = Opcode::kReceive;
    completion.status = WcStatus::kSuccess;
    completion.message = absl::MakeConstSpan(room, bytes);
    room += RingConsumer::RoomFor(bytes);
  }
  arena->TakeTo(room);
  if (count > 0 && ABSL_PREDICT_FALSE(consumer_.PublishHead()) && link_.socket.ok()) Wake();
  return count;
}

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_CONNECTION_H_
