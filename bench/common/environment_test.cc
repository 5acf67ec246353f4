#include "bench/common/environment.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

void Write(const std::filesystem::path& path, const char* text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::filesystem::path Fresh(const char* name) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

TEST(EnvironmentTest, TheModelIsTheFirstProcessors) {
  EXPECT_EQ(CpuModel("processor\t: 0\nmodel\t\t: 1\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: B\n"), "A CPU @ 2 GHz");
  EXPECT_EQ(CpuModel("Features: none\n"), "unknown");
}

TEST(EnvironmentTest, TheCommitIsFoundFromABranchBelow) {
  const std::filesystem::path root = Fresh("branch");
  Write(root / ".git/HEAD", "ref: refs/heads/main\n");
  Write(root / ".git/refs/heads/main", "0123abcd\n");
  Write(root / "a/b/file", "");
  EXPECT_EQ(FindCommit(root / "a/b"), "0123abcd (checked out)");
}

TEST(EnvironmentTest, TheCommitIsFoundInPackedReferencesAndDetached) {
  const std::filesystem::path root = Fresh("packed");
  Write(root / ".git/HEAD", "ref: refs/heads/main\n");
  Write(root / ".git/packed-refs", "# pack-refs with: peeled\n77 refs/heads/other\n88 refs/heads/main\n");
  EXPECT_EQ(FindCommit(root), "88 (checked out)");
  Write(root / ".git/HEAD", "99\n");
  EXPECT_EQ(FindCommit(root), "99 (checked out)");
}

TEST(EnvironmentTest, TheVariableGoesFirst) {
  setenv("FARLOOK_COMMIT", "fromenv", 1);
  EXPECT_EQ(FindCommit("/"), "fromenv");
  unsetenv("FARLOOK_COMMIT");
  EXPECT_EQ(FindCommit("/proc"), "unknown");
}

TEST(EnvironmentTest, EverythingIsFilledIn) {
  const Environment environment = DescribeEnvironment();
  EXPECT_FALSE(environment.cpu.empty());
  EXPECT_GT(environment.cpus, 0);
  EXPECT_GT(environment.memory_gib, 0);
  EXPECT_FALSE(environment.kernel.empty());
  EXPECT_FALSE(environment.compiler.empty());
  EXPECT_FALSE(environment.commit.empty());
}

}  // namespace
}  // namespace farlook::bench
