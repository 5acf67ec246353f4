#include "kv/wire/cell_notice.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/wire/message.h"

namespace farlook::kv {
namespace {

// The bytes of docs/protocol.md.
constexpr char kNotice[] =
    "80000200000000000700000000000000"  // two hashes, sequence 7
    "88776655443322119f0ce688be048a19";

TEST(CellNoticeTest, TheBytesAreThoseOfTheDocumentation) {
  const std::string bytes = absl::HexStringToBytes(kNotice);
  EXPECT_EQ(CellNotice::Encode(7, {0x1122334455667788, 0x198a04be88e60c9f}), bytes);
  ASSERT_TRUE(CellNotice::Is(bytes));
  auto notice = CellNotice::Decode(bytes);
  ASSERT_TRUE(notice.ok()) << notice.status();
  EXPECT_EQ(notice->sequence(), 7u);
  ASSERT_EQ(notice->size(), 2u);
  EXPECT_EQ(notice->hash(0), 0x1122334455667788u);
  EXPECT_EQ(notice->hash(1), 0x198a04be88e60c9fu);
}

TEST(CellNoticeTest, NoReplyIsANotice) {
  for (int code = 0; code < kCodes; ++code) {
    char bytes[Reply::kHeaderBytes];
    Reply reply;
    reply.code = static_cast<Code>(code);
    reply.EncodeHead(bytes);
    EXPECT_FALSE(CellNotice::Is({bytes, sizeof bytes}));
  }
  EXPECT_FALSE(CellNotice::Is({}));
}

TEST(CellNoticeTest, TheLongestFitsInAMessage) {
  const std::string bytes = CellNotice::Encode(1, std::vector<uint64_t>(CellNotice::kMaxHashes, 5));
  EXPECT_LE(bytes.size(), kMaxMessageBytes);
  EXPECT_TRUE(CellNotice::Decode(bytes).ok());
}

TEST(CellNoticeTest, EveryOtherLengthAndEveryReservedBitIsRefused) {
  const std::string good = absl::HexStringToBytes(kNotice);
  for (size_t bytes = 0; bytes < good.size(); ++bytes) EXPECT_FALSE(CellNotice::Decode(good.substr(0, bytes)).ok());
  EXPECT_FALSE(CellNotice::Decode(good + std::string(8, '\0')).ok());
  for (const size_t at : {0, 1, 2, 3, 4, 5, 6, 7}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_FALSE(CellNotice::Decode(bad).ok()) << at;
  }
  std::string zero = good;
  zero[8] = 0;
  EXPECT_FALSE(CellNotice::Decode(zero).ok());
}

}  // namespace
}  // namespace farlook::kv
