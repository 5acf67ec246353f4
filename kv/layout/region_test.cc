#include "kv/layout/region.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// The worked example of docs/layout.md.
constexpr char kGolden[] =
    "4641524c4f4f4b31"  // "FARLOOK1"
    "0200000000000000"  // layout version 2
    "8877665544332211"  // incarnation
    "2a00000000000000"  // hash seed 42
    "0000000400000000"  // 64 MiB
    "0400000000000000"  // 4 partitions
    "8000000000000000"  // the directory begins at 128
    "8000010000000000"  // the marks at 128 + 64 KiB
    "8001010000000000"  // the redo pieces 4 lines later
    "8011010000000000"  // the page map 4 KiB later
    "0004000000000000"  // 1,024 units
    "a51ae2a0dfa8da83"  // checksum
    "0300000000000000"  // level 3
    "000000000000000000000000000000000000000000000000";

std::string Header() { return absl::HexStringToBytes(kGolden); }

std::string With(uint64_t offset, uint64_t word, bool fit_checksum = true) {
  std::string bytes = Header();
  StoreAs(bytes.data() + offset, word);
  if (fit_checksum) StoreAs(bytes.data() + 88, Hasher(LoadAs<uint64_t>(bytes.data() + 24))(bytes.data(), 88));
  return bytes;
}

absl::string_view Reason(const absl::StatusOr<RegionHeader>& header) { return header.status().message(); }

TEST(RegionHeader, GoldenBytes) {
  alignas(64) char region[128] = {};
  RegionHeader header = RegionHeader::For(64 * kMiB, 4);
  header.incarnation = 0x1122'3344'5566'7788;
  header.hash_seed = 42;
  header.level = 3;
  WriteRegionHeader(region, header);
  EXPECT_EQ(absl::BytesToHexString({region, sizeof region}), kGolden);

  const auto decoded = DecodeRegionHeader(Header(), 64 * kMiB);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->incarnation, header.incarnation);
  EXPECT_EQ(decoded->hash_seed, 42u);
  EXPECT_EQ(decoded->region_bytes, 64 * kMiB);
  EXPECT_EQ(decoded->partitions, 4u);
  EXPECT_EQ(decoded->directory_offset, 128u);
  EXPECT_EQ(decoded->MarksOf(1), decoded->marks_offset + 64);
  EXPECT_EQ(decoded->RedoOf(1), decoded->redo_offset + 1024);
  EXPECT_EQ(decoded->MapWordOf(5 * kUnitBytes + 1), decoded->map_offset + 40);
  EXPECT_EQ(decoded->map_entries, 1024u);
  EXPECT_EQ(decoded->ReservedBytes(), header.ReservedBytes());
  EXPECT_EQ(decoded->level, 3);
  EXPECT_EQ(decoded->DirectoryArray(3), 192u);
}

TEST(RegionHeader, EachWrongFieldHasItsReason) {
  const uint64_t mapped = 64 * kMiB;
  for (size_t bytes = 0; bytes < kRegionHeaderBytes; ++bytes) {
    EXPECT_EQ(Reason(DecodeRegionHeader(Header().substr(0, bytes), mapped)), "region header is cut short");
  }
  EXPECT_EQ(Reason(DecodeRegionHeader(With(0, 0), mapped)), "the server's memory is not a Farlook region");
  EXPECT_EQ(Reason(DecodeRegionHeader(With(8, 1), mapped)),
            "the server's region has layout version 1, this client reads 2: use client and server of the same release");
  for (const uint64_t offset : {16, 24, 32, 40, 48, 56, 64, 72, 80}) {
    EXPECT_EQ(Reason(DecodeRegionHeader(With(offset, 0x999, false), mapped)),
              "region header: its checksum does not fit");
  }
  EXPECT_EQ(Reason(DecodeRegionHeader(With(88, 0, false), mapped)), "region header: its checksum does not fit");
  EXPECT_EQ(Reason(DecodeRegionHeader(Header(), mapped - 1)),
            "region header: 67108864 bytes, but 67108863 are offered");
  EXPECT_EQ(Reason(DecodeRegionHeader(With(32, kMinRegionBytes - 1), mapped)),
            "region header: 16777215 bytes, but 67108864 are offered");
  for (const int level : {0, 2, 13, 64, 255}) {
    EXPECT_EQ(Reason(DecodeRegionHeader(With(kIndexStateOffset, IndexState(level, 7).word()), mapped)),
              "region header: impossible directory level " + std::to_string(level));
  }
  const auto later = DecodeRegionHeader(With(kIndexStateOffset, IndexState(5, 0x1234).word()), mapped);
  ASSERT_TRUE(later.ok()) << "level and epoch change, the checksum does not";
  EXPECT_EQ(later->level, 5);
  EXPECT_EQ(later->epoch, 0x1234u);
  EXPECT_EQ(later->state().word(), 0x123405u);
  for (const uint64_t offset : {uint64_t{129}, mapped, mapped - 64, ~uint64_t{7}}) {
    EXPECT_EQ(Reason(DecodeRegionHeader(With(48, offset), mapped)),
              "region header: the directory lies outside the region");
  }
  EXPECT_TRUE(DecodeRegionHeader(With(48, mapped - 128), mapped).ok()) << "16 words end with the region";
}

TEST(RegionHeader, AllOfItFitsBeforeTheFirstPageAndNothingOverlaps) {
  for (uint64_t bytes = kMinRegionBytes; bytes <= kMaxRegionBytes; bytes = bytes * 3 / 2 / kPageBytes * kPageBytes) {
    const int level = MaxLevelFor(bytes);
    const RegionHeader header = RegionHeader::For(bytes, kMaxPartitions);
    EXPECT_LE(header.DirectoryArray(level) + (uint64_t{8} << level), header.MarksOf(0));
    EXPECT_EQ(header.MarksOf(0) % kLineBytes, 0u);
    EXPECT_EQ(header.MarksOf(kMaxPartitions), header.RedoOf(0));
    EXPECT_EQ(header.RedoOf(kMaxPartitions), header.map_offset);
    EXPECT_EQ(header.MapWordOf(bytes), header.ReservedBytes());
    EXPECT_LE(header.ReservedBytes(), ReservedPages(bytes) * kPageBytes);
    EXPECT_LT(RegionHeader::For(bytes, 1).ReservedBytes(), bytes / 256);
    EXPECT_LT(ReservedPages(bytes), bytes / kPageBytes / 2);
    EXPECT_GE(uint64_t{1} << level, bytes / kSegmentBytes) << "an entry for each segment that the region can hold";
  }
  EXPECT_LE(MaxLevelFor(kMaxRegionBytes), kMaxLevel);
}

TEST(MapWord, GoldenBytes) {
  const MapWord word(MapWord::Use::kItems, 2, 63, 32);
  EXPECT_EQ(word.word(), 0x0000'0020'0000'3f22u);
  EXPECT_EQ(word.use(), MapWord::Use::kItems);
  EXPECT_EQ(word.block(), 2);
  EXPECT_EQ(word.partition(), 63);
  EXPECT_EQ(word.units(), 32u);
  EXPECT_EQ(MapWord().use(), MapWord::Use::kFree);
  EXPECT_EQ(MapWord(MapWord::Use::kItems, 3, MapWord::kShared, 1).word(), 0x0000'0001'0000'ff32u);
}

}  // namespace
}  // namespace farlook::kv
