// One connection of the verbs backend, on either side, as its user sees it. Three objects use its queue pair in turn:
//
//     Dialing, AcceptClient()  ->  LiveConnection  ->  EndingConnection
//     (handshake.h)                (live_connection.h)  (ending_connection.h)
//
// This class knows the present one, and the reason of the end:
//
//     client   kDialing -> kWelcomed -> kConnected -+-> kEnding -> kOver
//     server               kConnected --------------+
//
// They call only the device (endpoint_device.h); this class acts on what they report. Work for the endpoint is put on
// the lists of ConnectionTable.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/candidates.h"
#include "rdma/transport.h"
#include "rdma/verbs/connection/connection_table.h"
#include "rdma/verbs/connection/ending_connection.h"
#include "rdma/verbs/connection/endpoint_device.h"
#include "rdma/verbs/connection/handshake.h"
#include "rdma/verbs/connection/live_connection.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/pair.h"
#include "rdma/verbs/handshake/envelope.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/queues/send_queue.h"

namespace farlook::rdma::verbs {

class VerbsConnection final : public Connection {
 public:
  // Table and device are its endpoint's, and must outlive it.
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
  absl::Status status() const override { return dialing() ? Pending() : status_; }
  std::string peer() const override { return peer_; }
  absl::Status Grant(bool atomics) override;
  void Granted() override;
  std::string server_address() const override { return server_address_; }

  // ---- Beginning.

  // For a client: dials the candidates, one after the other. Each has its share of the time until `deadline_ns`. If all
  // fail, kDisconnected is delivered.
  void Dial(rdma_event_channel* channel, Candidates candidates, absl::string_view hello, int64_t deadline_ns);
  bool dialing() const { return state_ == State::kDialing; }
  // The name may have resolved.
  void OnAnswered(int64_t now_ns);
  // Time at which GoOnDialing() is due, which begins another attempt, or ends the connection at its deadline. REQUIRES:
  // dialing().
  int64_t due_ns() const;
  void GoOnDialing(int64_t now_ns);
  // Returns whether this was a client's, and each of the server's addresses would have needed another device.
  bool device_unfit() const {
    return over() && search_ != nullptr && search_->unfit > 0 && search_->unfit == search_->reasons.size();
  }

  // For a server: accepts the client of `id`, whose events arrive at this connection from now on. On an error it is
  // rejected, and the connection is unusable.
  absl::Status Accept(CmId id, const Envelope& client, const ReadDepths& depths, absl::string_view welcome,
                      const Terms& terms);

  // ---- For the endpoint.

  void OnCmEvent(const rdma_cm_event& event);
  void Tick();
  // Returns whether the device reported that the queue pair failed. Then CheckAsync() is due, after the connection
  // manager's events, which may contain a better reason.
  bool pair_failed() const { return pair_.events->failed.load(std::memory_order_relaxed) >= 0; }
  void CheckAsync();
  // A queue that all connections share failed, or the device is lost.
  void QueuesLost(absl::string_view why);
  // See ConnectionTable::Suspect().
  void BreakAsFlushed();

  // A request of this side completed. Returns whether `*done` is for the user.
  bool OnCompletion(const ibv_wc& wc, Completion* done) {
    const WcStatus status = ABSL_PREDICT_TRUE(wc.status == IBV_WC_SUCCESS) ? WcStatus::kSuccess : Failed(wc.status);
    done->connection = this;
    done->message = {};
    return live_->OnCompletion(wc, status, done);
  }
  // A message arrived, or a receive failed. Returns whether `*done` is for the user, which has the slot until the next
  // Poll.
  bool OnReceive(const ibv_wc& wc, const char* slot, Completion* done);
  // Returns whether messages that arrive now are kept in their slots: receiving is off, or earlier ones are kept.
  bool keeps_messages() const { return !receiving || kept_messages > 0; }
  // A message's slot was posted again.
  void Reposted();
  // Returns its queue pair, if that has its own receive queue.
  ibv_qp* own_receives() const { return pair_.own_receives ? pair_.queue_pair.get() : nullptr; }

  // Sends waiting requests; returns false if none are left.
  bool Advance();

  // Delivers kConnected, if that is due.
  size_t Announce(absl::Span<Completion> out);
  bool ending() const { return state_ == State::kEnding; }
  bool over() const { return state_ == State::kOver; }
  // Reports the end. REQUIRES: ending(). All that had arrived before the end was delivered.
  size_t End(absl::Span<Completion> out, int64_t now_ns);

  const uint32_t tag;
  bool listed = false;       // for ConnectionTable
  uint64_t attended_at = 0;  // the number of the Poll()
  bool receiving = true;
  uint32_t kept_messages = 0;  // in ConnectionTable::kept

 private:
  enum class State : uint8_t { kDialing, kWelcomed, kConnected, kEnding, kOver };

  // A client's search for its server, over the known addresses.
  struct Search {
    rdma_event_channel* channel;
    Candidates candidates;
    std::string hello;
    int64_t deadline_ns;
    std::vector<std::string> reasons = {};  // of the attempts that failed
    size_t unfit = 0;                       // number of them that would have used another device
    absl::StatusCode code = absl::StatusCode::kUnavailable;
    bool goes_on = false;  // the next address is dialed when this attempt's queue pair has been returned
  };

  bool PostAtomic(SendQueue::Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                  uint64_t operand, uint64_t desired);
  void DialNext(int64_t now_ns);
  void BeginAttempt(int64_t now_ns);
  void OnDialEvent(const rdma_cm_event& event);
  absl::Status Pending() const;
  void AttemptFailed(const absl::Status& why, int64_t now_ns);
  void GoLive(const Agreement& agreement);
  void Issue();
  void NotAllIssued(SendQueue::Issued issued);
  WcStatus Failed(ibv_wc_status status);
  void FailedBy(ibv_wc_status status);
  void BreakBy(ibv_wc_status status);
  void Break(absl::Status status, bool deliver_messages);
  void BreakOff(absl::string_view how);
  void Note(absl::string_view how);  // a violation of the protocol
  void DestroyPair();

  ConnectionTable* const table_;
  EndpointDevice* const device_;
  const Role role_;
  State state_;
  bool wants_room_ = false;             // a PostSend failed
  bool deliver_messages_ = true;        // messages that had arrived before the end
  std::optional<LiveConnection> live_;  // from kWelcomed or kConnected on
  std::unique_ptr<Search> search_;      // a client's
  std::optional<Dialing> dialing_;      // once an address is known
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

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_H_
