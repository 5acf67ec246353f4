// Fixture for the unit tests of this package.
#ifndef FARLOOK_CLIENT_CLI_COMMANDS_TESTING_H_
#define FARLOOK_CLIENT_CLI_COMMANDS_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/commands/runner.h"
#include "client/cli/context/command.h"
#include "client/cli/context/memory_store.h"
#include "client/cli/terminal/console.h"
#include "client/cli/terminal/explain.h"
#include "client/cli/terminal/output.h"
#include "gtest/gtest.h"

namespace farlook::cli {

// A file without a name, to be written and examined.
class ScratchFile {
 public:
  explicit ScratchFile(absl::string_view content = "");
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  // Returns a path that opens it again, at its beginning.
  std::string path() const;
  std::string Content() const;

 private:
  int fd_;
};

// An Output whose bytes a test can read.
class CapturedOutput {
 public:
  Output* output() { return &output_; }
  // Returns everything written so far.
  std::string Text();

 private:
  ScratchFile file_;
  Output output_{file_.fd(), "captured output"};
};

// A fixture for tests of commands: each runs as in kv_cli, on a MemoryStore or the result of ToRunOn().
class CommandTest : public testing::Test {
 protected:
  CommandTest() { SetStdin(""); }

  // Runs `words`, a whole command line. Then Out() and Err() return its output.
  ExitCode Run(const std::vector<std::string>& words) {
    ScratchFile out;
    ScratchFile err;
    Options defaults;
    defaults.address = "shm:///test";
    ExitCode code;
    {
      Console console(stdin_->fd(), out.fd(), err.fd());
      console.set_prefix("kv_cli: ");
      Runner runner(mode_, &console, [this](const Options&) { return ToRunOn(); });
      code = runner.Run(words, defaults);
    }
    out_ = out.Content();
    err_ = err.Content();
    return code;
  }

  // For tests that bring a store of their own.
  virtual Store* ToRunOn() { return &store_; }

  void SetStdin(absl::string_view content) { stdin_ = std::make_unique<ScratchFile>(content); }
  void set_mode(Mode mode) { mode_ = mode; }

  MemoryStore& store() { return store_; }
  const std::string& Out() const { return out_; }
  const std::string& Err() const { return err_; }

 private:
  MemoryStore store_;
  std::unique_ptr<ScratchFile> stdin_;
  Mode mode_ = Mode::kOneShot;
  std::string out_;
  std::string err_;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMMANDS_TESTING_H_
