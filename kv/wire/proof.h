// Mutual authentication: client and server prove to each other that they know a user's secret, without revealing it.
//
// Each side keeps the transcript: Hello and Challenge as they were sent, with a fresh nonce in each, the table's
// incarnation, which was sent with the accept, and the server's address. Its proof is HMAC-SHA256 over all of it, with
// the secret as the key. So a proof is valid once, with this server, for this user, this session and these rights. A
// relay at another address fails, since the addresses differ. The client proves first: an impostor of the server learns
// one MAC over data that it partly chose, and nothing about a secret that cannot be guessed.
//
// Thread safety: any thread.
#ifndef FARLOOK_KV_WIRE_PROOF_H_
#define FARLOOK_KV_WIRE_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/wire/handshake.h"

namespace farlook::kv {

// A shorter secret could be guessed from an intercepted proof. 32 hexadecimal digits are 128 bits.
inline constexpr size_t kMinSecretBytes = 32;
inline constexpr size_t kMaxSecretBytes = 1024;

// The data of one handshake that both sides know.
struct Transcript {
  absl::string_view hello;      // the message
  absl::string_view challenge;  // the message
  uint64_t incarnation = 0;
  absl::string_view address;  // Connection::server_address()
};

// The proofs that each side sends. They differ, so that neither can be sent back as the other.
Mac ClientProof(absl::string_view secret, const Transcript& transcript);
Mac ServerProof(absl::string_view secret, const Transcript& transcript);

// HMAC-SHA256 with this key over the parts, each preceded by its length.
Mac KeyedDigest(absl::string_view key, absl::Span<const std::string> parts);

// Compares in a time that does not depend on where they differ.
bool SameMac(const Mac& a, const Mac& b);

// Returns a nonce that is never all zeros and never repeated.
Nonce RandomNonce();

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_PROOF_H_
