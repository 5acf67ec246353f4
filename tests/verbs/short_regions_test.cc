// A server and its clients on a device whose memory regions are shorter than the server's memory, so that values and
// counters lie in several (rdma/verbs/split_range.h). Needs verbs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "rdma/test_address.h"
#include "rdma/verbs/pretended_device.h"
#include "server/server.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

// They overlap by 1 MiB, so that a table of 16 MiB, the smallest, takes eight, and counters of 3 MiB two.
constexpr uint64_t kMaxMrSize = uint64_t{3} << 20;
constexpr uint64_t kTableBytes = uint64_t{16} << 20;
constexpr uint64_t kCounterBytes = uint64_t{3} << 20;
constexpr size_t kCellsOfOneRegion = (size_t{2} << 20) / 64;

std::string ValueOf(size_t number, size_t bytes) {
  std::string value;
  for (uint64_t word = number * 0x9e3779b97f4a7c15; value.size() < bytes; word = word * 0xd1342543de82ef95 + 1) {
    value.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  value.resize(bytes);
  return value;
}

class ShortRegionsTest : public testing::Test {
 protected:
  void SetUp() override {
    rdma::verbs::Pretence device;
    device.max_mr_size = kMaxMrSize;
    rdma::verbs::Pretend(device);
    server::ServerOptions options;
    options.listen = {rdma::UnusedTestAddress()};
    options.memory_bytes = kTableBytes;
    options.counter_memory_bytes = kCounterBytes;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = options.listen[0];
  }

  std::unique_ptr<Client> NewClient() const {
    ClientOptions options;
    options.timeout_ms = 60'000;
    auto client = Client::Connect(address_, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  std::unique_ptr<server::Server> server_;
  std::string address_;
};

// The server pulls values to wherever regions meet, and clients READ them from there.
TEST_F(ShortRegionsTest, ValuesAreWholeWhereverRegionsMeet) {
  const auto writer = NewClient(), reader = NewClient();
  ASSERT_TRUE(writer != nullptr && reader != nullptr);
  // Regions begin at pages of 2 MiB: who is longer than one lies in several.
  const std::vector<size_t> lengths = {100, 100'000, 2'500'000};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto put = writer->Put(absl::StrCat("key", i), ValueOf(i, lengths[i]));
    ASSERT_TRUE(put.ok()) << lengths[i] << " bytes: " << put.status();
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (Client* client : {writer.get(), reader.get()}) {
      const auto value = client->Get(absl::StrCat("key", i));
      ASSERT_TRUE(value.ok()) << lengths[i] << " bytes: " << value.status();
      ASSERT_TRUE(value->data == ValueOf(i, lengths[i])) << lengths[i] << " bytes";
    }
  }
}

// Cells are given out one after the other: at full length so many that the last ones lie in the second region, which
// takes half a minute. (SplitRangeTest of //rdma/verbs:conformance has atomics in each region.)
TEST_F(ShortRegionsTest, CountersCount) {
  const auto client = NewClient(), other = NewClient();
  ASSERT_TRUE(client != nullptr && other != nullptr);
  const auto counters = static_cast<size_t>(Repeat(128, kCellsOfOneRegion + 64));
  std::vector<std::string> keys;
  for (size_t i = 0; i < counters; ++i) keys.push_back(absl::StrCat(i));
  constexpr size_t kAtOnce = 1024;
  for (size_t begin = 0; begin < counters; begin += kAtOnce) {
    std::vector<Operation> creates(std::min(kAtOnce, counters - begin));
    for (size_t i = 0; i < creates.size(); ++i) {
      creates[i].type = Operation::Type::kCreateCounter;
      creates[i].key = keys[begin + i];
      creates[i].operand = static_cast<int64_t>(begin + i);
    }
    client->RunAll(absl::MakeSpan(creates));
    for (const Operation& create : creates) ASSERT_TRUE(create.status.ok()) << create.key << ": " << create.status;
  }
  for (size_t i = counters - 128; i < counters; ++i) {
    // Expect: the first use asks for the cell, the second goes to it.
    for (int64_t added = 0; added < 2; ++added) {
      const auto before = other->FetchAdd(keys[i], 1);
      ASSERT_TRUE(before.ok()) << before.status();
      ASSERT_EQ(*before, static_cast<int64_t>(i) + added);
    }
    const auto now = client->ReadCounter(keys[i]);
    ASSERT_TRUE(now.ok()) << now.status();
    ASSERT_EQ(*now, static_cast<int64_t>(i) + 2);
  }
}

}  // namespace
}  // namespace farlook
