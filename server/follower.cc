#include "server/follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "kv/proof.h"
#include "kv/words.h"
#include "server/feed.h"

namespace farlook::server {
namespace {

// No batch is longer: one record of the longest key and value, or as many short ones as are sent at once.
constexpr uint64_t kLongestBatch = cluster::kBatchHeadBytes + kv::kMaxValueBytes + Feed::kBatchBytes;

// A server that let nobody in said so before it said which one it is.
absl::Status Lost(const absl::Status& status) {
  return absl::IsPermissionDenied(status) ? absl::UnavailableError(status.message()) : status;
}

}  // namespace

absl::Status Follower::Dial(absl::string_view address, int64_t timeout_ms) {
  kv::ConnectData connect;
  // Also one that does not serve yet lets it in: a promoter, before it is sure of its members.
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
        heard_ = true;
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
  if (TellAccepted()) ++done;
  return done;
}

void Follower::OnConnected() {
  absl::StatusOr<kv::AcceptData> accept = kv::AcceptData::Decode(connection_->welcome());
  if (!accept.ok()) return Fail(accept.status());
  // It may begin anew, or be a backup now: what it says is not the primary's.
  if (accept->incarnation != me_.primary) {
    return Fail(absl::UnavailableError("another process answers at the primary's address"));
  }
  heard_ = true;
  accept_ = *accept;
  kv::Hello hello;
  hello.flags = kv::Hello::kReadOnly;
  hello.user = me_.user;
  if (!me_.secret.empty()) hello.nonce = kv::RandomNonce();
  hello_ = hello.Encode();
  Say(hello_);
  state_ = State::kSaidHello;
}

void Follower::OnMessage(absl::string_view message) {
  if (!status_.ok()) return;
  if (state_ == State::kFollows) return OnBatch(message);
  if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) {
    const auto refusal = kv::Refusal::Decode(message);
    return Fail(refusal.ok() ? kv::RefusalStatus(refusal->code, refusal->text) : refusal.status());
  }
  if (state_ == State::kSaidFollow) return OnAnswer(message);
  if (kv::IsFirstMessage(message, kv::FirstMessage::kChallenge)) return OnChallenge(message);
  OnWelcome(message);
}

void Follower::OnChallenge(absl::string_view message) {
  if (me_.secret.empty() || expected_.has_value()) {
    return Fail(absl::UnauthenticatedError("the primary asks its backups who they are: give a user and its secret"));
  }
  const auto challenge = kv::Challenge::Decode(message);
  if (!challenge.ok()) return Fail(challenge.status());
  const std::string address = connection_->server_address();
  const kv::Transcript transcript = {hello_, message, accept_.incarnation, address};
  expected_ = kv::ServerProof(me_.secret, transcript);
  kv::Proof proof;
  proof.version = challenge->version;
  proof.mac = kv::ClientProof(me_.secret, transcript);
  Say(proof.Encode());
}

void Follower::OnWelcome(absl::string_view message) {
  const auto welcome = kv::Welcome::Decode(message);
  if (!welcome.ok()) return Fail(welcome.status());
  const bool must_prove = (accept_.flags & kv::AcceptData::kAuthentication) != 0;
  if (must_prove && (!expected_.has_value() || !kv::SameMac(welcome->proof, *expected_))) {
    return Fail(absl::UnauthenticatedError("the primary does not know the secret of this backup's user"));
  }
  if (sink_ != nullptr) told_ = sink_->accepted();
  kv::Follow follow{.incarnation = me_.replica, .epoch = me_.epoch, .accepted = told_};
  if (sink_ == nullptr) follow.address = me_.address;
  follow.move = me_.move;
  follow.taker = me_.taker;
  Say(follow.Encode());
  state_ = State::kSaidFollow;
}

void Follower::OnAnswer(absl::string_view message) {
  const auto answer = kv::Follow::Decode(message);
  if (!answer.ok()) return Fail(answer.status());
  if (answer->incarnation != me_.replica || answer->epoch != me_.epoch ||
      (sink_ != nullptr && answer->accepted > told_)) {
    return Fail(absl::DataLossError("the primary answered another backup"));
  }
  // What follows that the new primary does not have. It hears when that is gone here too.
  if (sink_ != nullptr && answer->accepted < told_) {
    if (absl::Status cut = sink_->Cut(answer->accepted); !cut.ok()) return Fail(std::move(cut));
  }
  if (sink_ == nullptr) {
    told_ = answer->accepted;
    sink_ = make_(*answer);
  }
  state_ = State::kFollows;
}

void Follower::OnBatch(absl::string_view piece) {
  if (batch_.empty() && piece.size() == kAcceptedBytes) return;  // the answer to Ping(): it was heard
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

// The connection ends, and is destroyed when it has.
void Follower::Fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  to_send_.clear();
  connection_->Disconnect();
}

bool Follower::TellAccepted() {
  if (connection_ == nullptr || !status_.ok()) return false;
  if (!to_send_.empty()) {
    if (!connection_->PostSend(to_send_, {})) return false;
    to_send_.clear();
  } else {
    if (!follows() || (sink_->accepted() == told_ && !ping_)) return false;
    const uint64_t accepted = sink_->accepted();
    char bytes[kAcceptedBytes];
    kv::StoreAs(bytes, accepted);
    if (!connection_->PostSend({bytes, sizeof bytes}, {})) return false;
    told_ = accepted;
    ping_ = false;
  }
  connection_->Ring();
  return true;
}

}  // namespace farlook::server
