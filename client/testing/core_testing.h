// Fixture for the tests of ClientCore: a core over a fake network with a small server behind it, in virtual time.
#ifndef FARLOOK_CLIENT_TESTING_CORE_TESTING_H_
#define FARLOOK_CLIENT_TESTING_CORE_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/core/core.h"
#include "client/op/operation.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "farlook/options.h"
#include "gtest/gtest.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/words.h"

namespace farlook::client {

// An operation that owns the memory it refers to, so that it can be destroyed when it has ended.
struct OwnedOperation {
  OwnedOperation(Kind kind, absl::string_view key_bytes, absl::string_view value_bytes = "",
                 Condition condition = Condition::Always())
      : key(key_bytes), value(value_bytes) {
    operation.kind = kind;
    operation.key = key;
    operation.value = value;
    operation.condition = condition;
    operation.to.string = &result;
  }
  bool done() const { return operation.done; }
  const absl::Status& status() const { return operation.status; }
  absl::StatusCode code() const { return operation.status.code(); }

  std::string key, value, result;
  Operation operation;
};

class CoreTest : public testing::Test {
 protected:
  CoreTest() : server_(std::make_unique<MiniServer>(4711)) {
    network_.server = server_.get();
    options_.mirror_bytes = 0;
    options_.share_mirror = false;
  }

  void MakeCore() {
    core_ = std::make_unique<ClientCore>(network_.CreateEndpoint(), "fake://", options_, clock_, /*random_seed=*/1);
  }
  void Connect() {
    MakeCore();
    core_->Connect();
    Poll();
    ASSERT_TRUE(core_->ready()) << core_->refused();
  }

  // Does everything that can happen without time passing. Returns how many operations ended.
  size_t Poll() {
    size_t ended = 0;
    Operation* done[16];
    for (int i = 0; i < 50; ++i) ended += core_->Poll(absl::MakeSpan(done));
    return ended;
  }
  // Lets time pass, `ms` at most, until the operation has ended.
  void PollFor(int64_t ms, const Operation& operation) {
    for (int64_t i = 0; i <= ms && !operation.done; ++i) {
      Poll();
      clock_.AdvanceMs(1);
    }
  }

  std::unique_ptr<OwnedOperation> Start(Kind kind, absl::string_view key, absl::string_view value = "",
                                        int64_t timeout_ms = 0) {
    auto owned = std::make_unique<OwnedOperation>(kind, key, value);
    owned->operation.timeout_ms = timeout_ms;
    core_->Start(&owned->operation);
    return owned;
  }
  // Starts an operation and lets it end.
  std::unique_ptr<OwnedOperation> Do(Kind kind, absl::string_view key, absl::string_view value = "") {
    auto owned = Start(kind, key, value);
    PollFor(options_.timeout_ms + 1, owned->operation);
    Poll();  // an operation that ended in Start() is in flight until Poll() has returned it
    EXPECT_TRUE(owned->done());
    return owned;
  }
  // The same for a put with a condition.
  std::unique_ptr<OwnedOperation> PutIf(Condition condition, absl::string_view key, absl::string_view value) {
    auto owned = std::make_unique<OwnedOperation>(Kind::kPut, key, value, condition);
    core_->Start(&owned->operation);
    Poll();
    EXPECT_TRUE(owned->done());
    return owned;
  }
  // The same for a put of an item that expires.
  void PutFor(int64_t ttl_ms, absl::string_view key, absl::string_view value) {
    OwnedOperation put(Kind::kPut, key, value);
    put.operation.ttl_ms = ttl_ms;
    core_->Start(&put.operation);
    Poll();
    ASSERT_TRUE(put.status().ok()) << put.status();
  }
  std::string Get(absl::string_view key) {
    auto get = Do(Kind::kGet, key);
    return get->status().ok() ? get->result : get->status().ToString();
  }
  absl::Status Put(absl::string_view key, absl::string_view value) { return Do(Kind::kPut, key, value)->status(); }
  void ExpectNoViolations() {
    for (const std::string& violation : server_->violations) ADD_FAILURE() << violation;
  }

  kv::IndexState IndexState() { return kv::IndexState(kv::LoadWord(server_->region().data() + kv::kIndexStateOffset)); }
  // Returns the directory's entry for `key`; with `beside` 1, the one for positions that differ in the last bit.
  kv::DirectoryEntry EntryOf(absl::string_view key, uint64_t beside = 0) {
    const int level = IndexState().level();
    const uint64_t position = (kv::PositionOf(server_->table().HashOf(key)) >> (64 - level)) ^ beside;
    return kv::DirectoryEntry(
        kv::LoadWord(server_->region().data() + kv::RegionHeader().DirectoryArray(level) + 8 * position));
  }
  // Puts other keys until the segment of `key` is split.
  void SplitSegmentOf(absl::string_view key) {
    const kv::DirectoryEntry old = EntryOf(key);
    while (EntryOf(key) == old) PutFiller();
  }
  void PutFiller() { ASSERT_EQ(server_->Put("filler" + std::to_string(fillers_++), "").code, kv::Code::kOk); }

  // Splits the segment of `key`. Its old memory leaves the index, and is made to look like the key's bucket, empty.
  void ImitateBucketOf(absl::string_view key) {
    char* const region = server_->region().data();
    const kv::DirectoryEntry old = EntryOf(key);
    SplitSegmentOf(key);
    kv::StoreWord(region + kv::kIndexStateOffset,
                  kv::IndexState(IndexState().level(), IndexState().epoch() + 1).word());
    clock_.AdvanceMs(100);
    char* const bucket = region + old.offset() + kv::BucketOf(server_->table().HashOf(key)) * kv::kBucketBytes;
    for (size_t i = 0; i < kv::kWordsPerBucket; ++i) kv::StoreWord(bucket + 8 * i, 0);
    kv::StoreWord(bucket, kv::BucketInfo(old.segment_id(), kv::BucketOf(server_->table().HashOf(key)), 0).word());
  }

  static std::string Pattern(size_t bytes, int seed = 1) {
    std::string text(bytes, '\0');
    uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
    for (char& c : text) {
      state = state * 1664525 + 1013904223;
      c = static_cast<char>(state >> 24);
    }
    return text;
  }

  rdma::FakeClock clock_{1'000'000'000};
  FakeNetwork network_;
  std::unique_ptr<MiniServer> server_;
  ClientOptions options_;
  std::unique_ptr<ClientCore> core_;
  int fillers_ = 0;  // number of fillers that were put
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TESTING_CORE_TESTING_H_
