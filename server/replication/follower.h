// The connection of a backup to its primary, or of a group that takes slots to the giving group's primary. It connects
// like a client, with authentication if required, and sends from which record it follows. It passes batches to the
// Backup, or SlotImporter, and sends what that accepted. The other end: replication_feed.h.
//
// Driven by Poll(): it has no thread and no clock, and never blocks. It connects once; its owner makes a new Follower
// for another attempt.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_REPLICATION_FOLLOWER_H_
#define FARLOOK_SERVER_REPLICATION_FOLLOWER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kv/wire/handshake.h"
#include "kv/wire/room.h"
#include "rdma/transport.h"
#include "server/replication/record_sink.h"
#include "server/replication/replication_feed.h"

namespace farlook::server {

class Follower {
 public:
  // Identity of the follower, and what it follows.
  struct Identity {
    uint64_t replica = 0;  // its incarnation
    uint64_t primary = 0;  // the primary's incarnation: any other process at its address is refused
    uint64_t epoch = 0;
    std::string user = {}, secret = {};  // used if the primary requires authentication
    std::string address = {};            // of a joiner
    uint64_t move = 0;                   // if it takes slots: see kv::Follow
    std::string taker = {};
    uint64_t max_value_bytes = 0, memory_bytes = 0;  // of a joiner: see kv::Follow
    kv::Mac users = {};
  };
  // All arguments outlive it.
  Follower(rdma::Endpoint* endpoint, RecordSink* sink, Identity me)
      : endpoint_(endpoint), sink_(sink), me_(std::move(me)) {}
  // For a joiner: calls `make` with the primary's answer, which contains the record from which it receives all others.
  Follower(rdma::Endpoint* endpoint, std::function<RecordSink*(const kv::Follow& answer)> make, Identity me)
      : endpoint_(endpoint), make_(std::move(make)), me_(std::move(me)) {}
  ~Follower() = default;
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Begins to connect. REQUIRES that it is called only once.
  absl::Status Dial(absl::string_view address, int64_t timeout_ms);

  // Handles received messages, and sends acceptances. Returns the number of things done.
  size_t Poll();

  // Makes the next Poll() send a ping to the primary, as soon as it follows. An idle follower is silent otherwise: the
  // next call comes within `again`, which the primary is told.
  void Ping(absl::Duration again) {
    ping_ = true;
    silence_ms_ = static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(again), 1, 1u << 31));
  }
  // Asks the primary to remove this backup from the group.
  void Leave() { leaves_ = true; }
  // Returns whether anything was received from the primary's process since the last call.
  bool TakeReceived() { return std::exchange(received_, false); }

  // Returns whether the primary has admitted it.
  bool follows() const { return state_ == State::kFollows; }
  // Returns whether the connection is closed, or could not be opened; status() contains the reason.
  bool over() const { return state_ == State::kOver; }
  // The reason of the end. From RecordSink::Take(): shows whether to connect again helps. From the primary:
  // PERMISSION_DENIED if it does not accept this backup. From the transport: UNAVAILABLE.
  const absl::Status& status() const { return status_; }
  // The group's record, if the primary's refusal has it: then the primary has another epoch. Revision 0: there is none.
  const RecordSource::Known& refused_with() const { return refused_with_; }

 private:
  static constexpr size_t kBatch = 64;

  enum class State : uint8_t { kConnecting, kSentHello, kSentFollow, kFollows, kOver };

  void OnConnected();
  void OnMessage(absl::string_view message);
  void OnWelcome(absl::string_view message);
  void OnChallenge(absl::string_view message);
  void OnAnswer(absl::string_view message);
  void OnBatch(absl::string_view piece);
  // Sets the next message, which is sent as soon as the transport takes it.
  void Send(std::string message) { to_send_ = std::move(message); }
  void Fail(absl::Status status);
  bool SendAccepted();

  rdma::Endpoint* const endpoint_;
  RecordSink* sink_ = nullptr;
  const std::function<RecordSink*(const kv::Follow& answer)> make_;
  const Identity me_;
  std::unique_ptr<rdma::Connection> connection_;
  State state_ = State::kConnecting;
  kv::AcceptData accept_;
  std::string hello_;                // the Hello that it sent
  std::optional<kv::Mac> expected_;  // the proof expected from the primary, after this side has sent its own
  std::string to_send_;              // until the transport takes it
  std::string batch_;                // a batch that is not complete yet
  uint64_t reported_ = 0;            // last acceptance that was sent
  kv::Room reported_room_;           // and the room with it
  bool ping_ = false;                // send an acceptance that the primary answers
  uint32_t silence_ms_ = 0;          // see Ping()
  bool leaves_ = false;
  bool reported_leaves_ = false;  // sent over this connection
  bool received_ = false;
  absl::Status status_;
  RecordSource::Known refused_with_;
  std::array<rdma::Completion, kBatch> completions_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_FOLLOWER_H_
