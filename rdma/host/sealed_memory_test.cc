#include "rdma/host/sealed_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma {
namespace {

// By default SIGXFSZ ends a process without a message.
TEST(SealedMemoryTest, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto fits = CreateSealable("fits", 1 << 20);
  const auto beyond = CreateSealable("beyond", (1 << 20) + 1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(fits.ok()) << fits.status();
  EXPECT_TRUE(absl::IsResourceExhausted(beyond.status())) << beyond.status();
  EXPECT_THAT(std::string(beyond.status().message()), testing::HasSubstr("ulimit -f"));
}

TEST(SealedMemoryTest, ALimitOfAddressesIsSaidBeforeMemoryIsMapped) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlim_t mapped_pages = 0;  // a sanitizer's are many, and differ by machine: 20 to 130 TiB
  std::ifstream("/proc/self/statm") >> mapped_pages;
  ASSERT_GT(mapped_pages, 0u);
  const rlim_t room = rlim_t{1} << 40;
  const rlimit low = {mapped_pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + room, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const absl::Status fits = CheckAddressSpace(1 << 20), beyond = CheckAddressSpace(2 * room);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_TRUE(fits.ok()) << fits;
  EXPECT_TRUE(absl::IsResourceExhausted(beyond)) << beyond;
  EXPECT_THAT(std::string(beyond.message()), testing::HasSubstr("ulimit -v"));
}

constexpr size_t kLargeBytes = size_t{256} << 30;

// Returns whether the kernel would exclude the mapping that begins at `data` from a core dump.
bool IsLeftOut(const char* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = absl::StrFormat("%x-", reinterpret_cast<uintptr_t>(data));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found |= absl::StartsWith(line, begin);
    if (!found || !absl::StartsWith(line, "VmFlags:")) continue;
    for (const absl::string_view flag : absl::StrSplit(line, ' ')) {
      if (flag == "dd") return true;
    }
    return false;
  }
  ADD_FAILURE() << "no mapping begins there";
  return false;
}

UniqueFd Memory(size_t bytes) {
  absl::StatusOr<UniqueFd> fd = CreateSealable("farlook-test", bytes);
  EXPECT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(Seal(fd->get(), Sealing::kFixedSize).ok());
  return *std::move(fd);
}

int MappingsOfTests() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += absl::StrContains(line, "memfd:farlook-test") ? 1 : 0;
  return count;
}

TEST(SealedMemoryTest, AFileIsMappedOnceForAllOfAProcess) {
  const UniqueFd fd = Memory(kLargeBytes);
  std::vector<std::shared_ptr<const Mapping>> all;
  for (int i = 0; i < 64; ++i) {
    auto mapping = MapOnce(fd.get(), kLargeBytes, /*writable=*/false);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    all.push_back(*std::move(mapping));
    EXPECT_EQ(all[i]->data(), all[0]->data());
  }
  EXPECT_EQ(MappingsOfTests(), 1);
  all.clear();
  EXPECT_EQ(MappingsOfTests(), 0);
}

TEST(SealedMemoryTest, OtherFilesAndOtherRightsHaveMappingsOfTheirOwn) {
  const UniqueFd one = Memory(8192), two = Memory(8192);
  const auto reader = *MapOnce(one.get(), 8192, /*writable=*/false);
  const auto writer = *MapOnce(one.get(), 8192, /*writable=*/true);
  const auto other = *MapOnce(two.get(), 8192, /*writable=*/false);
  EXPECT_NE(reader->data(), writer->data());
  EXPECT_NE(reader->data(), other->data());
  writer->data()[0] = 'x';
  EXPECT_EQ(reader->data()[0], 'x');
  EXPECT_EQ(other->data()[0], '\0');
}

TEST(SealedMemoryTest, NothingOfItIsInCoreDumps) {
  const UniqueFd fd = Memory(8 << 20);
  EXPECT_TRUE(IsLeftOut(Map(fd.get(), 8 << 20, /*writable=*/true)->data()));
  EXPECT_TRUE(IsLeftOut((*MapOnce(fd.get(), 8 << 20, /*writable=*/false))->data()));
  EXPECT_TRUE(IsLeftOut(MapAnonymous(8192)->data()));
}

}  // namespace
}  // namespace farlook::rdma
