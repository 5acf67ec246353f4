#include "server/session/connection_quota.h"

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(ConnectionQuota, WhoReturnsComesBeyondTheMostUpToTwiceAsMany) {
  ConnectionQuota quota(2);
  EXPECT_TRUE(quota.Take(/*returns=*/false));
  EXPECT_TRUE(quota.Take(/*returns=*/false));
  EXPECT_FALSE(quota.Take(/*returns=*/false));
  EXPECT_TRUE(quota.Take(/*returns=*/true));
  EXPECT_TRUE(quota.Take(/*returns=*/true));
  EXPECT_FALSE(quota.Take(/*returns=*/true));
  EXPECT_EQ(quota.taken(), 4);
  for (int i = 0; i < 3; ++i) quota.Give();
  EXPECT_TRUE(quota.Take(/*returns=*/false));
}

TEST(ConnectionQuota, AVacatedPlaceIsAnothersAndOnlySoManyAreVacated) {
  ConnectionQuota quota(2);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(quota.Take(/*returns=*/false));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(quota.Vacate());
  EXPECT_EQ(quota.taken(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(quota.Take(/*returns=*/false));
  EXPECT_FALSE(quota.Vacate());
  EXPECT_EQ(quota.taken(), 2);
  // Expect: vacated places count towards the limit of connections that return.
  EXPECT_FALSE(quota.Take(/*returns=*/true));
  quota.Gone();
  EXPECT_TRUE(quota.Take(/*returns=*/true));
  EXPECT_FALSE(quota.Take(/*returns=*/true));
  EXPECT_TRUE(quota.Vacate());
  EXPECT_EQ(quota.taken(), 2);
}

TEST(ConnectionQuota, OperatorsHaveTheirOwn) {
  ConnectionQuota quota(1);
  EXPECT_TRUE(quota.Take(/*returns=*/false));
  for (int i = 0; i < ConnectionQuota::kForOperators; ++i) EXPECT_TRUE(quota.TakeAsOperator());
  EXPECT_FALSE(quota.TakeAsOperator());
  EXPECT_EQ(quota.taken(), 1);
  quota.GiveAsOperator();
  EXPECT_TRUE(quota.TakeAsOperator());
}

}  // namespace
}  // namespace farlook::server
