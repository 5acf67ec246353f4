#include "rdma/tcp/frame.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "rdma/tcp/bytes.h"
#include "rdma/tcp/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {
namespace {

TEST(BytesTest, WhatIsAppendedComesOutInOrder) {
  Bytes bytes;
  std::string expected;
  for (size_t i = 0; i < 2000; ++i) {
    const std::string more(i % 300, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(bytes.Append(more));
    expected += more;
    const size_t consumed = expected.empty() ? 0 : (i * 7919) % expected.size();
    bytes.Consume(consumed);
    expected.erase(0, consumed);
    ASSERT_EQ(bytes.view(), expected);
  }
}

// Frames are written in place as words, even after a socket took an odd number of bytes.
TEST(BytesTest, GrownBytesStayAlignedWhateverIsConsumed) {
  Bytes bytes;
  for (size_t i = 1; i < 500; ++i) {
    char* const grown = bytes.Grow(8 * (i % 50 + 1));
    ASSERT_NE(grown, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(grown) % 8, 0u);
    bytes.Consume(i * 31 % bytes.size());
  }
}

// A batch of answers does not allocate memory each time that one is sent.
TEST(BytesTest, WhatWasMuchIsUsedAgain) {
  SpareMemory spare;
  Bytes first, second, without;
  first.Use(&spare);
  second.Use(&spare);
  ASSERT_TRUE(first.Append(std::string(100'000, 'a')));
  EXPECT_EQ(spare.words, nullptr);
  first.Clear();
  const uint64_t* const kept = spare.words.get();
  ASSERT_NE(kept, nullptr);
  for (Bytes* bytes : {&second, &first, &second}) {
    ASSERT_TRUE(bytes->Append(std::string(4'000, 'b')));
    EXPECT_EQ(spare.words.get(), kept) << "little needs it not";
    ASSERT_TRUE(bytes->Append(std::string(50'000, 'c')));
    EXPECT_EQ(bytes->view(), std::string(4'000, 'b') + std::string(50'000, 'c'));
    EXPECT_EQ(static_cast<const void*>(bytes->data()), kept);
    bytes->Consume(10);
    bytes->Clear();
    EXPECT_EQ(spare.words.get(), kept);
  }
  // Expect: of several the largest is kept, and none above the limit.
  ASSERT_TRUE(first.Append(std::string(50'000, 'd')) && second.Append(std::string(200'000, 'e')));
  first.Clear();
  second.Clear();
  EXPECT_GE(spare.capacity, 200'000u);
  const size_t capacity = spare.capacity;
  ASSERT_TRUE(first.Append(std::string(2 * SpareMemory::kMostBytes, 'f')));
  first.Clear();
  EXPECT_EQ(spare.capacity, capacity);
  ASSERT_TRUE(without.Append(std::string(100'000, 'g')));
  without.Clear();
  EXPECT_EQ(spare.capacity, capacity);
}

TEST(FrameTest, AMessageLooksAsDocumented) {
  Bytes out;
  ASSERT_TRUE(AppendFrame(FrameType::kMessage, 2, "ab", "c", &out));
  const char kBytes[] = "\x03\0\0\0\x06\0\0\0\x02\0\0\0\0\0\0\0abc\0\0\0\0\0";
  EXPECT_EQ(out.view(), absl::string_view(kBytes, sizeof(kBytes) - 1));
}

TEST(FrameTest, AReadAndTheGreetingLookAsDocumented) {
  Bytes out;
  ASSERT_TRUE(AppendRead({0x1122, 0x33, 0x44}, &out));
  const char kBytes[] = "\x08\0\0\0\x08\0\0\0\x22\x11\0\0\0\0\0\0\x33\0\0\0\x44\0\0\0";
  EXPECT_EQ(out.view(), absl::string_view(kBytes, sizeof(kBytes) - 1));
  const uint64_t greeting = Greeting();
  EXPECT_EQ(memcmp(&greeting, "FARLOOK\x01", 8), 0);
}

TEST(FrameTest, FramesComeBackOneByOneAndPartialOnesWait) {
  Bytes out;
  ASSERT_TRUE(AppendFrame(FrameType::kMessage, 1, "hello", "", &out));
  ASSERT_TRUE(AppendRead({4096, 7, 100}, &out));
  const std::string all(out.view());
  const size_t first = kFrameHeadBytes + 8;
  for (size_t length = 0; length <= all.size(); ++length) {
    absl::string_view bytes = absl::string_view(all).substr(0, length);
    Frame frame;
    EXPECT_EQ(NextFrame(&bytes, &frame), length < first ? Parsed::kPartial : Parsed::kFrame) << length;
    if (length < first) {
      EXPECT_EQ(bytes.size(), length) << "nothing is taken of a partial frame";
      continue;
    }
    EXPECT_EQ(frame.payload, "hello");
    EXPECT_EQ(NextFrame(&bytes, &frame), length < all.size() ? Parsed::kPartial : Parsed::kFrame) << length;
  }
  absl::string_view bytes = absl::string_view(all).substr(first);
  Frame frame;
  ASSERT_EQ(NextFrame(&bytes, &frame), Parsed::kFrame);
  const ReadOrder order = ReadOrderOf(frame);
  EXPECT_EQ(order.address, 4096u);
  EXPECT_EQ(order.rkey, 7u);
  EXPECT_EQ(order.bytes, 100u);
}

// Bounds the bytes kept of a partial frame.
TEST(FrameTest, LengthsBeyondThoseOfTheTypeAreInvalidAtOnce) {
  struct {
    FrameType type;
    size_t least, most;
  } const kCases[] = {
      {FrameType::kHello, 0, kMaxHelloBytes},
      {FrameType::kWelcome, 16, 16 + kMaxWelcomeBytes},
      {FrameType::kReject, 0, kMaxRejectBytes},
      {FrameType::kAttach, 16, 16},
      {FrameType::kAttached, 0, 0},
      {FrameType::kMessage, 1, kMaxMessageBytes},
      {FrameType::kTaken, 0, 0},
      {FrameType::kRead, 8, 8},
      {FrameType::kData, 1, kChunkBytes},
      {FrameType::kRefused, 0, 0},
  };
  for (const auto& c : kCases) {
    for (const size_t length : {c.least, c.most, c.least - 1, c.most + 1}) {
      char head[kFrameHeadBytes] = {};
      memcpy(head, &length, 4);
      head[4] = static_cast<char>(c.type);
      absl::string_view bytes(head, sizeof(head));
      Frame frame;
      const bool valid = length >= c.least && length <= c.most;
      EXPECT_EQ(NextFrame(&bytes, &frame) == Parsed::kInvalid, !valid) << static_cast<int>(c.type) << " " << length;
    }
  }
  for (const int type : {0, 11, 255}) {
    char head[kFrameHeadBytes] = {};
    head[4] = static_cast<char>(type);
    absl::string_view bytes(head, sizeof(head));
    Frame frame;
    EXPECT_EQ(NextFrame(&bytes, &frame), Parsed::kInvalid) << type;
  }
}

TEST(FrameTest, OtherProtocolsAndVersionsAreTold) {
  Frame frame;
  frame.argument = Greeting();
  EXPECT_TRUE(CheckGreeting(frame).ok());
  frame.argument += uint64_t{1} << 56;
  EXPECT_NE(CheckGreeting(frame).message().find("version 2"), std::string::npos);
  frame.argument = 5;
  EXPECT_NE(CheckGreeting(frame).message().find("does not speak"), std::string::npos);
}

}  // namespace
}  // namespace farlook::rdma::tcp
