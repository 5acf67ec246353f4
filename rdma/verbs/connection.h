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
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/connection_table.h"
#include "rdma/verbs/endpoint_device.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/flow_control.h"
#include "rdma/verbs/liveness.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/pair.h"
#include "rdma/verbs/send_queue.h"

namespace farlook::rdma::verbs {

class VerbsConnection final : public Connection {
 public:
  // Table and device are its endpoint's, and outlive it.
  VerbsConnection(ConnectionTable* table, EndpointDevice* device, Role role);
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
  // Whether the device told that the queue pair failed. Then CheckAsync() is due, once the connection manager's events
  // were looked at, which may know better why.
  bool pair_failed() const { return pair_.events->failed.load(std::memory_order_relaxed) >= 0; }
  void CheckAsync();
  // A queue that all connections share failed, or the device is gone.
  void QueuesLost(absl::string_view why);
  // As of ConnectionTable::Suspect().
  void BreakAsFlushed();
  // A client's: the way to the server does not lead through the device any more.
  bool device_unfit() const { return device_unfit_; }

  // A completion of something that this side posted. True: `*done` is for the user.
  bool OnCompletion(const ibv_wc& wc, Completion* done);
  // A message, or what failed of it. True: `*done` is for the user, who has the slot until the next Poll.
  bool OnReceive(const ibv_wc& wc, const char* slot, Completion* done);
  // A message's slot was posted again.
  void Reposted();
  // Its queue pair, if that has a receive queue of its own.
  ibv_qp* own_receives() const { return pair_.own_receives ? pair_.queue_pair.get() : nullptr; }

  // Sends what waits to be sent; false when there is nothing more of it.
  bool Advance();

  // kConnected, if it is to be delivered.
  size_t Announce(absl::Span<Completion> out);
  bool ending() const { return state_ == State::kEnding; }
  bool over() const { return state_ == State::kOver; }
  // Reports the end. REQUIRES: ending(). Everything that had arrived before the end was delivered.
  size_t End(absl::Span<Completion> out, int64_t now_ns);

  const uint32_t tag;
  bool listed = false;       // for ConnectionTable
  uint64_t attended_at = 0;  // the number of the Poll()

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
  void Issue();
  // Something waits for room, or makes no sense, or the device has not taken it.
  void IssuedInPart(bool taken);
  void FailedBy(ibv_wc_status status);
  void BreakBy(ibv_wc_status status);
  void Break(absl::Status status, bool deliver_messages);
  void HangUp();
  void DestroyPair();

  ConnectionTable* const table_;
  EndpointDevice* const device_;
  const Role role_;
  State state_;
  bool held_ = true;              // nothing is issued before the handshake is complete on both sides
  bool wants_room_ = false;       // a PostSend failed
  bool deliver_messages_ = true;  // that had arrived before the end
  bool handshaking_ = false;      // the connection manager knows the peer
  bool device_unfit_ = false;
  Envelope peer_words_;
  SendQueue send_;
  FlowControl flow_;
  Liveness liveness_;
  uint32_t held_ticks_ = 0;
  Capabilities capabilities_;
  QueuePlan plan_;

  Pair pair_;

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
