// Values longer than 64 MiB through a real server and a real client: in shared memory, or over RDMA.
#include <string>

#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

std::string Pattern(size_t bytes, size_t seed) {
  std::string value(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 7 + i / 255 + seed);
  return value;
}

TEST(LongValuesTest, AValueOf80MiBGoesThereAndBackAndIsReplaced) {
  ServerProcess server({"--memory=256MiB", "--counter_memory=0", "--max_value_bytes=512MiB"});
  auto client = MustConnect(server.address());
  for (const size_t seed : {1, 2}) {
    const std::string value = Pattern(size_t{80} << 20, seed);
    const auto put = client->Put("key", value);
    ASSERT_TRUE(put.ok()) << put.status();
    const auto got = client->Get("key");
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->data == value);
    std::string buffer(value.size(), 'x');
    const auto bytes = client->GetInto("key", buffer);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, value.size());
    EXPECT_TRUE(buffer == value);
  }
}

}  // namespace
}  // namespace farlook
