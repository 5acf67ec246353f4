// A core of a cluster: the slots of its group, and operations that continue at another core.
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/core/core.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {

void ClientCore::SetGroup(absl::string_view name, uint64_t hash_seed, SlotOwners* owners, size_t index) {
  group_ = std::string(name);
  group_hash_seed_ = hash_seed;
  owners_ = owners;
  index_ = index;
  link_.SetInGroup();
  router_.FollowMoves();
  EnterGroup();
  if (link_.ready()) UpdateSlotOwners();
}

// Clusters: errors name the group and its server. If the table's hash seed is the cluster's, operations carry their
// hashes.
void ClientCore::EnterGroup() {
  finished_.SetPlace(
      absl::StrCat("group ", group_, ", last reached at ", link_.reached().empty() ? "no server" : link_.reached()));
  router_.TakeHashes(link_.ready() && link_.hasher()->seed() == group_hash_seed_);
}

// To be called before anything is READ over this connection. Waiting gets must not READ here if another group owns
// their slots by now. Requests that were sent are sent again, since they may have been executed: the server replies
// with their outcome or `moved`.
void ClientCore::UpdateSlotOwners() {
  owners_->OnWelcome(index_, link_.welcome().slots);
  WithdrawMoved();
}

void ClientCore::WithdrawMoved() {
  router_.WithdrawMoved([this](const Operation& operation) {
    return IsOfAKey(operation.kind) && owners_->Owner(kv::ClusterSlotOf(operation.hash)) != index_;
  });
}

// Refused operations of a slot wait to start again. Later requests must not be executed before them. The former server
// would have refused these too; the present one may not know.
void ClientCore::KeepOrder() {
  router_.KeepOrder([this](const Operation& operation) {
    return IsWrite(operation.kind) && IsOfAKey(operation.kind) && owners_->closed(kv::ClusterSlotOf(operation.hash));
  });
}

void ClientCore::Renew() {
  connect_wanted_ = true;
  if (!link_.ready()) return;
  link_.GoTo("");  // the same address, without a pause
  Lose(absl::UnavailableError("the group is in a later epoch"));
}

void ClientCore::TakeMoved(absl::FunctionRef<void(Operation*)> take) {
  while (Operation* const operation = router_.moved()->Pop()) {
    timeouts_.Begin(operation);
    finished_.Left(operation);
    take(operation);
  }
}

void ClientCore::Resume(Operation* operation) {
  finished_.Came();
  timeouts_.Set(operation, operation->deadline_ns);
  // The operation was counted where it began.
  const uint64_t gets = stats_.gets, server_gets = stats_.server_gets;
  router_.Start(operation, operation->kind);
  stats_.gets = gets;
  stats_.server_gets = server_gets;
}

}  // namespace farlook::client
