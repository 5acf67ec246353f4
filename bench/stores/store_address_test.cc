#include "bench/stores/store_address.h"

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

TEST(StoreAddressTest, APathOrAHostAndPort) {
  const auto path = ParseStoreAddress("unix:///tmp/redis.sock");
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->path, "/tmp/redis.sock");
  const auto tcp = ParseStoreAddress("tcp://127.0.0.1:6379");
  ASSERT_TRUE(tcp.ok());
  EXPECT_EQ(tcp->path, "");
  EXPECT_EQ(tcp->host, "127.0.0.1");
  EXPECT_EQ(tcp->port, 6379);
}

TEST(StoreAddressTest, AnythingElseIsRefused) {
  for (const char* text :
       {"", "unix://", "unix:///", "unix://tmp/x", "tcp://:1", "tcp://h", "tcp://h:0", "tcp://h:65536", "h:1"}) {
    EXPECT_FALSE(ParseStoreAddress(text).ok()) << text;
  }
}

TEST(StoreAddressTest, TellsThisHostFromOthers) {
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("unix:///tmp/redis.sock")));
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("tcp://127.0.0.1:6379")));
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("tcp://localhost:6379")));
  EXPECT_FALSE(IsThisHost(*ParseStoreAddress("tcp://192.0.2.1:6379")));  // RFC 5737: nobody's
}

}  // namespace
}  // namespace farlook::bench
