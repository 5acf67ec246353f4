#include "kv/wire/proof.h"

#include <sodium.h>

#include <cstdlib>

#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

static_assert(sizeof(Mac) == crypto_auth_hmacsha256_BYTES);

const unsigned char* Bytes(absl::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// Each part is preceded by its length, so that two different handshakes never give the same byte sequence.
class Hmac {
 public:
  explicit Hmac(absl::string_view secret) { crypto_auth_hmacsha256_init(&state_, Bytes(secret), secret.size()); }
  Hmac& Number(uint64_t number) {
    unsigned char bytes[sizeof number];
    StoreAs(bytes, number);
    crypto_auth_hmacsha256_update(&state_, bytes, sizeof bytes);
    return *this;
  }
  Hmac& Text(absl::string_view text) {
    Number(text.size());
    crypto_auth_hmacsha256_update(&state_, Bytes(text), text.size());
    return *this;
  }
  Mac Take() {
    Mac mac;
    crypto_auth_hmacsha256_final(&state_, mac.data());
    sodium_memzero(&state_, sizeof state_);
    return mac;
  }

 private:
  crypto_auth_hmacsha256_state state_;
};

Mac MacOf(absl::string_view who, absl::string_view secret, const Transcript& transcript) {
  Hmac hmac(secret);
  hmac.Text(who).Text(transcript.hello).Text(transcript.challenge);
  return hmac.Number(transcript.incarnation).Text(transcript.address).Take();
}

}  // namespace

Mac ClientProof(absl::string_view secret, const Transcript& transcript) {
  return MacOf("Farlook client", secret, transcript);
}

Mac ServerProof(absl::string_view secret, const Transcript& transcript) {
  return MacOf("Farlook server", secret, transcript);
}

Mac KeyedDigest(absl::string_view key, absl::Span<const std::string> parts) {
  Hmac hmac(key);
  for (const std::string& part : parts) hmac.Text(part);
  return hmac.Take();
}

bool SameMac(const Mac& a, const Mac& b) { return sodium_memcmp(a.data(), b.data(), sizeof a) == 0; }

Nonce RandomNonce() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) std::abort();  // the kernel gives no randomness
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

}  // namespace farlook::kv
