#include "client/api/cluster.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {
namespace {

TEST(ClusterAddressTest, NamesSeedsAndTheCluster) {
  const auto address = ClusterAddress::Parse("farlook://a:1,b.example:2,[::1]:3,/run/farlook/s/kv");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->name, "kv");
  EXPECT_EQ(address->seeds,
            (std::vector<std::string>{"auto://a:1", "auto://b.example:2", "auto://[::1]:3", "shm:///run/farlook/s"}));
}

TEST(ClusterAddressTest, WhatNamesAServerIsNone) {
  for (const char* const text : {"shm:///tmp/x", "auto://a:1", "rdma://a:1,rdma://b:1", "", "nonsense"}) {
    const auto address = ClusterAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_TRUE(address->seeds.empty()) << text;
  }
}

TEST(ClusterAddressTest, SaysWhatOneLooksLike) {
  for (const char* const text : {"farlook://", "farlook://a:1", "farlook://a:1/", "farlook:///kv", "farlook://,/kv",
                                 "farlook://a:1,,b:1/kv", "farlook://a:1/k v"}) {
    const absl::Status status = ClusterAddress::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_NE(status.message().find("farlook://host:port"), std::string::npos) << status;
  }
}

TEST(ClusterMapTest, IsCompleteWhenEachSlotHasAServer) {
  kv::ClusterMap map;
  map.name = "kv";
  map.groups.push_back({"kv.0", 1, {"tcp://a:1"}, *kv::ParseSlots("0-2047")});
  map.groups.push_back({"kv.1", 1, {"tcp://b:1"}, *kv::ParseSlots("2049-4095")});
  map.groups.push_back({"kv.2", 0, {}, *kv::ParseSlots("2048")});
  const absl::Status status = CheckComplete(map);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("slots 2048 of"), std::string::npos) << status;
  map.groups[2].members.push_back("tcp://c:1");
  EXPECT_TRUE(CheckComplete(map).ok());
}

}  // namespace
}  // namespace farlook::client
