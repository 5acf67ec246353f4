#include "bench/stores/store_address.h"

#include <string>

#include "bench/common/properties.h"
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

TEST(StoreAddressTest, PropertiesSayWhichServer) {
  Properties properties;
  PropertyReader defaults(&properties);
  const auto usual = ReadStoreServer("redis", "tcp://127.0.0.1:6379", &defaults);
  ASSERT_TRUE(usual.ok());
  EXPECT_EQ(usual->address.port, 6379);
  EXPECT_EQ(usual->timeout_ms, 10'000);

  properties = {{"redis.address", "unix:///tmp/redis.sock"}, {"redis.timeout_ms", "5"}};
  PropertyReader reader(&properties);
  const auto given = ReadStoreServer("redis", "tcp://127.0.0.1:6379", &reader);
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->address.path, "/tmp/redis.sock");
  EXPECT_EQ(given->address_text, "unix:///tmp/redis.sock");
  EXPECT_EQ(given->timeout_ms, 5);

  properties = {{"redis.address", "h:1"}};
  PropertyReader wrong(&properties);
  EXPECT_FALSE(ReadStoreServer("redis", "tcp://127.0.0.1:6379", &wrong).ok());
  EXPECT_NE(wrong.status().message().find("redis.address"), std::string::npos) << wrong.status();
}

TEST(StoreAddressTest, TellsThisHostFromOthers) {
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("unix:///tmp/redis.sock")));
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("tcp://127.0.0.1:6379")));
  EXPECT_TRUE(IsThisHost(*ParseStoreAddress("tcp://localhost:6379")));
  EXPECT_FALSE(IsThisHost(*ParseStoreAddress("tcp://192.0.2.1:6379")));  // RFC 5737: reserved for documentation
}

}  // namespace
}  // namespace farlook::bench
