#include "server/follower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "kv/words.h"
#include "server/feed.h"

namespace farlook::server {
namespace {

// No batch is longer: one record of the longest key and value, or as many short ones as are sent at once.
constexpr uint64_t kLongestBatch = cluster::kBatchHeadBytes + kv::kMaxValueBytes + Feed::kBatchBytes;

}  // namespace

absl::Status Follower::Dial(absl::string_view address, int64_t timeout_ms) {
  auto connection = endpoint_->Connect(address, kv::ConnectData().Encode(), timeout_ms);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  return absl::OkStatus();
}

size_t Follower::Poll() {
  size_t done = endpoint_->Poll(absl::MakeSpan(completions_));
  for (size_t i = 0; i < done; ++i) {
    switch (completions_[i].opcode) {
      case rdma::Opcode::kConnected: {
        const auto accept = kv::AcceptData::Decode(connection_->welcome());
        if (!accept.ok()) {
          Fail(accept.status());
          break;
        }
        told_ = backup_->accepted();
        to_send_ = kv::Follow{.incarnation = me_, .epoch = epoch_, .accepted = told_}.Encode();
        break;
      }
      case rdma::Opcode::kReceive:
        OnMessage({completions_[i].message.data(), completions_[i].message.size()});
        break;
      case rdma::Opcode::kDisconnected:
        if (status_.ok()) status_ = connection_->status();
        over_ = true;
        follows_ = false;
        break;
      case rdma::Opcode::kRead:
      case rdma::Opcode::kFetchAdd:
      case rdma::Opcode::kCompareSwap:
        break;  // never asked for
    }
  }
  if (over_) {
    connection_.reset();
    return done;
  }
  if (TellAccepted()) ++done;
  return done;
}

void Follower::OnMessage(absl::string_view message) {
  if (!status_.ok()) return;
  if (!follows_) return OnAnswer(message);
  batch_.append(message.data(), message.size());
  if (batch_.size() < cluster::kBatchHeadBytes)
    return Fail(absl::DataLossError("the primary sent half a batch's head"));
  const uint64_t bytes = cluster::kBatchHeadBytes + uint64_t{kv::LoadAs<uint32_t>(batch_.data() + 44)};
  if (bytes > kLongestBatch || batch_.size() > bytes) {
    return Fail(absl::DataLossError(absl::StrCat("the primary sent a batch of impossible length, ", bytes)));
  }
  if (batch_.size() < bytes) return;
  const absl::Status taken = backup_->Take(batch_);
  batch_.clear();
  if (!taken.ok()) Fail(taken);
}

void Follower::OnAnswer(absl::string_view message) {
  if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) {
    const auto refusal = kv::Refusal::Decode(message);
    return Fail(refusal.ok() ? kv::RefusalStatus(refusal->code, refusal->text) : refusal.status());
  }
  const auto answer = kv::Follow::Decode(message);
  if (!answer.ok()) return Fail(answer.status());
  if (answer->incarnation != me_ || answer->epoch != epoch_ || answer->accepted != told_) {
    return Fail(absl::DataLossError("the primary answered another backup"));
  }
  follows_ = true;
}

// The connection ends, and is destroyed when it has.
void Follower::Fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  follows_ = false;
  connection_->Disconnect();
}

bool Follower::TellAccepted() {
  if (connection_ == nullptr || !status_.ok()) return false;
  if (!to_send_.empty()) {
    if (!connection_->PostSend(to_send_, {})) return false;
    to_send_.clear();
  } else {
    const uint64_t accepted = backup_->accepted();
    if (!follows_ || accepted == told_) return false;
    char bytes[kAcceptedBytes];
    kv::StoreAs(bytes, accepted);
    if (!connection_->PostSend({bytes, sizeof bytes}, {})) return false;
    told_ = accepted;
  }
  connection_->Ring();
  return true;
}

}  // namespace farlook::server
