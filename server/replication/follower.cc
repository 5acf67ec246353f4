#include "server/replication/follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "kv/layout/words.h"
#include "kv/wire/proof.h"
#include "server/replication/replication_feed.h"

namespace farlook::server {
namespace {

// The first bytes of a kv::RejectData.
constexpr absl::string_view kRejectMagic = "FRLK";

// Length of the longest batch: one record of the longest key and value, or as many short ones as are sent at once.
constexpr uint64_t kLongestBatch = cluster::kBatchHeadBytes + kv::kMaxValueBytes + ReplicationFeed::kBatchBytes;

// Makes PERMISSION_DENIED of the transport UNAVAILABLE: the server refused the connection before it identified itself.
// Returns the text of its refusal, which may follow the transport's own.
absl::Status Lost(const absl::Status& status) {
  if (!absl::IsPermissionDenied(status)) return status;
  const size_t at = status.message().find(kRejectMagic);
  const auto reject = kv::RejectData::Decode(at == absl::string_view::npos ? "" : status.message().substr(at));
  return absl::UnavailableError(reject.ok() ? absl::string_view(reject->text) : status.message());
}

}  // namespace

absl::Status Follower::Dial(absl::string_view address, int64_t timeout_ms) {
  kv::ConnectData connect;
  // With these flags a server that does not serve yet also accepts it: a promoter that is not sure of its members.
  connect.flags = kv::ConnectData::kReadOnly | kv::ConnectData::kWatch;
  auto connection = endpoint_->Connect(address, connect.Encode(), timeout_ms);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  return absl::OkStatus();
}

size_t Follower::Poll() {
  size_t done = endpoint_->Poll(absl::MakeSpan(completions_));
  for (size_t i = 0; i < done; ++i) {
    switch (completions_[i].opcode) {
      case rdma::Opcode::kConnected:
        OnConnected();
        break;
      case rdma::Opcode::kReceive:
        received_ = true;
        OnMessage({completions_[i].message.data(), completions_[i].message.size()});
        break;
      case rdma::Opcode::kDisconnected:
        if (status_.ok()) status_ = Lost(connection_->status());
        state_ = State::kOver;
        break;
      case rdma::Opcode::kRead:
      case rdma::Opcode::kFetchAdd:
      case rdma::Opcode::kCompareSwap:
        break;  // never asked for
    }
  }
  if (over()) {
    connection_.reset();
    return done;
  }
  if (SendAccepted()) ++done;
  return done;
}

void Follower::OnConnected() {
  absl::StatusOr<kv::AcceptData> accept = kv::AcceptData::Decode(connection_->welcome());
  if (!accept.ok()) return Fail(accept.status());
  // The process may have restarted, or be a backup now: its messages are not the primary's.
  if (accept->incarnation != me_.primary) {
    return Fail(absl::UnavailableError("another process answers at the primary's address"));
  }
  received_ = true;
  accept_ = *accept;
  kv::Hello hello;
  hello.flags = kv::Hello::kReadOnly;
  hello.user = me_.user;
  if (!me_.secret.empty()) hello.nonce = kv::RandomNonce();
  hello_ = hello.Encode();
  Send(hello_);
  state_ = State::kSentHello;
}

void Follower::OnMessage(absl::string_view message) {
  if (!status_.ok()) return;
  if (state_ == State::kFollows) return OnBatch(message);
  if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) {
    auto refusal = kv::Refusal::Decode(message);
    // Before that state the primary has not proven its identity.
    if (refusal.ok() && state_ == State::kSentFollow) {
      refused_with_ = {.revision = refusal->revision, .record = std::move(refusal->record)};
    }
    return Fail(refusal.ok() ? kv::RefusalStatus(refusal->code, refusal->text) : refusal.status());
  }
  if (state_ == State::kSentFollow) return OnAnswer(message);
  if (kv::IsFirstMessage(message, kv::FirstMessage::kChallenge)) return OnChallenge(message);
  OnWelcome(message);
}

void Follower::OnChallenge(absl::string_view message) {
  if (me_.secret.empty() || expected_.has_value()) {
    return Fail(
        absl::UnauthenticatedError("the primary requires authentication: start this server with the --users of the "
                                   "group, and with --group_user"));
  }
  const auto challenge = kv::Challenge::Decode(message);
  if (!challenge.ok()) return Fail(challenge.status());
  const std::string address = connection_->server_address();
  const kv::Transcript transcript = {hello_, message, accept_.incarnation, address};
  expected_ = kv::ServerProof(me_.secret, transcript);
  kv::Proof proof;
  proof.version = challenge->version;
  proof.mac = kv::ClientProof(me_.secret, transcript);
  Send(proof.Encode());
}

void Follower::OnWelcome(absl::string_view message) {
  const auto welcome = kv::Welcome::Decode(message);
  if (!welcome.ok()) return Fail(welcome.status());
  const bool must_prove = (accept_.flags & kv::AcceptData::kAuthentication) != 0;
  if (must_prove && (!expected_.has_value() || !kv::SameMac(welcome->proof, *expected_))) {
    return Fail(absl::UnauthenticatedError("the primary does not know the secret of this backup's user"));
  }
  if (sink_ != nullptr) reported_ = sink_->accepted();
  kv::Follow follow{.incarnation = me_.replica, .epoch = me_.epoch, .accepted = reported_};
  if (sink_ == nullptr) {
    follow.address = me_.address;
    follow.max_value_bytes = me_.max_value_bytes;
    follow.memory_bytes = me_.memory_bytes;
    follow.users = me_.users;
  }
  follow.move = me_.move;
  follow.taker = me_.taker;
  Send(follow.Encode());
  state_ = State::kSentFollow;
}

void Follower::OnAnswer(absl::string_view message) {
  const auto answer = kv::Follow::Decode(message);
  if (!answer.ok()) return Fail(answer.status());
  if (answer->incarnation != me_.replica || answer->epoch != me_.epoch ||
      (sink_ != nullptr && answer->accepted > reported_)) {
    return Fail(absl::DataLossError("the primary answered another backup"));
  }
  // The new primary lacks the last records of this backup. The next acceptance shows it that they are discarded.
  if (sink_ != nullptr && answer->accepted < reported_) {
    if (absl::Status cut = sink_->Cut(answer->accepted); !cut.ok()) return Fail(std::move(cut));
  }
  if (sink_ == nullptr) {
    reported_ = answer->accepted;
    sink_ = make_(*answer);
  }
  state_ = State::kFollows;
}

void Follower::OnBatch(absl::string_view piece) {
  if (batch_.empty() && piece.size() == Acceptance::kAnswerBytes) return;  // the answer to Ping(), which set received_
  batch_.append(piece.data(), piece.size());
  if (batch_.size() < cluster::kBatchHeadBytes)
    return Fail(absl::DataLossError("the primary sent half a batch's head"));
  const uint64_t bytes = cluster::kBatchHeadBytes + uint64_t{kv::LoadAs<uint32_t>(batch_.data() + 44)};
  if (bytes > kLongestBatch || batch_.size() > bytes) {
    return Fail(absl::DataLossError(absl::StrCat("the primary sent a batch of impossible length, ", bytes)));
  }
  if (batch_.size() < bytes) {
    batch_.reserve(bytes);
    return;
  }
  const absl::Status taken = sink_->Take(std::exchange(batch_, {}));
  if (!taken.ok()) Fail(taken);
}

// Closes the connection, which is destroyed when it is closed.
void Follower::Fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  to_send_.clear();
  connection_->Disconnect();
}

bool Follower::SendAccepted() {
  if (connection_ == nullptr || !status_.ok()) return false;
  if (!to_send_.empty()) {
    if (!connection_->PostSend(to_send_, {})) return false;
    to_send_.clear();
  } else {
    if (!follows()) return false;
    const Acceptance acceptance{.accepted = sink_->accepted(),
                                .room = sink_->room(),
                                .asks = ping_,
                                .leaves = leaves_,
                                .silence_ms = silence_ms_};
    const bool is_news = ping_ || leaves_ != reported_leaves_;
    if (acceptance.accepted == reported_ && acceptance.room == reported_room_ && !is_news) return false;
    const auto bytes = acceptance.Encode();
    if (!connection_->PostSend({bytes.data(), bytes.size()}, {})) return false;
    reported_ = acceptance.accepted;
    reported_room_ = acceptance.room;
    reported_leaves_ = leaves_;
    ping_ = false;
  }
  connection_->Ring();
  return true;
}

}  // namespace farlook::server
