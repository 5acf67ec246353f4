#include "kv/wire/fields.h"

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

// Takes tags 1 to 9; 9 must have at least one byte.
absl::Status Read(absl::string_view bytes, std::map<uint16_t, std::string>* fields) {
  return ReadFields("test", bytes, [fields](uint16_t tag, absl::string_view value) {
    if (tag > 9) return FieldUse::kUnknown;
    if (tag == 9 && value.empty()) return FieldUse::kMalformed;
    (*fields)[tag] = std::string(value);
    return FieldUse::kTaken;
  });
}

std::string Reason(absl::string_view hex) {
  std::map<uint16_t, std::string> fields;
  return std::string(Read(Bytes(hex), &fields).message());
}

TEST(Fields, GoldenBytesAndBack) {
  std::string bytes;
  AppendField(3, "hello", &bytes);
  AppendField(1, "", &bytes);
  AppendField(9, "abcd", &bytes);
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "0300050068656c6c6f000000"
            "01000000"
            "0900040061626364");
  std::map<uint16_t, std::string> fields;
  ASSERT_TRUE(Read(bytes, &fields).ok());
  EXPECT_EQ(fields, (std::map<uint16_t, std::string>{{3, "hello"}, {1, ""}, {9, "abcd"}}));
}

TEST(Fields, UnknownOnesAreIgnoredUnlessTheyAreCritical) {
  std::map<uint16_t, std::string> fields;
  EXPECT_TRUE(Read(Bytes("0a00040061626364"), &fields).ok());
  EXPECT_TRUE(fields.empty());
  const absl::Status status = Read(Bytes("0a80040061626364"), &fields);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "the test needs something that this release does not know (field 10): use the later release");
  // Expect: a known one may be critical.
  EXPECT_TRUE(Read(Bytes("0380040061626364"), &fields).ok());
  EXPECT_EQ(fields[3], "abcd");
}

TEST(Fields, FourZeroBytesFillUp) {
  std::map<uint16_t, std::string> fields;
  EXPECT_TRUE(Read(Bytes("00000000"
                         "0100000000000000"),
                   &fields)
                  .ok());
  EXPECT_EQ(fields.size(), 1u);
  EXPECT_EQ(Reason("00000400"
                   "61626364"),
            "malformed message: test: a field without a tag");
  EXPECT_EQ(Reason("00800000"), "malformed message: test: a field without a tag");
}

TEST(Fields, EachWrongOneHasItsReason) {
  const std::string m = "malformed message: test: ";
  const std::string whole = Bytes("0300050068656c6c6f000000");
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(Reason(absl::BytesToHexString(whole.substr(0, bytes))), m + "a field is cut short") << bytes;
  }
  EXPECT_EQ(Reason("0300ffff68656c6c"), m + "a field is cut short");
  EXPECT_EQ(Reason("0300050068656c6c6f000001"), m + "padding is not zero");
  EXPECT_EQ(Reason("03000000"
                   "03000000"),
            m + "field 3 is there twice");
  EXPECT_EQ(Reason("03000000"
                   "03800000"),
            m + "field 3 is there twice");
  EXPECT_EQ(Reason("0a000000"
                   "0a000000"),
            m + "field 10 is there twice");
  EXPECT_EQ(Reason("09000000"), m + "field 9 is too short or invalid");
}

}  // namespace
}  // namespace farlook::kv
