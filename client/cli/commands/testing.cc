#include "client/cli/commands/testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace farlook::cli {

ScratchFile::ScratchFile(absl::string_view content) : fd_(memfd_create("scratch", MFD_CLOEXEC)) {
  if (fd_ < 0 || write(fd_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) abort();
  lseek(fd_, 0, SEEK_SET);
}

ScratchFile::~ScratchFile() { close(fd_); }

std::string ScratchFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

std::string ScratchFile::Content() const {
  std::string content(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
  if (pread(fd_, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) abort();
  return content;
}

std::string CapturedOutput::Text() {
  output_.Flush();
  return file_.Content();
}

}  // namespace farlook::cli
