#include "server/places.h"

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(Places, WhoReturnsComesBeyondTheMostUpToTwiceAsMany) {
  Places places(2);
  EXPECT_TRUE(places.Take(/*returns=*/false));
  EXPECT_TRUE(places.Take(/*returns=*/false));
  EXPECT_FALSE(places.Take(/*returns=*/false));
  EXPECT_TRUE(places.Take(/*returns=*/true));
  EXPECT_TRUE(places.Take(/*returns=*/true));
  EXPECT_FALSE(places.Take(/*returns=*/true));
  EXPECT_EQ(places.taken(), 4);
  for (int i = 0; i < 3; ++i) places.Give();
  EXPECT_TRUE(places.Take(/*returns=*/false));
}

TEST(Places, AVacatedPlaceIsAnothersAndOnlySoManyAreVacated) {
  Places places(2);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(places.Take(/*returns=*/false));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(places.Vacate());
  EXPECT_EQ(places.taken(), 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(places.Take(/*returns=*/false));
  EXPECT_FALSE(places.Vacate());
  EXPECT_EQ(places.taken(), 2);
  // Expect: with the vacated ones those who return are as many as without.
  EXPECT_FALSE(places.Take(/*returns=*/true));
  places.Gone();
  EXPECT_TRUE(places.Take(/*returns=*/true));
  EXPECT_FALSE(places.Take(/*returns=*/true));
  EXPECT_TRUE(places.Vacate());
  EXPECT_EQ(places.taken(), 2);
}

TEST(Places, OperatorsHaveTheirOwn) {
  Places places(1);
  EXPECT_TRUE(places.Take(/*returns=*/false));
  for (int i = 0; i < Places::kForOperators; ++i) EXPECT_TRUE(places.TakeAsOperator());
  EXPECT_FALSE(places.TakeAsOperator());
  EXPECT_EQ(places.taken(), 1);
  places.GiveAsOperator();
  EXPECT_TRUE(places.TakeAsOperator());
}

}  // namespace
}  // namespace farlook::server
