// Tests the URL of a group's record, the options of its servers, and detection of the end of a process.
#include "server/group/group_url.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "server/daemon/server_options.h"
#include "server/group/process_lock.h"

namespace farlook::server {
namespace {

TEST(GroupUrl, OfFilesAndOfEtcd) {
  const auto files = GroupUrl::Parse("file:///var/lib/farlook/groups/kv");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->folder, "/var/lib/farlook/groups");
  EXPECT_EQ(files->name, "kv");
  EXPECT_EQ(files->locks(), "/var/lib/farlook/groups/kv.locks");
  const auto etcd = GroupUrl::Parse("etcd://a:2379,b:2379/kv");
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  EXPECT_EQ(etcd->endpoints, (std::vector<std::string>{"http://a:2379", "http://b:2379"}));
  EXPECT_EQ(etcd->name, "kv");
  EXPECT_EQ(etcd->locks(), "");
  for (const absl::string_view bad : {"", "kv", "file://kv", "file:///kv", "file:///folder/", "etcd:///kv",
                                      "http://a/kv", "file:///folder/.kv", "file://relative/kv"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GroupUrl::Parse(bad).status())) << bad;
  }
}

TEST(GroupOptions, ACacheIsNoMemberOfAGroup) {
  ServerOptions options;
  options.listen = {"shm:///tmp/x"};
  options.group = "file:///tmp/groups/kv";
  EXPECT_TRUE(CheckOptions(options).ok());
  options.evict = true;
  EXPECT_TRUE(absl::IsInvalidArgument(CheckOptions(options)));
}

TEST(ProcessLock, IsHeldUntilItsProcessEnds) {
  char made[] = "/tmp/farlook-locks-XXXXXX";
  const std::string folder = mkdtemp(made);
  auto lock = ProcessLock::Take(folder + "/kv.locks", 7);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_FALSE(*ProcessLock::HasEnded(folder + "/kv.locks", 7));
  EXPECT_FALSE(*ProcessLock::HasEnded(folder + "/kv.locks", 8)) << "of whom nothing is known";
  EXPECT_FALSE(ProcessLock::Take(folder + "/kv.locks", 7).ok()) << "an incarnation is one process";
  lock->reset();
  EXPECT_TRUE(*ProcessLock::HasEnded(folder + "/kv.locks", 7));
  // Expect: other users cannot open the files, since they could hold the lock; a file that cannot be opened is an
  // error.
  struct stat folders, files;
  ASSERT_EQ(stat((folder + "/kv.locks").c_str(), &folders), 0);
  ASSERT_EQ(stat((folder + "/kv.locks/0000000000000007").c_str(), &files), 0);
  EXPECT_EQ(folders.st_mode & 07, 0u);
  EXPECT_EQ(files.st_mode & 07, 0u);
  ASSERT_EQ(symlink("0000000000000007", (folder + "/kv.locks/0000000000000009").c_str()), 0);
  EXPECT_FALSE(ProcessLock::HasEnded(folder + "/kv.locks", 9).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace farlook::server
