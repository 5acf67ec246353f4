// One connection of the verbs backend, on either side, as its user has it. Three things take turns at its queue pair:
//
//     Dialing, AcceptClient()  ->  LiveConnection  ->  EndingConnection
//     (handshake.h)                (live_connection.h)  (ending_connection.h)
//
// This is which of them it is now, and why it came to an end:
//
//     client   kDialing -> kWelcomed -> kConnected -+-> kEnding -> kOver
//     server               kConnected --------------+
//
// They call nobody but the device (endpoint_device.h): what follows from what they say is decided here. What the
// endpoint is to do is put on the lists of ConnectionTable.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/connection_table.h"
#include "rdma/verbs/ending_connection.h"
#include "rdma/verbs/endpoint_device.h"
#include "rdma/verbs/envelope.h"
#include "rdma/verbs/handshake.h"
#include "rdma/verbs/live_connection.h"
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
  AtOnce ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey, uint32_t looks) override;
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override;
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override;
  void SetReceiving(bool receiving) override;
  void Ring() override { Issue(); }
  void Disconnect() override;
  bool alive() const override { return state_ == State::kConnected; }
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return welcome_; }
  absl::Status status() const override { return status_; }
  std::string peer() const override { return peer_; }
  absl::Status Grant(bool atomics) override;
  void Granted() override;
  std::string server_address() const override { return server_address_; }

  // ---- Beginning.

  // A client's: dials `remote`. What goes wrong shows as kDisconnected.
  void Dial(rdma_event_channel* channel, const SocketAddress& remote, std::string address, absl::string_view hello,
            int64_t timeout_ms, int64_t deadline_ns);
  bool dialing() const { return state_ == State::kDialing; }
  int64_t deadline_ns() const { return dialing_->deadline_ns(); }
  void TimeOut();
  // A client's: the way to the server does not lead through the device any more.
  bool device_unfit() const { return dialing_.has_value() && dialing_->device_unfit(); }

  // A server's: accepts the client behind `id`, whose events come to this connection from now on. An error: it is
  // rejected, and the connection is of no use.
  absl::Status Accept(CmId id, const Envelope& client, const ReadDepths& depths, absl::string_view welcome,
                      const Terms& terms);

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

  // A completion of something that this side posted. True: `*done` is for the user.
  bool OnCompletion(const ibv_wc& wc, Completion* done) {
    const WcStatus status = ABSL_PREDICT_TRUE(wc.status == IBV_WC_SUCCESS) ? WcStatus::kSuccess : Failed(wc.status);
    done->connection = this;
    done->message = {};
    return live_->OnCompletion(wc, status, done);
  }
  // A message, or what failed of it. True: `*done` is for the user, who has the slot until the next Poll.
  bool OnReceive(const ibv_wc& wc, const char* slot, Completion* done);
  // Whether what arrives now is kept from the user, in its slot: nothing is to be delivered, or not before what is
  // kept.
  bool keeps_messages() const { return !receiving || kept_messages > 0; }
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
  bool receiving = true;
  uint32_t kept_messages = 0;  // in ConnectionTable::kept

 private:
  enum class State : uint8_t { kDialing, kWelcomed, kConnected, kEnding, kOver };

  bool PostAtomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                  uint64_t operand, uint64_t desired);
  void OnDialEvent(const rdma_cm_event& event);
  void GoLive(const Agreement& agreement);
  void Issue();
  void NotAllIssued(SendQueue::Issued issued);
  WcStatus Failed(ibv_wc_status status);
  void FailedBy(ibv_wc_status status);
  void BreakBy(ibv_wc_status status);
  void Break(absl::Status status, bool deliver_messages);
  void DestroyPair();

  ConnectionTable* const table_;
  EndpointDevice* const device_;
  const Role role_;
  State state_;
  bool wants_room_ = false;             // a PostSend failed
  bool deliver_messages_ = true;        // that had arrived before the end
  std::optional<LiveConnection> live_;  // from kWelcomed or kConnected on
  std::optional<Dialing> dialing_;
  std::optional<EndingConnection> ending_;
  Pair pair_;
  Capabilities capabilities_;
  std::string welcome_;
  std::string peer_;
  std::string server_address_;
  Terms terms_;  // a server's
  absl::Status status_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_H_
