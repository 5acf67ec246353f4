// A core of a cluster: which slots its group has, and operations that go on with another core.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/core.h"
#include "kv/cluster_map.h"

namespace farlook::client {
namespace {

// Of a core that has no server.
class NoEndpoint final : public rdma::Endpoint {
 public:
  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(absl::string_view, absl::string_view, int64_t) override {
    return absl::UnavailableError("there is no server");
  }
  absl::StatusOr<std::unique_ptr<rdma::Buffer>> Allocate(size_t, bool) override {
    return absl::UnavailableError("there is no device");
  }
  size_t Poll(absl::Span<rdma::Completion>) override { return 0; }
  bool Arm() override { return true; }
  int fd() const override { return -1; }
  void Wake() override {}
};

}  // namespace

void ClientCore::SetGroup(absl::string_view name, uint64_t hash_seed, SlotOwners* owners, size_t index) {
  group_ = std::string(name);
  group_hash_seed_ = hash_seed;
  owners_ = owners;
  index_ = index;
  link_.SetInGroup();
  engines_.FollowMoves();
  EnterGroup();
  if (link_.ready()) TellSlots();
}

// Of a cluster: an error says which group, and which of its servers, it is about; and where the table's hashes are the
// cluster's, operations bear them.
void ClientCore::EnterGroup() {
  finished_.SetPlace(
      absl::StrCat("group ", group_, ", last reached at ", link_.reached().empty() ? "no server" : link_.reached()));
  engines_.TakeHashes(link_.ready() && link_.hasher()->seed() == group_hash_seed_);
}

// Before anything is READ over this connection. Gets that wait here of slots that are another group's by now are not to
// be READ. What was sent by message is sent again, as it may be done: the server answers what became of it, or `moved`.
void ClientCore::TellSlots() {
  owners_->Told(index_, link_.welcome().slots);
  WithdrawMoved();
}

void ClientCore::WithdrawMoved() {
  engines_.WithdrawMoved([this](const Operation& operation) {
    return IsOfAKey(operation.kind) && owners_->Owner(kv::ClusterSlotOf(operation.hash)) != index_;
  });
}

// What was refused of a slot waits to begin anew. What the former server had refused for its sake, or would have, this
// one must not begin now.
void ClientCore::KeepOrder() {
  engines_.KeepOrder([this](const Operation& operation) {
    return IsWrite(operation.kind) && IsOfAKey(operation.kind) && !owners_->Settled(kv::ClusterSlotOf(operation.hash));
  });
}

void ClientCore::Renew() {
  connect_wanted_ = true;
  if (!link_.ready()) return;
  link_.GoTo("");  // the same, without a pause
  Lose(absl::UnavailableError("the group is in a later epoch"));
}

void ClientCore::HandOver(Operation* operation, absl::FunctionRef<void(Operation*)> take) {
  timeouts_.Begin(operation);
  finished_.Left(operation);
  take(operation);
}

void ClientCore::TakeMoved(absl::FunctionRef<void(Operation*)> take) {
  while (Operation* const operation = engines_.moved()->Pop()) HandOver(operation, take);
}

void ClientCore::TakeHeld(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  const auto hand_over = [this, take](Operation* operation) { HandOver(operation, take); };
  engines_.moved()->Extract([which](const Operation* operation) { return which(*operation); }, hand_over);
  engines_.Withdraw(which, hand_over);
}

void ClientCore::Resume(Operation* operation) {
  finished_.Came();
  timeouts_.Set(operation, operation->deadline_ns);
  if (is_nobody_) return engines_.Hold(operation);
  // It was counted where it began.
  const uint64_t gets = stats_.gets, server_gets = stats_.server_gets;
  engines_.Start(operation, operation->kind);
  stats_.gets = gets;
  stats_.server_gets = server_gets;
}

std::unique_ptr<ClientCore> ClientCore::MakeNobody() const {
  auto nobody = std::make_unique<ClientCore>(std::make_unique<NoEndpoint>(), "", options_, time_.clock(),
                                             /*random_seed=*/0);
  nobody->is_nobody_ = true;
  return nobody;
}

}  // namespace farlook::client
