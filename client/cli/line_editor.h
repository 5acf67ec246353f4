// A prompt with editing, history and completion, over libedit.
#ifndef FARLOOK_CLIENT_CLI_LINE_EDITOR_H_
#define FARLOOK_CLIENT_CLI_LINE_EDITOR_H_

#include <histedit.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

// Returns the file for the history of sessions; empty: none. FARLOOK_HISTORY names another file, or none if it is
// empty.
std::string HistoryPath();

class LineEditor {
 public:
  // `in` and `out` are terminals; the prompt is written to `out`. The prompt has no control characters.
  LineEditor(std::string prompt, FILE* in, FILE* out, FILE* err);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Result {
    kLine,
    kAbandoned,  // Ctrl-C
    kEnd,        // Ctrl-D on an empty line, or the terminal is gone
  };
  // Without the line feed.
  Result Read(std::string* line);

  // Remembers `line` for this session, except lines that begin with a blank: this keeps secrets out of the history.
  void Remember(const std::string& line);
  // The error names the file and the cause. A missing file is no error.
  absl::Status LoadHistory(const std::string& path);
  // Creates the directory if necessary. Only the user can read the file.
  absl::Status SaveHistory(const std::string& path);

 private:
  static LineEditor* Self(EditLine* edit);
  static char* Prompt(EditLine* edit);
  static unsigned char HandleTab(EditLine* edit, int key);
  static unsigned char HandleInterrupt(EditLine* edit, int key);
  static unsigned char HandleSuspend(EditLine* edit, int key);

  std::string prompt_;
  FILE* const out_;
  std::unique_ptr<History, void (*)(History*)> history_;
  std::unique_ptr<EditLine, void (*)(EditLine*)> edit_;
  bool abandoned_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_LINE_EDITOR_H_
