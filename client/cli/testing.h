// What the unit tests of this package share.
#ifndef FARLOOK_CLIENT_CLI_TESTING_H_
#define FARLOOK_CLIENT_CLI_TESTING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/output.h"

namespace farlook::cli {

// A file without a name, to write to and to look at.
class ScratchFile {
 public:
  explicit ScratchFile(absl::string_view content = "");
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  // A path that opens it anew, from its beginning.
  std::string path() const;
  std::string Content() const;

 private:
  int fd_;
};

// An Output whose bytes a test can look at.
class CapturedOutput {
 public:
  Output* output() { return &output_; }
  // All that was written so far.
  std::string Text();

 private:
  ScratchFile file_;
  Output output_{file_.fd(), "captured output"};
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TESTING_H_
