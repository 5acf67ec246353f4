// What a client says on a new connection before it is welcome: Hello, and, where the server asks who it is, a Proof
// (kv/handshake.h). And what the server says: where its table is, and, where it was asked, a proof of its own.
#ifndef FARLOOK_CLIENT_GREETING_H_
#define FARLOOK_CLIENT_GREETING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "farlook/options.h"
#include "kv/handshake.h"
#include "kv/proof.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The options outlive it.
class Greeting {
 public:
  explicit Greeting(const ClientOptions* options) : options_(options) {}

  // For the completion kConnected: takes what the server said with it. UNAUTHENTICATED: the server asks for what this
  // client does not have, or does not prove what it must.
  absl::Status Connected(rdma::Connection* connection);
  // Whether the server asks who the client is; it tells the table with its Welcome then, not before.
  bool asked() const { return (accept_.flags & kv::AcceptData::kAuthentication) != 0; }
  // To be said next: Post().
  void SayHello(const kv::Hello& hello);
  // Where the server asks: its Challenge, which is answered. To be said next: Post().
  absl::Status Answer(absl::string_view challenge);
  // Where the server asks: whether its Welcome proves that it knows the secret; then the table is known.
  absl::Status TakeGrant(const kv::Welcome& welcome);

  // Posts what is to be said, if there is room. True if something was posted: Ring().
  bool Post();
  // The connection is destroyed.
  void Lost();

  const kv::AcceptData& accept() const { return accept_; }
  const kv::ServerRange& table() const { return accept_.table; }  // from where the server has told it

 private:
  const ClientOptions* const options_;
  rdma::Connection* connection_ = nullptr;
  kv::AcceptData accept_;
  std::string to_send_;  // Hello or Proof, not posted yet
  std::string hello_;    // where the server asks who this is: as it was said
  kv::Mac proof_ = {};   // likewise: what the server has to prove; zeros before its Challenge
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_GREETING_H_
