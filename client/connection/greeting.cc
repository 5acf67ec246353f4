#include "client/connection/greeting.h"

#include "absl/strings/str_cat.h"

namespace farlook::client {

absl::Status Greeting::Connected(rdma::Connection* connection) {
  auto accept = kv::AcceptData::Decode(connection->welcome());
  if (!accept.ok()) return accept.status();
  connection_ = connection;
  accept_ = *accept;
  if (asked() && options_->user.empty()) {
    return absl::UnauthenticatedError(
        "the server requires authentication: give a user and the file with its secret (FARLOOK_USER and "
        "FARLOOK_SECRET_FILE, or --user and --secret_file of kv_cli)");
  }
  // On this host the kernel identifies the owner of the server's socket.
  if (!asked() && !options_->user.empty() && !connection->capabilities().local) {
    return absl::UnauthenticatedError(
        "the server does not prove that it knows the user's secret: it runs without --users, or it is the wrong "
        "server; to use such a server, connect without a user and secret");
  }
  return absl::OkStatus();
}

void Greeting::SendHello(const kv::Hello& hello) {
  if (!asked()) {
    to_send_ = hello.Encode();
    return;
  }
  kv::Hello named = hello;
  named.user = options_->user;
  named.nonce = kv::RandomNonce();
  to_send_ = hello_ = named.Encode();
  proof_ = {};
}

absl::Status Greeting::Answer(absl::string_view message) {
  auto challenge = kv::Challenge::Decode(message);
  if (!challenge.ok()) return challenge.status();
  if (proof_ != kv::Mac{}) return absl::InvalidArgumentError("the server challenges twice");
  const std::string address = connection_->server_address();
  const kv::Transcript transcript = {hello_, message, accept_.incarnation, address};
  kv::Proof proof;
  proof.version = accept_.version;
  proof.mac = kv::ClientProof(options_->secret, transcript);
  proof_ = kv::ServerProof(options_->secret, transcript);
  to_send_ = proof.Encode();
  return absl::OkStatus();
}

// The server has proved its identity only if it was asked to, after its Challenge.
absl::Status Greeting::TakeGrant(const kv::Welcome& welcome) {
  if (proof_ == kv::Mac{} || welcome.table.rkey == 0 || !kv::SameMac(welcome.proof, proof_)) {
    return absl::UnauthenticatedError(absl::StrCat("the server did not prove that it knows the secret of user ",
                                                   options_->user, ": it is another than it should be"));
  }
  accept_.table = welcome.table;
  connection_->Granted();
  return absl::OkStatus();
}

bool Greeting::Post() {
  if (to_send_.empty() || !connection_->PostSend(to_send_, {})) return false;
  to_send_.clear();
  return true;
}

void Greeting::Lost() {
  to_send_.clear();
  connection_ = nullptr;
}

}  // namespace farlook::client
