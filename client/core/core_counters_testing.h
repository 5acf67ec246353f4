// Counters of the client over a fake network.
#ifndef FARLOOK_CLIENT_CORE_CORE_COUNTERS_TESTING_H_
#define FARLOOK_CLIENT_CORE_CORE_COUNTERS_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/testing/core_testing.h"
#include "kv/wire/cell_notice.h"

namespace farlook::client {

class CoreCountersTest : public CoreTest {
 protected:
  CoreCountersTest() {
    server_->offer_cells = true;
    network_.capabilities.atomics = true;
  }

  std::unique_ptr<OwnedOperation> Begin(Kind kind, absl::string_view key, int64_t operand = 0, int64_t expected = 0,
                                        int64_t timeout_ms = 0) {
    auto owned = std::make_unique<OwnedOperation>(kind, key);
    owned->operation.operand = operand;
    owned->operation.expected = expected;
    owned->operation.timeout_ms = timeout_ms;
    core_->Start(&owned->operation);
    return owned;
  }
  std::unique_ptr<OwnedOperation> Count(Kind kind, absl::string_view key, int64_t operand = 0, int64_t expected = 0) {
    auto owned = Begin(kind, key, operand, expected);
    PollFor(options_.timeout_ms + 1, owned->operation);
    Poll();
    EXPECT_TRUE(owned->done());
    return owned;
  }
  // Returns the value before, or -999 with a failure.
  int64_t Add(absl::string_view key, int64_t delta) {
    auto add = Count(Kind::kFetchAdd, key, delta);
    EXPECT_TRUE(add->status().ok()) << add->status();
    return add->status().ok() ? add->operation.counter : -999;
  }
  void Create(absl::string_view key, int64_t initial = 0) {
    auto create = Count(Kind::kCreateCounter, key, initial);
    ASSERT_TRUE(create->status().ok()) << create->status();
  }
  void Notice(uint64_t sequence, const std::vector<std::string>& keys) {
    std::vector<uint64_t> hashes;
    for (const std::string& key : keys) hashes.push_back(server_->table().HashOf(key));
    network_.Inject(kv::CellNotice::Encode(sequence, hashes));
    Poll();
  }
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_CORE_COUNTERS_TESTING_H_
