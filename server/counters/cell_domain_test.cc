#include "server/counters/cell_domain.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::server {
namespace {

using rdma::AtomicDomain;

constexpr uint64_t kAddress = 0x10000;

// Words by their address; fails if `status` is an error.
struct FakeWords {
  std::map<uint64_t, uint64_t> words;
  absl::Status status;
};

class FakeLoopback final : public rdma::Loopback {
 public:
  explicit FakeLoopback(FakeWords* words) : words_(words) {}
  absl::Status Read(uint64_t address, uint64_t* value) override {
    *value = words_->words[address];
    return words_->status;
  }
  absl::Status FetchAdd(uint64_t address, uint64_t delta, uint64_t* old_value) override {
    *old_value = words_->words[address];
    if (words_->status.ok()) words_->words[address] += delta;
    return words_->status;
  }
  absl::Status CompareSwap(uint64_t address, uint64_t expected, uint64_t desired, uint64_t* old_value) override {
    *old_value = words_->words[address];
    if (words_->status.ok() && *old_value == expected) words_->words[address] = desired;
    return words_->status;
  }

 private:
  FakeWords* const words_;
};

class DomainListener final : public rdma::FakeListener {
 public:
  DomainListener(AtomicDomain domain, uint32_t rkey, FakeWords* words) : domain_(domain), rkey_(rkey), words_(words) {}
  std::string address() const override { return absl::StrCat("fake://", rkey_); }
  AtomicDomain atomic_domain() const override { return domain_; }
  absl::StatusOr<rdma::RemoteRange> Offer(const rdma::SharedRange& range, rdma::Access access) override {
    EXPECT_EQ(access, rdma::Access::kRemoteReadAtomic);
    return rdma::RemoteRange{kAddress, range.bytes, rkey_};
  }
  absl::StatusOr<std::unique_ptr<rdma::Loopback>> ConnectToItself(const rdma::RemoteRange& range) override {
    EXPECT_EQ(range.rkey, rkey_);
    if (!words_->status.ok()) return words_->status;
    return std::make_unique<FakeLoopback>(words_);
  }

 private:
  const AtomicDomain domain_;
  const uint32_t rkey_;
  FakeWords* const words_;
};

class CellDomainTest : public testing::Test {
 protected:
  absl::StatusOr<CellDomain> Make(std::initializer_list<AtomicDomain> domains) {
    listeners_.clear();
    for (const AtomicDomain domain : domains) {
      const auto rkey = static_cast<uint32_t>(listeners_.size() + 1);
      listeners_.push_back(std::make_unique<DomainListener>(domain, rkey, &device_));
    }
    return OfferCells(listeners_, {cells_, sizeof(cells_), -1});
  }
  // Returns the keys that clients of each listener get.
  std::vector<uint32_t> Keys(std::initializer_list<AtomicDomain> domains) {
    std::vector<uint32_t> keys;
    auto domain = Make(domains);
    EXPECT_TRUE(domain.ok()) << domain.status();
    if (!domain.ok()) return keys;
    name_ = domain->name;
    for (const rdma::RemoteRange& range : domain->ranges) keys.push_back(range.rkey);
    return keys;
  }

  alignas(64) char cells_[4096] = {};
  FakeWords device_;
  std::vector<std::unique_ptr<rdma::Listener>> listeners_;
  std::string name_;
};

TEST_F(CellDomainTest, TheFirstListenerWithAtomicsTellsAndNoOtherDomainGetsAKey) {
  const auto none = AtomicDomain::kNone, cpu = AtomicDomain::kCpu, device = AtomicDomain::kDevice;
  EXPECT_EQ(Keys({cpu}), (std::vector<uint32_t>{1}));
  EXPECT_EQ(name_, "cpu");
  EXPECT_EQ(Keys({device}), (std::vector<uint32_t>{1}));
  EXPECT_EQ(name_, "fake://1");
  EXPECT_EQ(Keys({none}), (std::vector<uint32_t>{0}));
  EXPECT_EQ(name_, "cpu");
  EXPECT_EQ(Keys({cpu, device, cpu}), (std::vector<uint32_t>{1, 0, 3})) << "all CPUs are one domain";
  EXPECT_EQ(Keys({none, device, cpu, device}), (std::vector<uint32_t>{0, 2, 0, 0})) << "two devices are not";
  EXPECT_EQ(name_, "fake://2");
}

TEST_F(CellDomainTest, OnADeviceTheServerWritesThroughItAlone) {
  auto domain = Make({AtomicDomain::kDevice});
  ASSERT_TRUE(domain.ok()) << domain.status();
  int64_t old = 0;
  EXPECT_TRUE(domain->writer->FetchAdd(128, -3, &old));
  EXPECT_TRUE(domain->writer->CompareSwap(128, -3, 9, &old));
  EXPECT_EQ(old, -3);
  EXPECT_TRUE(domain->writer->Read(128, &old));
  EXPECT_EQ(old, 9);
  EXPECT_EQ(device_.words, (std::map<uint64_t, uint64_t>{{kAddress + 128, 9}}));
  for (const char byte : cells_) ASSERT_EQ(byte, 0) << "the CPU changed a cell of the device's domain";
  // Expect: a failure is reported, and the next call is tried.
  device_.status = absl::UnavailableError("the port is down");
  EXPECT_FALSE(domain->writer->FetchAdd(128, 1, &old));
  EXPECT_FALSE(domain->writer->CompareSwap(128, 9, 1, &old));
  EXPECT_FALSE(domain->writer->Read(128, &old));
  device_.status = absl::OkStatus();
  EXPECT_TRUE(domain->writer->Read(128, &old));
  EXPECT_EQ(old, 9);
}

TEST_F(CellDomainTest, OnTheCpuTheServerWritesTheMemory) {
  auto domain = Make({AtomicDomain::kNone, AtomicDomain::kCpu});
  ASSERT_TRUE(domain.ok()) << domain.status();
  int64_t old = 0;
  EXPECT_TRUE(domain->writer->FetchAdd(64, 5, &old));
  EXPECT_EQ(cells_[64], 5);
}

TEST_F(CellDomainTest, ADeviceThatCannotReachItselfIsAnErrorThatNamesTheWayOut) {
  device_.status = absl::UnavailableError("retries exceeded");
  const absl::Status status = Make({AtomicDomain::kDevice}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "retries exceeded; --counter_memory=0 does without counters");
}

}  // namespace
}  // namespace farlook::server
