// Fixture for the tests of Cores: a client of a cluster of three groups, each a server in this thread, in virtual time.
#ifndef FARLOOK_CLIENT_CORE_CORES_TESTING_H_
#define FARLOOK_CLIENT_CORE_CORES_TESTING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/api/client_impl.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/op/operation.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "farlook/options.h"
#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"
#include "rdma/clock.h"

namespace farlook::client {

inline constexpr size_t kGroups = 3;

// A microsecond passes with each reading of the clock. Scheduled functions run at their times.
class HookedClock final : public rdma::Clock {
 public:
  int64_t NowNs() const override {
    now_ns_ += step_ns;
    while (!later_.empty() && later_.begin()->first <= now_ns_) {
      const std::function<void()> what = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      what();
    }
    if (when_read) when_read();
    return now_ns_;
  }
  int64_t now_ms() const { return now_ns_ / 1'000'000; }
  void AdvanceMs(int64_t ms) { now_ns_ += ms * 1'000'000; }
  void In(int64_t ms, std::function<void()> what) { later_.emplace(now_ns_ + ms * 1'000'000, std::move(what)); }

  int64_t step_ns = 1000;
  std::function<void()> when_read;

 private:
  mutable int64_t now_ns_ = 1'000'000'000;
  mutable std::multimap<int64_t, std::function<void()>> later_;
};

class CoresTest : public testing::Test {
 protected:
  CoresTest() {
    map_.name = "kv";
    map_.hash_seed = 99;
    const std::array<const char*, kGroups> slots = {"0-999", "1000-1999,4000-4095", "2000-3999"};
    options_.mirror_bytes = 0;
    options_.share_mirror = false;
    options_.spin_us = 3'600'000'000;  // never asleep: the fake transport has no descriptor
    for (const char* its : slots) AddServer(*kv::ParseSlots(its));
  }

  // Adds a group in its first epoch.
  size_t AddServer(const kv::SlotSet& slots) {
    const size_t i = map_.groups.size();
    const std::string address = absl::StrCat("fake://", i);
    map_.groups.push_back({absl::StrCat("kv.", i), 1, {address}, slots});
    servers_.push_back(std::make_unique<MiniServer>(100 + i));
    networks_.push_back(std::make_unique<FakeNetwork>());
    networks_[i]->server = servers_[i].get();
    servers_[i]->primary = address;
    servers_[i]->gets = servers_[i]->puts = 4;
    Enter(i);
    return i;
  }
  // Puts the group into the epoch and gives it the slots that map_ says. Connected clients see it.
  void Enter(size_t i) {
    servers_[i]->group_epoch = map_.groups[i].epoch;
    servers_[i]->slots = kv::WordsOf(map_.groups[i].slots);
    servers_[i]->moved = ~map_.groups[i].slots;
    servers_[i]->table().ShowEpoch(kv::EpochWord::Open(map_.groups[i].epoch));
    for (const auto& server : servers_) server->map = map_.Encode();
  }

  std::unique_ptr<ClientCore> MakeCore(size_t i) {
    return std::make_unique<ClientCore>(networks_[i]->CreateEndpoint(), absl::StrCat("fake://", i), options_, clock_,
                                        /*random_seed=*/1);
  }
  // The group that is reached first is not the first in the map.
  void Connect() {
    impl_.reset();
    cores_.clear();
    auto first = MakeCore(1);
    std::vector<std::unique_ptr<ClientCore>> others;
    for (size_t i = 0; i < map_.groups.size(); ++i) {
      if (i != 1) others.push_back(MakeCore(i));
      cores_.push_back(i == 1 ? first.get() : others.back().get());
      cores_[i]->Connect();
      for (int turn = 0; turn < 50; ++turn) cores_[i]->Poll({});
    }
    impl_ = std::make_unique<ClientImpl>(std::move(first), "fake://", options_);
    impl_->others = std::move(others);
    all_ = &impl_->cores;
    all_->Spread(map_, cores_, [this](const kv::ClusterMap::Group& group) -> absl::StatusOr<ClientCore*> {
      for (size_t i = 0; i < map_.groups.size(); ++i) {
        if (map_.groups[i].name != group.name) continue;
        impl_->others.push_back(MakeCore(i));
        cores_.push_back(impl_->others.back().get());
        return cores_.back();
      }
      return absl::NotFoundError("the test has no such group");
    });
  }

  size_t OwnerOf(const std::string& key) {
    const size_t slot = SlotOf(key);
    for (size_t i = 0; i < map_.groups.size(); ++i) {
      if (map_.groups[i].slots[slot]) return i;
    }
    return map_.groups.size();
  }
  static size_t SlotOf(const std::string& key) { return kv::ClusterSlotOf(kv::Hasher(99)(key)); }
  static kv::SlotSet SlotsOf(absl::Span<const std::string> keys) {
    kv::SlotSet slots;
    for (const std::string& key : keys) slots.set(SlotOf(key));
    return slots;
  }
  std::vector<std::string> Keys(size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back(absl::StrCat("key", i));
    return keys;
  }
  // Returns a key that the group owns.
  std::string KeyOf(size_t group) {
    std::string key = "key0";
    for (int i = 0; OwnerOf(key) != group; ++i) key = absl::StrCat("key", i);
    return key;
  }

  HookedClock clock_;
  kv::ClusterMap map_;
  ClientOptions options_;
  std::vector<std::unique_ptr<FakeNetwork>> networks_;
  std::vector<std::unique_ptr<MiniServer>> servers_;
  std::unique_ptr<ClientImpl> impl_;  // destroyed before the others
  Cores* all_ = nullptr;              // owned by impl_
  std::vector<ClientCore*> cores_;    // owned by impl_
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_CORES_TESTING_H_
