// The worked example of docs/layout.md: a new table of 64 MiB with one key, byte by byte.
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

TEST(Layout, TheWorkedExample) {
  TestMemory memory(64 << 20);
  TableOptions options;
  options.incarnation = 0x1122'3344'5566'7788;
  options.hash_seed = 42;
  const auto table = *Table::Create(memory.span(), options);
  const uint64_t hash = table->HashOf("user1");
  const WriteResult put = table->Put(hash, "user1", "hello, farlook", Condition::kAlways, 0, 1);
  ASSERT_EQ(put.code, Code::kOk);
  const auto hex = [&](uint64_t offset, size_t bytes) {
    return absl::BytesToHexString({memory.span().data() + offset, bytes});
  };

  // The place of the key.
  EXPECT_EQ(hash, 0x198a'04be'88e6'0c9fu);
  EXPECT_EQ(PositionOf(hash), 0x2300'1eb8'f996'1b51u);
  EXPECT_EQ(BucketOf(hash), 128u);
  EXPECT_EQ(FingerprintOf(hash), 0x0c9fu);

  // The header; see region_test.cc for its fields.
  EXPECT_EQ(hex(0, 128),
            "4641524c4f4f4b310200000000000000"
            "88776655443322112a00000000000000"
            "00000004000000000100000000000000"
            "80000000000000008000010000000000"
            "c000010000000000c004010000000000"
            "0004000000000000dc1af66abe806bf7"
            "03000000000000000000000000000000"
            "00000000000000000000000000000000");
  // The marks of the one partition: versions may be in use up to 1 + 2^20, segment ids up to 1 + 2^12; values have up
  // to 2^24 bytes.
  EXPECT_EQ(hex(0x1'0080, 64),
            "01001000000000000110000000000000"
            "00000000000000000000000000000000"
            "00000000000000000000000000000000"
            "00000001000000000000000000000000");
  // The directory of level 3, which begins at 128 + 8 * 2^3: segments 1 to 8.
  EXPECT_EQ(hex(192, 64),
            "00040000040000000005000008000000"
            "000600000c0000000007000010000000"
            "00080000140000000009000018000000"
            "000a00001c000000000b000020000000");
  // The page map: units 2 to 5 are the index's, unit 31 is a small block of partition 0.
  EXPECT_EQ(hex(0x1'04c0 + 8, 40),
            "0000000000000000"
            "01ff000001000000"
            "01ff000001000000"
            "01ff000001000000"
            "01ff000001000000");
  EXPECT_EQ(hex(0x1'04c0 + 8 * 31, 16),
            "1200000001000000"
            "0000000000000000");
  // Bucket 128 of segment 2: its description, one slot.
  EXPECT_EQ(hex(0x2'8000 + 128 * 128, 24),
            "000080b508000000"
            "00f8000080009f0c"
            "0000000000000000");
  // The item.
  EXPECT_EQ(put.slot.offset(), 0x1f'0000u);
  EXPECT_EQ(hex(0x1f'0000, 64),
            "418b0a75f7fc6c10000000000079379e"
            "0100000000000000050000000e000000"
            "757365723100000068656c6c6f2c2066"
            "61726c6f6f6b00000000000000000000");
}

}  // namespace
}  // namespace farlook::kv
