// Fixture: a client of a cluster whose slots move. First the giver refuses requests of the slot (Refuse). Then the
// giver enters another epoch, without the slot (Give). Then the taker enters another epoch, with it (Take).
#ifndef FARLOOK_CLIENT_CORE_MOVES_TESTING_H_
#define FARLOOK_CLIENT_CORE_MOVES_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "client/core/cores_testing.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {

inline constexpr size_t kGiver = 0, kTaker = 2;

class MovesTest : public CoresTest {
 protected:
  MovesTest() { key_ = KeyOf(kGiver); }

  void Refuse(const kv::SlotSet& slots) { servers_[kGiver]->moved |= slots; }
  void Give(const kv::SlotSet& slots) {
    map_.groups[kGiver].slots &= ~slots;
    ++map_.groups[kGiver].epoch;
    Enter(kGiver);
  }
  void Take(const kv::SlotSet& slots, size_t taker = kTaker) {
    map_.groups[taker].slots |= slots;
    ++map_.groups[taker].epoch;
    Enter(taker);
  }
  void MoveWithin(int64_t ms, const kv::SlotSet& slots, size_t taker = kTaker) {
    clock_.In(ms / 3, [this, slots] { Refuse(slots); });
    clock_.In(2 * ms / 3, [this, slots] { Give(slots); });
    clock_.In(ms, [this, slots, taker] { Take(slots, taker); });
  }

  // Polls for `ms`; returns how many operations have ended.
  size_t PollFor(int64_t ms) {
    size_t ended = 0;
    Operation* done[64];
    for (const int64_t end_ms = clock_.now_ms() + ms; clock_.now_ms() < end_ms;) {
      ended += all_->Poll(absl::MakeSpan(done));
      clock_.AdvanceMs(1);
    }
    return ended;
  }
  void PollUntil(const Operation& operation, int64_t most_ms = 900) {
    for (const int64_t end_ms = clock_.now_ms() + most_ms; !operation.done && clock_.now_ms() < end_ms;) PollFor(1);
    EXPECT_TRUE(operation.done);
  }
  // An idle client does not see a move: it looks at the epoch words again when its lease has expired.
  void WaitForLease() { clock_.AdvanceMs(200); }

  std::unique_ptr<OwnedOperation> Prepare(Kind kind, Condition condition = Condition::Always()) {
    auto owned = std::make_unique<OwnedOperation>(kind, key_, "value", condition);
    owned->operation.exactly_once = true;
    owned->operation.operand = 3;
    if (kind == Kind::kTouch || kind == Kind::kGetAndTouch) owned->operation.ttl_ms = 100'000;
    return owned;
  }
  void Start(Operation* operation) {
    operation->blocking = false;
    all_->Start({&operation, 1});
  }
  uint64_t Messages() const {
    uint64_t sum = 0;
    for (const auto& network : networks_) sum += network->sent.size();
    return sum;
  }
  void ExpectNoViolations() {
    for (const auto& server : servers_) {
      for (const std::string& violation : server->violations) ADD_FAILURE() << violation;
    }
    EXPECT_EQ(all_->in_flight(), 0u);
  }

  std::string key_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_MOVES_TESTING_H_
