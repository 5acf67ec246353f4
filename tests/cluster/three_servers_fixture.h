// For tests: a group of three kv_server processes.
#ifndef FARLOOK_TESTS_CLUSTER_THREE_SERVERS_FIXTURE_H_
#define FARLOOK_TESTS_CLUSTER_THREE_SERVERS_FIXTURE_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {

class ThreeServersTest : public GroupTest {
 protected:
  explicit ThreeServersTest(const std::string& suspicion = "10s", int replicas = 3, int min_insync = 1,
                            const std::string& group = "")
      : GroupTest(suspicion, group, replicas, min_insync) {
    b_ = Start();
    c_ = Start();
    addresses_ = absl::StrCat(a_->address(), ",", b_->address(), ",", c_->address());
    client_ = MustConnect(addresses_, Reading());
    AwaitBackups(replicas - 1);
    if (min_insync > 1) Load();
  }
  ~ThreeServersTest() override { c_.reset(); }

  void AwaitBackups(size_t count) {
    while (!HasFailure() && CountBackups() != count) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  size_t CountBackups() {
    size_t count = 0;
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      count += absl::StartsWith(line, "backup ") && !absl::StrContains(line, " disconnected");
    }
    return count;
  }
  ServerProcess& Primary() { return IsPrimary(*a_) ? *a_ : IsPrimary(*b_) ? *b_ : *c_; }
  // Returns the incarnation at this address, as the group's primary reports it.
  std::string IncarnationAt(const std::string& address) {
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() > 2 && words[1] == address) return words[2];
    }
    return "";
  }
  std::map<std::string, std::string> Incarnations() {
    std::map<std::string, std::string> all;
    for (const auto* server : {a_.get(), b_.get(), c_.get()}) all[server->address()] = IncarnationAt(server->address());
    return all;
  }
  // Expects that none of the others has restarted.
  void ExpectOthersAre(const std::map<std::string, std::string>& before, const ServerProcess& primary) {
    for (const auto& [address, incarnation] : before) {
      if (address == primary.address()) continue;
      EXPECT_EQ(IncarnationAt(address), incarnation) << address << " began anew";
    }
  }

  std::unique_ptr<ServerProcess> c_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_CLUSTER_THREE_SERVERS_FIXTURE_H_
