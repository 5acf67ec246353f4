#include "bench/stores/record.h"

#include <string>
#include <vector>

#include "bench/common/random.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

std::string Encode(const std::vector<absl::string_view>& fields) {
  std::string record;
  EncodeRecord(fields, &record);
  return record;
}

TEST(RecordTest, TheWorkedExampleOfTheHeader) { EXPECT_EQ(Encode({"ab", "", "c"}), std::string("\3\2\0\1abc", 7)); }

TEST(RecordTest, TheStandardRecordHas1011Bytes) {
  const std::string field(100, 'x');
  EXPECT_EQ(Encode(std::vector<absl::string_view>(10, field)).size(), 1011u);
}

TEST(RecordTest, WhatIsEncodedIsDecoded) {
  const std::string large(70000, 'l'), nul("\0\0", 2);
  const std::vector<std::vector<absl::string_view>> records = {
      {}, {""}, {"a"}, {large}, {nul, large, ""}, std::vector<absl::string_view>(kMaxFields, "f")};
  for (const std::vector<absl::string_view>& fields : records) {
    const std::string record = Encode(fields);
    std::vector<absl::string_view> decoded;
    ASSERT_TRUE(DecodeRecord(record, &decoded));
    EXPECT_EQ(decoded, fields);
  }
}

TEST(RecordTest, NoProperPrefixAndNoExtensionIsARecord) {
  const std::string record = Encode({"ab", std::string(200, 'x'), "c"});
  std::vector<absl::string_view> fields;
  for (size_t length = 0; length < record.size(); ++length) {
    EXPECT_FALSE(DecodeRecord(absl::string_view(record).substr(0, length), &fields)) << length;
  }
  EXPECT_FALSE(DecodeRecord(record + "x", &fields));
}

TEST(RecordTest, AbsurdNumbersAreRefused) {
  std::vector<absl::string_view> fields;
  EXPECT_FALSE(DecodeRecord("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &fields));
  EXPECT_FALSE(DecodeRecord(std::string("\1\xff\xff\xff\xff\xff\xff", 7), &fields));
  // Expect: more fields than allowed, though all their (empty) lengths are there.
  EXPECT_FALSE(DecodeRecord(Encode(std::vector<absl::string_view>(kMaxFields + 1, "")), &fields));
}

TEST(RecordTest, NoiseNeitherCrashesNorReadsBeyondItsEnd) {
  Random random(20240613);
  std::vector<absl::string_view> fields;
  for (int i = 0; i < 20000; ++i) {
    std::string noise(random.Below(40), '\0');
    for (char& byte : noise) byte = static_cast<char>(random.Below(4) == 0 ? random.Next() : random.Below(6));
    // On the heap and exactly as large, for the address sanitizer.
    const std::vector<char> exact(noise.begin(), noise.end());
    if (!DecodeRecord(absl::string_view(exact.data(), exact.size()), &fields)) continue;
    size_t total = 0;
    for (absl::string_view field : fields) total += field.size();
    EXPECT_LE(total, exact.size());
  }
}

TEST(RecordTest, APatchChangesItsFieldsOnly) {
  const std::string record = Encode({"zero", "one", "two"});
  std::string patched;
  ASSERT_TRUE(PatchRecord(record, std::vector<FieldWrite>{{1, "a longer one"}}, &patched));
  EXPECT_EQ(patched, Encode({"zero", "a longer one", "two"}));
  ASSERT_TRUE(PatchRecord(record, {}, &patched));
  EXPECT_EQ(patched, record);
}

TEST(RecordTest, APatchOfAFieldThatIsNotThereIsRefused) {
  std::string patched;
  EXPECT_FALSE(PatchRecord(Encode({"zero"}), std::vector<FieldWrite>{{1, "x"}}, &patched));
  EXPECT_FALSE(PatchRecord("\7noise", std::vector<FieldWrite>{{0, "x"}}, &patched));
}

}  // namespace
}  // namespace farlook::bench
