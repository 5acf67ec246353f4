// The client's messages on a new connection before its Welcome: Hello and, if the server asks for its identity, a Proof
// (kv/wire/handshake.h). Also the server's statements: the location of its table and, if asked, a proof of its own.
#ifndef FARLOOK_CLIENT_CONNECTION_GREETING_H_
#define FARLOOK_CLIENT_CONNECTION_GREETING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "farlook/options.h"
#include "kv/wire/handshake.h"
#include "kv/wire/proof.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The options outlive it.
class Greeting {
 public:
  explicit Greeting(const ClientOptions* options) : options_(options) {}

  // Handles kConnected: reads the server's data. UNAUTHENTICATED: the server asks for credentials that this client does
  // not have, or does not prove what it must.
  absl::Status Connected(rdma::Connection* connection);
  // Returns whether the server asks for the client's identity; then it sends the table's location only with its
  // Welcome.
  bool asked() const { return (accept_.flags & kv::AcceptData::kAuthentication) != 0; }
  // Queues the Hello for Post().
  void SendHello(const kv::Hello& hello);
  // If the server asks: queues the reply to its Challenge for Post().
  absl::Status Answer(absl::string_view challenge);
  // If the server asks: checks that its Welcome proves that it knows the secret; then the table is known.
  absl::Status TakeGrant(const kv::Welcome& welcome);

  // Posts the queued message, if there is room. Returns true if it was posted: call Ring().
  bool Post();
  // The connection is destroyed.
  void Lost();

  const kv::AcceptData& accept() const { return accept_; }
  const kv::ServerRange& table() const { return accept_.table; }  // valid when the server has sent it

 private:
  const ClientOptions* const options_;
  rdma::Connection* connection_ = nullptr;
  kv::AcceptData accept_;
  std::string to_send_;  // Hello or Proof, not posted yet
  std::string hello_;    // the sent Hello, if the server asks for the identity
  kv::Mac proof_ = {};   // likewise: the expected proof of the server; zeros before its Challenge
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTION_GREETING_H_
