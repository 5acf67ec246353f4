#include "tests/failnth/belongings.h"

#include <dirent.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/failnth/calls.h"

namespace farlook::failnth {
namespace {

template <typename Visit>
void ForEachEntry(const char* directory, Visit visit) {
  DIR* const open = opendir(directory);
  if (open == nullptr) return;
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] != '.') visit(absl::StrCat(directory, "/", entry->d_name));
  }
  closedir(open);
}

// The library opens each device once, and keeps it open.
int KeptByLibrdmacm(absl::string_view what) {
  return absl::StartsWith(what, "/dev/infiniband/uverbs") || what == "anon_inode:[infinibandevent]" ? 1 : 0;
}

int Threads() {
  int count = 0;
  ForEachEntry("/proc/self/task", [&](const std::string&) { ++count; });
  return count;
}

}  // namespace

Belongings Belongings::Now() {
  Belongings now;
  ForEachEntry("/proc/self/fd", [&](const std::string& path) {
    char target[256];
    const ssize_t bytes = readlink(path.c_str(), target, sizeof(target));
    if (bytes <= 0) return;
    std::string what(target, static_cast<size_t>(bytes));
    if (absl::StrContains(what, "/fd")) return;  // the directory being read
    if (absl::StartsWith(what, "socket:")) what = "socket";
    ++now.descriptors[what];
  });
  now.mapped_bytes = MappedBytes();
  now.threads = Threads();
  return now;
}

std::string Belongings::Leaked(const Belongings& after) const {
  std::string leaked;
  for (const auto& [what, count] : after.descriptors) {
    const auto before = descriptors.find(what);
    const int extra = count - (before == descriptors.end() ? 0 : before->second) - KeptByLibrdmacm(what);
    if (extra > 0) absl::StrAppend(&leaked, extra, " descriptors of ", what, "; ");
  }
  if (after.mapped_bytes != mapped_bytes)
    absl::StrAppend(&leaked, after.mapped_bytes - mapped_bytes, " bytes mapped; ");
  if (after.threads > threads) absl::StrAppend(&leaked, after.threads - threads, " threads; ");
  return leaked;
}

void AwaitThreads(int threads) {
  for (int i = 0; i < 10'000 && Threads() > threads; ++i) absl::SleepFor(absl::Milliseconds(1));
}

}  // namespace farlook::failnth
