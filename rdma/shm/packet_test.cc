#include "rdma/shm/packet.h"

#include <cstring>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::rdma::shm {
namespace {

HelloPacket Hello(absl::string_view text) {
  HelloPacket packet;
  packet.hello_bytes = static_cast<uint16_t>(text.size());
  memcpy(packet.hello, text.data(), text.size());
  return packet;
}

TEST(PacketTest, GoldenHello) {
  EXPECT_EQ(absl::BytesToHexString(BytesOf(Hello("abc")).substr(0, 16)),
            "4653484d"
            "0300"
            "0300"
            "6162630000000000");
}

TEST(PacketTest, HelloRoundTrips) {
  HelloPacket decoded;
  ASSERT_TRUE(DecodeHello(BytesOf(Hello("abc")), &decoded).ok());
  EXPECT_EQ(absl::string_view(decoded.hello, decoded.hello_bytes), "abc");
}

TEST(PacketTest, HelloOfAnotherVersionIsToldApartFromNoise) {
  HelloPacket packet = Hello("abc");
  packet.version = 77;
  HelloPacket decoded;
  EXPECT_EQ(DecodeHello(BytesOf(packet), &decoded).code(), absl::StatusCode::kFailedPrecondition);
  // Expect: also if later versions have another length.
  EXPECT_EQ(DecodeHello(BytesOf(packet).substr(0, 20), &decoded).code(), absl::StatusCode::kFailedPrecondition);
  packet.magic = 1;
  EXPECT_EQ(DecodeHello(BytesOf(packet), &decoded).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PacketTest, MalformedPacketsAreRefused) {
  HelloPacket hello = Hello("");
  HelloPacket hello_out;
  EXPECT_FALSE(DecodeHello(BytesOf(hello).substr(1), &hello_out).ok());
  EXPECT_FALSE(DecodeHello("", &hello_out).ok());
  hello.hello_bytes = kMaxHelloBytes + 1;
  EXPECT_FALSE(DecodeHello(BytesOf(hello), &hello_out).ok());

  AnswerPacket answer;
  AnswerPacket answer_out;
  answer.accepted = 1;
  answer.ranges = 1;
  EXPECT_TRUE(DecodeAnswer(BytesOf(answer), 3, &answer_out).ok());
  EXPECT_FALSE(DecodeAnswer(BytesOf(answer), 2, &answer_out).ok());
  EXPECT_FALSE(DecodeAnswer(BytesOf(answer), 4, &answer_out).ok());
  answer.ranges = kMaxOffers + 1;
  EXPECT_FALSE(DecodeAnswer(BytesOf(answer), 3 + kMaxOffers, &answer_out).ok());
  answer.ranges = 0;
  answer.text_bytes = kMaxWelcomeBytes + 1;
  EXPECT_FALSE(DecodeAnswer(BytesOf(answer), 2, &answer_out).ok());

  NoticePacket notice;
  NoticePacket notice_out;
  EXPECT_TRUE(DecodeNotice(BytesOf(notice), 0, &notice_out).ok());
  EXPECT_FALSE(DecodeNotice(BytesOf(notice), 1, &notice_out).ok());
  notice.notice = Notice::kOffer;
  EXPECT_FALSE(DecodeNotice(BytesOf(notice), 0, &notice_out).ok());
  EXPECT_TRUE(DecodeNotice(BytesOf(notice), 1, &notice_out).ok());
  notice.notice = static_cast<Notice>(99);
  EXPECT_FALSE(DecodeNotice(BytesOf(notice), 0, &notice_out).ok());
}

TEST(PacketTest, NoiseNeverPassesTheLimits) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100'000; ++round) {
    std::string noise(random() % 2 == 0 ? sizeof(AnswerPacket) : random() % (sizeof(AnswerPacket) + 2), '\0');
    for (char& c : noise) c = static_cast<char>(random());
    // Otherwise the magic would reject everything.
    if (noise.size() >= 6) memcpy(noise.data(), BytesOf(HelloPacket()).data(), 6);
    AnswerPacket answer;
    const size_t fds = random() % (kMaxPacketFds + 2);
    if (DecodeAnswer(noise, fds, &answer).ok()) {
      ASSERT_LE(answer.text_bytes, kMaxWelcomeBytes);
      ASSERT_LE(answer.ranges, kMaxOffers);
      if (answer.accepted) {
        ASSERT_EQ(fds, kFirstRangeFd + answer.ranges);
      }
    }
    HelloPacket hello;
    if (DecodeHello(absl::string_view(noise).substr(0, sizeof(HelloPacket)), &hello).ok()) {
      ASSERT_LE(hello.hello_bytes, kMaxHelloBytes);
    }
  }
}

}  // namespace
}  // namespace farlook::rdma::shm
