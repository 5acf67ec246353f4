#include "client/cli/line_editor.h"

#include <langinfo.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/completion.h"

namespace farlook::cli {
namespace {

constexpr int kHistoryLines = 1000;
// Longer lines are pasted values.
constexpr size_t kLongestRememberedBytes = 4096;

// libedit reads characters of the locale. Values here are mostly UTF-8, even if no locale is configured.
void UseUtf8() {
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

// mkdir -p for the directory of `path`, for this user only.
void MakeDirectoryOf(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0700);
  }
}

}  // namespace

std::string HistoryPath() {
  if (const char* path = getenv("FARLOOK_HISTORY"); path != nullptr) return path;
  // Relative paths are invalid there, according to the XDG specification.
  if (const char* state = getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    return absl::StrCat(state, "/farlook_history");
  }
  if (const char* home = getenv("HOME"); home != nullptr && home[0] != '\0') {
    return absl::StrCat(home, "/.farlook_history");
  }
  return "";
}

LineEditor::LineEditor(std::string prompt, FILE* in, FILE* out, FILE* err)
    : prompt_(std::move(prompt)), out_(out), history_(history_init(), history_end), edit_(nullptr, el_end) {
  UseUtf8();
  edit_.reset(el_init("kv_cli", in, out, err));
  EditLine* edit = edit_.get();
  HistEvent event;
  history(history_.get(), &event, H_SETSIZE, kHistoryLines);
  history(history_.get(), &event, H_SETUNIQUE, 1);
  el_set(edit, EL_CLIENTDATA, this);
  el_set(edit, EL_PROMPT, &LineEditor::Prompt);
  el_set(edit, EL_EDITOR, "emacs");
  el_set(edit, EL_HIST, history, history_.get());
  el_set(edit, EL_SIGNAL, 1);  // restores the terminal when a signal ends or stops the process
  el_set(edit, EL_ADDFN, "farlook-complete", "complete a command or a flag", &LineEditor::HandleTab);
  el_set(edit, EL_BIND, "^I", "farlook-complete", nullptr);
  el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  // While a line is edited, Ctrl-C is an ordinary key: it abandons the line, and the session continues. Then Ctrl-Z
  // must be one too.
  el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
  el_set(edit, EL_ADDFN, "farlook-abandon", "abandon the line", &LineEditor::HandleInterrupt);
  el_set(edit, EL_BIND, "^C", "farlook-abandon", nullptr);
  el_set(edit, EL_ADDFN, "farlook-suspend", "stop until the shell continues it", &LineEditor::HandleSuspend);
  el_set(edit, EL_BIND, "^Z", "farlook-suspend", nullptr);
}

LineEditor::~LineEditor() = default;

LineEditor* LineEditor::Self(EditLine* edit) {
  void* self = nullptr;
  el_get(edit, EL_CLIENTDATA, &self);
  return static_cast<LineEditor*>(self);
}

char* LineEditor::Prompt(EditLine* edit) { return Self(edit)->prompt_.data(); }

unsigned char LineEditor::HandleTab(EditLine* edit, int) {
  const LineInfo* info = el_line(edit);
  const Completion completion =
      Complete(absl::string_view(info->buffer, static_cast<size_t>(info->cursor - info->buffer)));
  if (completion.candidates.empty()) return CC_ERROR;
  if (!completion.insert.empty()) return el_insertstr(edit, completion.insert.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  FILE* out = Self(edit)->out_;
  fprintf(out, "\n%s\n", absl::StrJoin(completion.candidates, "  ").c_str());
  fflush(out);
  return CC_REDISPLAY;
}

unsigned char LineEditor::HandleInterrupt(EditLine* edit, int) {
  const LineInfo* info = el_line(edit);
  // In characters, of which there are at most as many as bytes: libedit stops at the ends.
  const int length = static_cast<int>(info->lastchar - info->buffer);
  el_cursor(edit, length);
  LineEditor* self = Self(edit);
  self->abandoned_ = true;
  fputs("^C\n", self->out_);
  fflush(self->out_);
  el_deletestr(edit, length);
  return CC_NEWLINE;
}

unsigned char LineEditor::HandleSuspend(EditLine*, int) {
  raise(SIGTSTP);  // libedit's handler restores the terminal before, and takes it again afterwards
  return CC_REDISPLAY;
}

LineEditor::Result LineEditor::Read(std::string* line) {
  abandoned_ = false;
  int length = 0;
  const char* text = el_gets(edit_.get(), &length);
  if (abandoned_) return Result::kAbandoned;
  if (text == nullptr || length <= 0) {
    fputs("\n", out_);
    fflush(out_);
    return Result::kEnd;
  }
  line->assign(text, static_cast<size_t>(length));
  if (!line->empty() && line->back() == '\n') line->pop_back();
  return Result::kLine;
}

void LineEditor::Remember(const std::string& line) {
  if (line.empty() || line[0] == ' ' || line[0] == '\t' || line.size() > kLongestRememberedBytes) return;
  HistEvent event;
  history(history_.get(), &event, H_ENTER, line.c_str());
}

absl::Status LineEditor::LoadHistory(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return absl::OkStatus();
  HistEvent event;
  errno = 0;
  if (history(history_.get(), &event, H_LOAD, path.c_str()) >= 0) return absl::OkStatus();
  if (errno != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the history ", path));
  return absl::DataLossError(absl::StrCat(path, " is no history"));
}

absl::Status LineEditor::SaveHistory(const std::string& path) {
  MakeDirectoryOf(path);
  HistEvent event;
  errno = 0;
  // libedit makes the file accessible to its owner only.
  if (history(history_.get(), &event, H_SAVE, path.c_str()) >= 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("cannot write the history ", path));
}

}  // namespace farlook::cli
