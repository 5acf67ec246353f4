// One connection of the verbs backend, on either side: a queue pair, and the connection manager's id that brought it
// about and tells of its end.
//
//     client   kDialing -> kWelcomed -> kConnected -+-> kEnding -> kOver
//     server               kConnected --------------+
//
// Ending has two phases. First the queue pair is put in the error state, and what the device has is flushed. When all
// of that has come, the queue pair is destroyed; then nothing of the peer can arrive any more, and what is left is
// reported, and kDisconnected.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/completion_queues.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/flow_control.h"
#include "rdma/verbs/liveness.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/queue_pair.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/verbs/send_queue.h"

namespace farlook::rdma::verbs {

class VerbsConnection;

// A queue pair and what it needs to live. Members are destroyed from the last to the first.
struct PairParts {
  CmId id;
  uint32_t window = 0;
  ibv_cq* completions = nullptr;
  uint32_t completion_entries = 0;
  std::unique_ptr<QueuePairEvents> events = std::make_unique<QueuePairEvents>();
  QueuePair pair;
  std::vector<uint32_t> slots;  // posted to a receive queue of its own
  bool over = false;            // for the endpoint: the attempt to connect ended
};

// What a connection needs of its endpoint.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;

  virtual const Device& device() const = 0;
  virtual CompletionQueues& completions() = 0;
  virtual ReceiveQueue& receives() = 0;
  virtual AsyncSink* sink() = 0;
  // The word that the peer may READ.
  virtual RemoteRange probe_word() const = 0;

  // Advance() is to be called by the next Poll().
  virtual void List(VerbsConnection* connection) = 0;
  // Announce() or End() is to be called by the next Poll().
  virtual void Attend(VerbsConnection* connection) = 0;
  // There is room again after a post was refused: a sleeper is to wake up.
  virtual void RoomReturned() = 0;
  // Looks at the connection manager's events now.
  virtual void LookAtEvents() = 0;
  virtual void OnDeviceRemoved() = 0;
  // The way to the peer of `connection` does not lead through the device any more.
  virtual void OnDeviceUnfit(const VerbsConnection* connection) = 0;

  // The queue pair with this number is made, and is destroyed.
  virtual void Enter(uint32_t pair_number, VerbsConnection* connection) = 0;
  virtual void Leave(uint32_t pair_number, VerbsConnection* connection) = 0;
  virtual void Forget(VerbsConnection* connection) = 0;
  // Destroys the id of a connection that ended, whose peer is told so if it does not know, when that may be. `failed`:
  // a request failed, as when the port goes down.
  virtual void Dismiss(CmId id, bool failed) = 0;
  // Keeps what is still connecting, and cannot be destroyed without waiting, until the attempt ends.
  virtual void Park(PairParts parts) = 0;
};

class VerbsConnection final : public Connection {
 public:
  // `tag` names the connection among those of its endpoint.
  VerbsConnection(ConnectionHost* host, const SendResources& resources, Role role, uint32_t tag);
  ~VerbsConnection() override;

  // Connection:
  bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) override;
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override;
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override;
  void Ring() override { Issue(); }
  void Disconnect() override;
  bool alive() const override { return state_ == State::kConnected; }
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return welcome_; }
  absl::Status status() const override { return status_; }
  std::string peer() const override { return peer_; }

  // ---- Beginning.

  // A client's: dials `remote`. What goes wrong shows as kDisconnected.
  void Dial(rdma_event_channel* channel, const SocketAddress& remote, std::string shown, absl::string_view hello,
            int64_t timeout_ms, int64_t deadline_ns);
  bool dialing() const { return state_ == State::kDialing; }
  int64_t deadline_ns() const { return deadline_ns_; }
  void TimeOut();

  // A server's: accepts the client behind `id`, whose events come to this connection from now on. An error: it is
  // rejected, and the connection is of no use.
  absl::Status Accept(CmId id, const Envelope& client, const ReadDepths& depths, absl::string_view welcome,
                      bool grant_atomics);

  // ---- For the endpoint.

  void OnCmEvent(const rdma_cm_event& event);
  void Tick();
  // An asynchronous event of the queue pair, if there was one, or of all queues.
  void CheckAsync();
  void QueuesLost(absl::string_view why);

  // A completion of something that this side posted. True: `*done` is for the user.
  bool OnCompletion(const ibv_wc& wc, Completion* done);
  // A message, or what failed of it. True: `*done` is for the user, who has the slot until the next Poll.
  bool OnReceive(const ibv_wc& wc, const char* slot, Completion* done);
  // A message's slot was posted again.
  void Reposted();
  // The slot is of the queue pair's own receive queue no more, as the user still has it.
  void Disown(uint32_t slot);
  ibv_qp* own_receives() const { return receives_open_ ? parts_.pair.get() : nullptr; }

  // Sends what waits to be sent; false when there is nothing more of it.
  bool Advance();

  // kConnected, if it is to be delivered.
  size_t Announce(absl::Span<Completion> out);
  bool ending() const { return state_ == State::kEnding; }
  bool over() const { return state_ == State::kOver; }
  // Reports the end. REQUIRES: ending(). Everything that had arrived before the end was delivered.
  size_t End(absl::Span<Completion> out, int64_t now_ns);

  const uint32_t tag;
  bool listed = false;       // see ConnectionHost
  uint64_t attended_at = 0;  // the number of the endpoint's Poll

 private:
  enum class State : uint8_t { kDialing, kWelcomed, kConnected, kEnding, kOver };

  void ResolveAddress();
  void OnDialEvent(const rdma_cm_event& event);
  void OnRoute();
  void OnAnswer(const rdma_cm_event& event);
  void OnReject(const rdma_cm_event& event);
  absl::Status MakePair(bool grant_atomics);
  rdma_conn_param Parameters(absl::string_view private_data, const ReadDepths& depths) const;
  void Agree(const Envelope& peer, const ReadDepths& depths);
  bool PostAtomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                  uint64_t operand, uint64_t desired);
  void Listed();
  void Issue();
  // Something waits for room, or makes no sense, or the device has not taken it.
  void IssuedInPart(bool taken);
  void BreakBy(ibv_wc_status status);
  void Break(absl::Status status, bool deliver_messages);
  void HangUp();
  void DestroyPair();

  ConnectionHost* const host_;
  const Role role_;
  State state_;
  bool held_ = true;              // nothing is issued before the handshake is complete on both sides
  bool wants_room_ = false;       // a PostSend failed
  bool receives_open_ = false;    // the queue pair has a receive queue of its own
  bool deliver_messages_ = true;  // that had arrived before the end
  bool connecting_ = false;       // a client's attempt is with the connection manager
  bool failed_ = false;           // the queue pair broke by itself
  bool handshaking_ = false;      // the connection manager knows the peer
  Envelope peer_words_;
  SendQueue send_;
  FlowControl flow_;
  Liveness liveness_;
  uint32_t held_ticks_ = 0;
  Capabilities capabilities_;
  QueuePlan plan_;

  PairParts parts_;

  std::string shown_;     // the address dialed
  SocketAddress remote_;  // the same
  std::string hello_;
  int64_t timeout_ms_ = 0;
  int64_t deadline_ns_ = 0;  // of dialing, then of draining
  std::string welcome_;
  std::string peer_;
  absl::Status status_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_H_
