// A backup's connection to its primary, or that of another group's primary which takes slots: it comes as a client
// does, and proves who it is where it is asked; it says from where on it follows, hands batches to the Backup, or
// Adopter, and tells what that accepted. The other end: feed.h.
//
// Driven by Poll(); no thread, no clock, no wait. It connects once: who owns it dials again, with another one.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_FOLLOWER_H_
#define FARLOOK_SERVER_FOLLOWER_H_

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
#include "kv/handshake.h"
#include "rdma/transport.h"
#include "server/record_sink.h"

namespace farlook::server {

class Follower {
 public:
  // Who follows.
  struct Identity {
    uint64_t replica = 0;  // its incarnation
    uint64_t primary = 0;  // and that of whom it follows: another process at its address is not listened to
    uint64_t epoch = 0;
    std::string user = {}, secret = {};  // where the primary asks for them
    std::string address = {};            // of one that joins
    uint64_t move = 0;                   // of one that takes slots, as of kv::Follow
    std::string taker = {};
  };
  // All outlive it.
  Follower(rdma::Endpoint* endpoint, RecordSink* sink, Identity me)
      : endpoint_(endpoint), sink_(sink), me_(std::move(me)) {}
  // Of one that joins: `make` is called when the primary has said from where on it hears all, with what it said.
  Follower(rdma::Endpoint* endpoint, std::function<RecordSink*(const kv::Follow& answer)> make, Identity me)
      : endpoint_(endpoint), make_(std::move(make)), me_(std::move(me)) {}
  ~Follower() = default;
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Begins to connect. REQUIRES that it is called once.
  absl::Status Dial(absl::string_view address, int64_t timeout_ms);

  // Takes what came, and tells what was accepted. Returns how many things it did.
  size_t Poll();

  // Asks the primary for a word, where it follows. To be called from time to time: who has nothing to tell is silent.
  void Ping() { ping_ = follows(); }
  // Whether something came from the primary's process since this was last asked.
  bool TakeHeard() { return std::exchange(heard_, false); }

  // The primary has let it in.
  bool follows() const { return state_ == State::kFollows; }
  // The connection is over, or never was; status() says why.
  bool over() const { return state_ == State::kOver; }
  // What ended it: of RecordSink::Take(), which says whether to connect again helps; of the primary, if it refused it:
  // with PERMISSION_DENIED it will not have this backup; or of the transport, UNAVAILABLE.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kBatch = 64;

  enum class State : uint8_t { kConnecting, kSaidHello, kSaidFollow, kFollows, kOver };

  void OnConnected();
  void OnMessage(absl::string_view message);
  void OnWelcome(absl::string_view message);
  void OnChallenge(absl::string_view message);
  void OnAnswer(absl::string_view message);
  void OnBatch(absl::string_view piece);
  // Its next message, which is sent as soon as the transport takes it.
  void Say(std::string message) { to_send_ = std::move(message); }
  void Fail(absl::Status status);
  bool TellAccepted();

  rdma::Endpoint* const endpoint_;
  RecordSink* sink_ = nullptr;
  const std::function<RecordSink*(const kv::Follow& answer)> make_;
  const Identity me_;
  std::unique_ptr<rdma::Connection> connection_;
  State state_ = State::kConnecting;
  kv::AcceptData accept_;
  std::string hello_;                // that it said
  std::optional<kv::Mac> expected_;  // the primary's proof, once this side has proved who it is
  std::string to_send_;              // until the transport takes it
  std::string batch_;                // of which the first bytes came
  uint64_t told_ = 0;                // accepted up to this
  bool ping_ = false;                // it tells that once more, which the primary answers
  bool heard_ = false;
  absl::Status status_;
  std::array<rdma::Completion, kBatch> completions_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_FOLLOWER_H_
