#include "cluster/file_directory.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

class FileDirectoryTest : public testing::Test {
 protected:
  FileDirectoryTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    directory_ = *FileDirectory::Open(folder_);
  }
  std::set<std::string> Files() const {
    std::set<std::string> files;
    DIR* const listing = opendir(folder_.c_str());
    while (const dirent* const file = readdir(listing)) files.emplace(file->d_name);
    closedir(listing);
    files.erase(".");
    files.erase("..");
    return files;
  }

  std::string folder_ = testing::TempDir() + "/files_XXXXXX";
  std::unique_ptr<FileDirectory> directory_;
};

constexpr char kFirst[] = "g.00000000000000000001", kSecond[] = "g.00000000000000000002";

TEST_F(FileDirectoryTest, ConfigurationsAreFilesThatStay) {
  ASSERT_EQ(directory_->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  ASSERT_EQ(directory_->Cas("g", 1, "two").outcome, CasOutcome::kDone);
  EXPECT_EQ(Files(), (std::set<std::string>{kFirst, kSecond}));
}

TEST_F(FileDirectoryTest, WhatSomebodyLeftUnfinishedIsNoRecordAndGoesWithTheNext) {
  std::ofstream(absl::StrCat(folder_, "/.", kFirst, ".1234")) << "tor";
  EXPECT_EQ(directory_->Get("g", Freshness::kLatest)->revision, 0);
  ASSERT_EQ(directory_->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  EXPECT_EQ(directory_->Get("g", Freshness::kLatest)->value, "one");
  EXPECT_EQ(Files(), std::set<std::string>{kFirst});
}

TEST_F(FileDirectoryTest, FilesOfOtherNamesAreNone) {
  for (const char* const file :
       {"g.1", "g.0000000000000000000x", "g.000000000000000000011", "gg.00000000000000000009"}) {
    std::ofstream(absl::StrCat(folder_, "/", file)) << "x";
  }
  EXPECT_EQ(directory_->Get("g", Freshness::kLatest)->revision, 0);
}

TEST_F(FileDirectoryTest, RecordsThatWereRemovedAreALoss) {
  ASSERT_EQ(directory_->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  ASSERT_EQ(unlink(absl::StrCat(folder_, "/", kFirst).c_str()), 0);
  EXPECT_TRUE(absl::IsDataLoss(directory_->Wait("g", 1, absl::Seconds(60)).status()));
  EXPECT_EQ(directory_->Cas("g", 1, "two").outcome, CasOutcome::kConflict);
}

TEST_F(FileDirectoryTest, OnlyFileSystemsThatAreKnownToBeLocalAreGood) {
  const absl::Status status = FileDirectory::Open("/proc").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(FileDirectoryTest, ErrorsNameTheFolderAndTheCause) {
  // Expect: the folder is not created, although its parent exists.
  const std::string mistyped = folder_ + "/mistyped";
  const absl::Status absent = FileDirectory::Open(mistyped).status();
  EXPECT_TRUE(absl::IsNotFound(absent)) << absent;
  EXPECT_NE(absent.message().find(mistyped + " is not there"), absl::string_view::npos) << absent;
  EXPECT_EQ(Files(), std::set<std::string>());
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "x";
  EXPECT_FALSE(FileDirectory::Open(file).ok());
  std::ofstream(absl::StrCat(folder_, "/", kFirst)) << std::string(kMaxRecordBytes + 1, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(directory_->Get("g", Freshness::kLatest).status()));
}

}  // namespace
}  // namespace farlook::cluster
