#include "rdma/verbs/handshake/envelope.h"

#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace farlook::rdma::verbs {
namespace {

Envelope Example() {
  Envelope envelope;
  envelope.window = 64;
  envelope.atomics = true;
  envelope.probe_address = 0x1234000;
  envelope.probe_rkey = 0x5678;
  return envelope;
}

TEST(EnvelopeTest, Golden) {
  EXPECT_EQ(absl::BytesToHexString(EncodeEnvelope(Example(), "hello")),
            "464c01054001341200000000785600006"
            "8656c6c6f");
  EXPECT_EQ(absl::BytesToHexString(EncodeReject("no")), "464c01026e6f");
}

TEST(EnvelopeTest, TellsThatReadsAreWithheld) {
  Envelope envelope = Example();
  envelope.atomics = false;
  envelope.reads_withheld = true;
  const std::string bytes = EncodeEnvelope(envelope, "");
  EXPECT_EQ(bytes[5], 2);
  absl::string_view user;
  EXPECT_TRUE(DecodeEnvelope(bytes, &user)->reads_withheld);
  EXPECT_FALSE(DecodeEnvelope(EncodeEnvelope(Example(), ""), &user)->reads_withheld);
}

TEST(EnvelopeTest, RoundTripsAlsoWhenPadded) {
  for (const size_t padding : {0, 3, 31}) {
    absl::string_view user;
    const std::string bytes = EncodeEnvelope(Example(), "hello") + std::string(padding, '\0');
    absl::StatusOr<Envelope> decoded = DecodeEnvelope(bytes, &user);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(user, "hello");
    EXPECT_EQ(decoded->window, 64);
    EXPECT_TRUE(decoded->atomics);
    EXPECT_EQ(decoded->probe_address, 0x1234000u);
    EXPECT_EQ(decoded->probe_rkey, 0x5678u);
  }
  EXPECT_EQ(*DecodeReject(EncodeReject("because") + std::string(100, '\0')), "because");
  EXPECT_EQ(EncodeReject(std::string(500, 'r')).size(), kRejectHeadBytes + kMaxRejectBytes);
}

TEST(EnvelopeTest, WhatIsWrongIsTold) {
  absl::string_view user;
  std::string bytes = EncodeEnvelope(Example(), "hello");
  EXPECT_EQ(DecodeEnvelope("", &user).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodeEnvelope("GET / HTTP/1.1\r\n\r\n", &user).status().code(), absl::StatusCode::kInvalidArgument);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeEnvelope(bytes.substr(0, length), &user).ok()) << length;
  }
  bytes[4] = 2;
  EXPECT_EQ(DecodeEnvelope(bytes, &user).status().code(), absl::StatusCode::kInvalidArgument) << "window";
  bytes[2] = 2;
  EXPECT_EQ(DecodeEnvelope(bytes, &user).status().code(), absl::StatusCode::kFailedPrecondition) << "version";
  EXPECT_EQ(DecodeReject(bytes).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(EnvelopeTest, AnyBytesDecodeOrAreRefused) {
  std::mt19937 random(20260101);
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 2 == 0 && bytes.size() >= 3) bytes.replace(0, 3, "\x46\x4c\x01");
    absl::string_view user;
    if (DecodeEnvelope(bytes, &user).ok()) {
      ASSERT_GE(user.data(), bytes.data());
      ASSERT_LE(user.data() + user.size(), bytes.data() + bytes.size());
    }
    if (absl::StatusOr<absl::string_view> reason = DecodeReject(bytes); reason.ok()) {
      ASSERT_LE(reason->data() + reason->size(), bytes.data() + bytes.size());
    }
  }
}

}  // namespace
}  // namespace farlook::rdma::verbs
