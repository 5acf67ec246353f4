#include "bench/common/properties.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string Message(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(PropertiesTest, PairsAreReadAsJavaReadsThem) {
  Properties properties;
  ASSERT_TRUE(ParseProperties("# comment\n"
                              "  ! another = one\n"
                              "\n"
                              "plain=1\r\n"
                              "  spaced =  two words  \n"
                              "colon: 3\n"
                              "blank 4\n"
                              "empty=\n"
                              "long=a,\\\n"
                              "   b\n"
                              "escaped\\=name=\\t\\\\\\u0041\n"
                              "plain=5\n"
                              "last=6",
                              "here", &properties)
                  .ok());
  EXPECT_THAT(properties,
              ElementsAre(Pair("blank", "4"), Pair("colon", "3"), Pair("empty", ""), Pair("escaped=name", "\t\\A"),
                          Pair("last", "6"), Pair("long", "a,b"), Pair("plain", "5"), Pair("spaced", "two words")));
}

TEST(PropertiesTest, WhatIsNotAPairIsAnErrorWithItsLine) {
  Properties properties;
  EXPECT_THAT(Message(ParseProperties("a=1\n=2\n", "file", &properties)), HasSubstr("file:2"));
  EXPECT_THAT(Message(ParseProperties("a=\\u00e9\n", "file", &properties)), HasSubstr("file:1"));
  EXPECT_THAT(Message(ParseProperties("a=\\u00", "file", &properties)), HasSubstr("file:1"));
}

TEST(PropertiesTest, AFileThatIsNotThereIsNamed) {
  Properties properties;
  EXPECT_THAT(Message(LoadProperties("/nowhere/workloada", &properties)),
              HasSubstr("/nowhere/workloada: No such file"));
  EXPECT_THAT(Message(LoadProperties("/proc", &properties)), HasSubstr("/proc: Is a directory"));
  EXPECT_TRUE(LoadProperties("/dev/null", &properties).ok());
}

TEST(PropertyReaderTest, ValuesAreTypedAndAbsentOnesHaveDefaults) {
  const Properties properties = {{"i", "-5"}, {"d", "0.5"}, {"t", "TRUE"}, {"f", "false"}, {"s", "text"}};
  PropertyReader reader(&properties);
  EXPECT_EQ(reader.Int("i", 1, -10), -5);
  EXPECT_EQ(reader.Double("d", 1, 0, 1), 0.5);
  EXPECT_TRUE(reader.Bool("t", false));
  EXPECT_FALSE(reader.Bool("f", true));
  EXPECT_EQ(reader.String("s", "x"), "text");
  EXPECT_EQ(reader.Int("none", 7), 7);
  EXPECT_TRUE(reader.Bool("none", true));
  EXPECT_TRUE(reader.status().ok());
}

TEST(PropertyReaderTest, TheFirstErrorIsKeptAndNamesTheProperty) {
  const Properties properties = {{"count", "12x"}, {"other", "y"}};
  PropertyReader reader(&properties);
  EXPECT_EQ(reader.Int("count", 3), 3);
  reader.Bool("other", false);
  EXPECT_EQ(Message(reader.status()), "property count=12x is not a whole number of 64 bits");
}

TEST(PropertyReaderTest, MalformedValuesAreErrors) {
  const Properties properties = {
      {"big", "99999999999999999999"}, {"low", "-1"}, {"none", ""}, {"nan", "nan"}, {"share", "1.5"}, {"flag", "yes"}};
  const auto error = [&properties](auto read) {
    PropertyReader reader(&properties);
    read(&reader);
    return Message(reader.status());
  };
  EXPECT_THAT(error([](PropertyReader* r) { r->Int("big", 0); }), HasSubstr("whole number"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Int("low", 0); }), HasSubstr("is below 0"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Int("none", 0); }), HasSubstr("whole number"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Int("low", 0, 1, 9); }), HasSubstr("between 1 and 9"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Double("nan", 0, 0, 1); }), HasSubstr("not a number"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Double("share", 0, 0, 1); }), HasSubstr("between 0 and 1"));
  EXPECT_THAT(error([](PropertyReader* r) { r->Bool("flag", false); }), HasSubstr("neither true nor false"));
}

TEST(PropertyReaderTest, WhatNobodyAskedForIsUnread) {
  const Properties properties = {{"known", "1"}, {"unknown", "2"}};
  PropertyReader reader(&properties);
  reader.Int("known", 0);
  EXPECT_THAT(reader.Unread(), ElementsAre("unknown"));
}

}  // namespace
}  // namespace farlook::bench
