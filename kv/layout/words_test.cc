#include "kv/layout/words.h"

#include <string>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

TEST(Words, StoreBytesPadsTheLastWordWithZerosAndTouchesNoOther) {
  const std::string from = "0123456789abcdefghijklmnop";
  for (size_t bytes = 0; bytes <= from.size(); ++bytes) {
    alignas(8) char to[40];
    std::memset(to, 0x7e, sizeof to);
    StoreBytes(to, from.data(), bytes);
    const size_t padded = (bytes + 7) / 8 * 8;
    EXPECT_EQ(std::string(to, bytes), from.substr(0, bytes));
    EXPECT_EQ(std::string(to + bytes, padded - bytes), std::string(padded - bytes, '\0'));
    EXPECT_EQ(std::string(to + padded, sizeof to - padded), std::string(sizeof to - padded, 0x7e));
  }
}

TEST(Words, StoreDeadBytesCopiesKeysAndOthersAndTouchesNoOtherWord) {
  std::string from(90, '\0');
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i + 1);
  for (const auto store : {StoreDeadBytes, StoreDeadKey}) {
    for (size_t bytes = 1; bytes <= 80; ++bytes) {
      alignas(8) char to[96];
      std::memset(to, 0x7e, sizeof to);
      store(to, from.data() + bytes % 8, bytes);
      const size_t padded = (bytes + 7) / 8 * 8;
      EXPECT_EQ(std::string(to, bytes), from.substr(bytes % 8, bytes));
      EXPECT_EQ(std::string(to + padded, sizeof to - padded), std::string(sizeof to - padded, 0x7e));
    }
  }
}

TEST(Words, LoadGranulesCopiesWholeGranulesAndTouchesNoOther) {
  alignas(32) char from[128], to[160];
  for (size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<char>(i);
  for (size_t bytes = 0; bytes <= sizeof from; bytes += 32) {
    std::memset(to, 0x7e, sizeof to);
    LoadGranules(to, from, bytes);
    EXPECT_EQ(std::string(to, bytes), std::string(from, bytes));
    EXPECT_EQ(std::string(to + bytes, sizeof to - bytes), std::string(sizeof to - bytes, 0x7e));
  }
}

TEST(Words, AreLittleEndian) {
  alignas(8) char at[8];
  StoreWord(at, 0x0807'0605'0403'0201);
  EXPECT_EQ(std::string(at, 8), "\1\2\3\4\5\6\7\10");
  EXPECT_EQ(LoadWord(at), 0x0807'0605'0403'0201u);
  EXPECT_EQ(LoadAs<uint16_t>(at + 1), 0x0302);
}

}  // namespace
}  // namespace farlook::kv
