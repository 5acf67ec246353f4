// A client of a cluster of three groups, each a server in this thread.
#include "client/core/cores.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/api/batch.h"
#include "client/api/waiter.h"
#include "client/core/core.h"
#include "client/core/cores_testing.h"
#include "client/op/operation.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"

namespace farlook::client {
namespace {

TEST_F(CoresTest, EachKeyIsForTheGroupOfItsSlot) {
  Connect();
  std::set<size_t> met;
  for (const std::string& key : Keys(100)) {
    const size_t owner = OwnerOf(key);
    Operation get;
    get.key = key;
    EXPECT_EQ(all_->Of(&get), cores_[owner]);
    EXPECT_EQ(get.hash, kv::Hasher(99)(key));
    met.insert(owner);
  }
  EXPECT_EQ(met.size(), kGroups);
  Operation ping;
  ping.kind = Kind::kPing;
  EXPECT_EQ(all_->Of(&ping), cores_[1]) << "it has no key";
  EXPECT_EQ(*all_->OfGroup(""), cores_[1]);
  EXPECT_EQ(*all_->OfGroup("kv.2"), cores_[2]);
  const absl::Status unknown = all_->OfGroup("kv.3").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_TRUE(absl::StrContains(unknown.message(), "kv.0, kv.1, kv.2")) << unknown;
}

TEST_F(CoresTest, WhatIsStartedTogetherGoesToAllAndComesBackFromAll) {
  Connect();
  const std::vector<std::string> keys = Keys(64);
  std::vector<Operation> puts(keys.size());
  std::vector<Operation*> pointers;
  for (size_t i = 0; i < keys.size(); ++i) {
    puts[i].kind = Kind::kPut;
    puts[i].key = puts[i].value = keys[i];
    pointers.push_back(&puts[i]);
  }
  all_->Start(pointers);
  EXPECT_EQ(all_->in_flight(), keys.size());
  // Expect: with one result per call, each group has its turn.
  std::set<const Operation*> ended;
  std::vector<size_t> from;
  for (int turn = 0; turn < 1000 && ended.size() < keys.size(); ++turn) {
    Operation* done;
    if (all_->Poll({&done, 1}) == 0) continue;
    EXPECT_TRUE(done->status.ok()) << done->status;
    EXPECT_TRUE(ended.insert(done).second);
    from.push_back(OwnerOf(std::string(done->key)));
  }
  EXPECT_EQ(ended.size(), keys.size());
  EXPECT_EQ(std::set<size_t>(from.begin(), from.begin() + 6).size(), kGroups)
      << "no group waits until another is empty";
  EXPECT_EQ(all_->in_flight(), 0u);
  EXPECT_FALSE(all_->has_ended());
  uint64_t sum = 0;
  for (size_t i = 0; i < kGroups; ++i) {
    EXPECT_GT(servers_[i]->table().stats().keys, 5u);
    sum += servers_[i]->table().stats().keys;
    for (const std::string& violation : servers_[i]->violations) ADD_FAILURE() << violation;
  }
  EXPECT_EQ(sum, keys.size());
  EXPECT_EQ(all_->stats().puts, keys.size());
}

// All groups are asked before any has answered.
TEST_F(CoresTest, ABatchIsOneForEachGroupAtOnce) {
  Connect();
  const std::vector<std::string> keys = Keys(48);
  for (const std::string& key : keys) ASSERT_EQ(servers_[OwnerOf(key)]->Put(key, key + "!").code, kv::Code::kOk);
  for (const auto& network : networks_) network->hold_reads = true;
  Waiter waiter(all_, /*spin_us=*/3'600'000'000);
  Batch batch(all_, &waiter);
  std::vector<std::string> found(keys.size());
  bool released = false;
  std::vector<absl::Status> statuses(keys.size());
  clock_.when_read = [&] {
    size_t holding = 0;
    for (const auto& network : networks_) holding += network->held_reads() > 0 ? 1 : 0;
    if (holding < kGroups || released) return;
    released = true;
    for (const auto& network : networks_) network->hold_reads = false;
    for (const auto& network : networks_) network->ReleaseReads();
  };
  const absl::Status status = batch.Run(
      Kind::kGet, keys.size(), /*timeout_ms=*/1000,
      [&](size_t i, Operation* operation) {
        operation->key = keys[i];
        operation->to.string = &found[i];
      },
      [&](size_t i, Operation* operation) { TakeStatus(operation, &statuses[i]); });
  clock_.when_read = nullptr;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(released) << "no group waits for another one";
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(statuses[i].ok()) << statuses[i];
    EXPECT_EQ(found[i], keys[i] + "!");
  }
  EXPECT_EQ(all_->stats().gets, keys.size());
  EXPECT_EQ(all_->stats().hits, keys.size());
}

TEST_F(CoresTest, AnErrorNamesTheGroupAndTheServer) {
  Connect();
  std::string key = "key0";
  for (int i = 0; OwnerOf(key) != 2; ++i) key = absl::StrCat("key", i);
  networks_[2]->server = nullptr;
  networks_[2]->Break();
  Operation get;
  get.key = key;
  std::string value;
  get.to.string = &value;
  Operation* pointer = &get;
  all_->Start({&pointer, 1});
  Operation* done;
  for (int turn = 0; turn < 1000 && all_->Poll({&done, 1}) == 0; ++turn) clock_.AdvanceMs(10);
  ASSERT_TRUE(get.done);
  EXPECT_TRUE(absl::IsDeadlineExceeded(get.status)) << get.status;
  EXPECT_TRUE(absl::StrContains(get.status.message(), "group kv.2, last reached at fake://2: ")) << get.status;
  // Expect: other groups are not affected, and errors about the key alone do not name a group.
  std::string other = "key0";
  for (int i = 0; OwnerOf(other) != 0; ++i) other = absl::StrCat("key", i);
  get.key = other;
  all_->Start({&pointer, 1});
  for (int turn = 0; turn < 100 && all_->Poll({&done, 1}) == 0; ++turn) continue;
  EXPECT_TRUE(absl::IsNotFound(get.status)) << get.status;
  EXPECT_FALSE(absl::StrContains(get.status.message(), "kv.")) << get.status;
}

}  // namespace
}  // namespace farlook::client
