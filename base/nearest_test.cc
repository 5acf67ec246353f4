#include "base/nearest.h"

#include <string>

#include "gtest/gtest.h"

namespace farlook {
namespace {

constexpr absl::string_view kWords[] = {"get", "put", "insert", "delete", "import", "export", "exists"};

TEST(NearestTest, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("gte", kWords), "get");
  EXPECT_EQ(Nearest("gett", kWords), "get");
  EXPECT_EQ(Nearest("inser", kWords), "insert");
  EXPECT_EQ(Nearest("improt", kWords), "import");
  EXPECT_EQ(Nearest("del", kWords), "delete");
}

TEST(NearestTest, DoesNotGuessWildly) {
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest("zzz", kWords), "");
  EXPECT_EQ(Nearest("ex", kWords), "") << "export as well as exists";
  EXPECT_EQ(Nearest(std::string(100000, 'g'), kWords), "");
  EXPECT_EQ(Nearest("get", {}), "");
}

}  // namespace
}  // namespace farlook
