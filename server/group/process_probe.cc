#include "server/group/process_probe.h"

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kv/wire/handshake.h"

namespace farlook::server {

bool ProcessProbe::Ask(const CreateEndpoint& create, absl::Time now) {
  if (!yes_ && connection_ == nullptr && now >= dial_at_) Dial(create, now);
  if (yes_ || connection_ == nullptr) return yes_;
  std::array<rdma::Completion, 4> completions;
  const size_t done = endpoint_->Poll(absl::MakeSpan(completions));
  for (size_t i = 0; i < done && connection_ != nullptr; ++i) {
    if (completions[i].opcode == rdma::Opcode::kConnected) {
      const auto accept = kv::AcceptData::Decode(connection_->welcome());
      const bool is_same = accept.ok() && accept->incarnation == incarnation_;
      yes_ = question_ == Question::kServes ? is_same : accept.ok() && !is_same;
      Disconnect(now);
    } else if (completions[i].opcode == rdma::Opcode::kDisconnected) {
      // A process that is alive refuses with PERMISSION_DENIED.
      yes_ =
          question_ == Question::kHasEnded && absl::IsUnavailable(connection_->status()) && now - began_at_ < kPatience;
      Disconnect(now);
    }
  }
  return yes_;
}

void ProcessProbe::Dial(const CreateEndpoint& create, absl::Time now) {
  Disconnect(now);
  auto endpoint = create(address_);
  if (!endpoint.ok()) return;
  endpoint_ = *std::move(endpoint);
  kv::ConnectData data;
  data.flags = kv::ConnectData::kReadOnly;
  data.flags |= question_ == Question::kHasEnded ? kv::ConnectData::kWatch : kv::ConnectData::kOperator;
  auto connection = endpoint_->Connect(address_, data.Encode(), absl::ToInt64Milliseconds(kPatience));
  if (connection.ok()) connection_ = *std::move(connection);
  began_at_ = now;
}

void ProcessProbe::Disconnect(absl::Time now) {
  connection_.reset();
  endpoint_.reset();
  dial_at_ = now + pause();
}

}  // namespace farlook::server
