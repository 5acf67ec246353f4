#include "kv/wire/proof.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/wire/handshake.h"

namespace farlook::kv {
namespace {

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

std::string Hex(const Mac& mac) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(mac.data()), mac.size()));
}

Transcript Example() { return {"hello", "challenge", 0x1122334455667788, "10.0.0.1:7471"}; }

// Computed with Python's hmac, over the parts as specified in docs/protocol.md.
TEST(ProofTest, TheBytesAreTheProtocols) {
  EXPECT_EQ(Hex(ClientProof(kSecret, Example())), "8176624fcffe76a0f4d7e3397ee9c61f8f01efa98759cd1b09413246f439b73d");
  EXPECT_EQ(Hex(ServerProof(kSecret, Example())), "aae7bcbed7f71b5511efa1c57f660b7df38335b2553226b172ba87dae1280921");
}

// Computed with Python's hmac, over the parts, each preceded by its length.
TEST(ProofTest, ADigestIsOfItsKeyAndParts) {
  EXPECT_EQ(Hex(KeyedDigest("key", {"a", "bc"})), "732a3d11f8aa359c8f01a8e2a3c240e35e35a71da6686a8cab3eee8b1cbcca6c");
  EXPECT_FALSE(SameMac(KeyedDigest("key", {"a", "bc"}), KeyedDigest("key", {"ab", "c"})));
  EXPECT_FALSE(SameMac(KeyedDigest("key", {"a", "bc"}), KeyedDigest("kez", {"a", "bc"})));
}

TEST(ProofTest, EverythingThatWasSaidCounts) {
  const Mac mac = ClientProof(kSecret, Example());
  EXPECT_TRUE(SameMac(mac, ClientProof(kSecret, Example())));
  EXPECT_FALSE(SameMac(mac, ServerProof(kSecret, Example()))) << "a proof cannot be sent back";
  EXPECT_FALSE(SameMac(mac, ClientProof(absl::StrCat(kSecret, "0"), Example())));
  Transcript other = Example();
  other.hello = "hellO";
  EXPECT_FALSE(SameMac(mac, ClientProof(kSecret, other)));
  other = Example();
  other.challenge = "another";
  EXPECT_FALSE(SameMac(mac, ClientProof(kSecret, other)));
  other = Example();
  ++other.incarnation;
  EXPECT_FALSE(SameMac(mac, ClientProof(kSecret, other)));
  other = Example();
  other.address = "10.0.0.2:7471";
  EXPECT_FALSE(SameMac(mac, ClientProof(kSecret, other))) << "a relay has another address";
  other = Example();
  other.hello = "hellochall";
  other.challenge = "enge";
  EXPECT_FALSE(SameMac(mac, ClientProof(kSecret, other))) << "parts do not run together";
}

TEST(ProofTest, NoncesAreFresh) {
  const Nonce a = RandomNonce();
  const Nonce b = RandomNonce();
  EXPECT_NE(a, b);
  EXPECT_NE(a, Nonce{});
}

}  // namespace
}  // namespace farlook::kv
