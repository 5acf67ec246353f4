// How client and server prove to each other that they know a user's secret, without saying it.
//
// Each side keeps what was said: Hello and Challenge as they were sent, with a fresh nonce in each, the table's
// incarnation, which came with the accept, and the server's address. Its proof is HMAC-SHA256 over all of it, with the
// secret as the key. So a proof is of use once, with this server, for this user, this session and these rights; and
// who relays messages from another address has the wrong one. The client proves first: who only pretends to be a server
// learns one MAC over words that it had a part in, and nothing about a secret that cannot be guessed.
//
// Thread safety: any thread.
#ifndef FARLOOK_KV_PROOF_H_
#define FARLOOK_KV_PROOF_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/handshake.h"

namespace farlook::kv {

// A shorter one could be guessed from a proof that was overheard. 32 hexadecimal digits are 128 bits.
inline constexpr size_t kMinSecretBytes = 32;
inline constexpr size_t kMaxSecretBytes = 1024;

// What both sides know of one handshake.
struct Transcript {
  absl::string_view hello;      // the message
  absl::string_view challenge;  // likewise
  uint64_t incarnation = 0;
  absl::string_view address;  // Connection::server_address()
};

// What each side sends. They differ, so that neither can be sent back as the other.
Mac ClientProof(absl::string_view secret, const Transcript& transcript);
Mac ServerProof(absl::string_view secret, const Transcript& transcript);

// In a time that does not depend on where they differ.
bool SameMac(const Mac& a, const Mac& b);

// Never all zeros, never the same twice.
Nonce RandomNonce();

}  // namespace farlook::kv

#endif  // FARLOOK_KV_PROOF_H_
