// One connection of the shm backend, on either side.
//
// A READ is a copy out of this process's own mapping of the peer's memory: posting checks bounds and prefetches,
// ringing copies, polling reports. Messages go through rings (ring.h), everything else over the Unix socket (packet.h),
// whose end of file is the end of the connection.
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

// What a connection needs of its endpoint. Called on the slow paths only, but for processor().
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;

  // OnEvent() is to be called when the socket is readable, or writable where `writing`. False: no memory for it.
  virtual bool Watch(int socket, ShmConnection* connection, bool writing) = 0;
  virtual void Unwatch(int socket) = 0;

  // Poll() is to be called again.
  virtual void PollAgain(ShmConnection* connection) = 0;

  // Nothing uses it any more.
  virtual void Unmap(Mapping mapping) = 0;

  virtual void Forget(ShmConnection* connection) = 0;
  virtual const BufferRegistry& buffers() const = 0;

  // The one that its thread ran on lately, as ThisProcessor() counts. Called on the hot path.
  uint32_t processor() const { return processor_; }

 protected:
  uint32_t processor_ = 0;
};

class ShmConnection final : public Connection {
 public:
  // A client's; Step() brings it to life.
  ShmConnection(ConnectionHost* host, std::unique_ptr<Dialer> dialer);
  // A server's, accepted.
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

  // Goes on with the handshake. REQUIRES: dialing().
  bool dialing() const { return dialer_ != nullptr; }
  int64_t due_ns() const { return dialer_->due_ns(); }
  void Step(int64_t now_ns);

  // The socket has something to say.
  void OnEvent();

  // Completions, up to out.size(); messages go to the arena as long as it has room.
  size_t Poll(absl::Span<Completion> out, ReceiveArena* arena);

  // Poll() would return something, as far as this side's memory and the rings tell.
  bool Ready();

  // Asks the peer to wake this side from now on, or not any more. A seq_cst fence and Ready() come after true.
  void SetSleeping(bool sleeping);

  // A buffer of this side came or went.
  void Offer(const BufferRegistry::Entry& entry);
  void Withdraw(uint32_t rkey);

  // Whether the endpoint polls it, and for how many polls it was silent.
  bool polled = false;
  uint32_t silent_polls = 0;
  // Whether it brought something since the endpoint last slept.
  bool heard = false;
  // That of the peer's thread, lately, when it last sent something, as ThisProcessor() counts; untrusted.
  uint32_t peer_processor() const { return link_.segment.ok() ? producer_.processor() : 0; }

 private:
  enum class State : uint8_t {
    kDialing,
    kWelcomed,  // kConnected is to be delivered
    kConnected,
    kBroken,  // what was posted is to be reaped, messages that had arrived are to be delivered, then kDisconnected
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
  bool deliver_messages_ = false;  // kBroken: the ring may hold messages that came before the end
  bool peer_closed_ = false;       // the peer closed the socket, or is dead
  size_t undelivered_ = 0;         // at most so many
  WorkQueue work_;
  RingConsumer consumer_;
  RingProducer producer_;
  Link link_;
  UniqueFd lingering_;  // the socket, while the peer may still be within an atomic: tells when it dies
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
  // Where the last message of this turn may begin.
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
