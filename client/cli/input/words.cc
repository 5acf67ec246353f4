#include "client/cli/input/words.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

// A carriage return is a blank, so that files from other systems work.
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Finds the end of the quote at line[open]; npos if there is none. Within double quotes a backslash hides the character
// after it.
size_t FindClosingQuote(absl::string_view line, size_t open) {
  const char quote = line[open];
  for (size_t i = open + 1; i < line.size(); ++i) {
    if (line[i] == quote) return i;
    if (quote == '"' && line[i] == '\\') ++i;
  }
  return absl::string_view::npos;
}

// Appends the quoted text that begins at line[*position], and moves *position past the quotes.
absl::Status AppendQuoted(absl::string_view line, size_t* position, std::string* word) {
  const size_t open = *position;
  const size_t close = FindClosingQuote(line, open);
  if (close == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("the quote at position ", open + 1, " is not closed"));
  }
  *position = close + 1;
  const absl::string_view inside = line.substr(open + 1, close - open - 1);
  if (line[open] == '\'') {
    absl::StrAppend(word, inside);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> bytes = Unescape(inside);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("in the quotes at position ", open + 1, ": ", bytes.status().message()));
  }
  absl::StrAppend(word, *bytes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view line) {
  std::vector<std::string> words;
  size_t i = 0;
  while (true) {
    while (i < line.size() && IsBlank(line[i])) ++i;
    if (i == line.size() || line[i] == '#') return words;
    std::string word;
    while (i < line.size() && !IsBlank(line[i])) {
      if (line[i] == '\'' || line[i] == '"') {
        if (absl::Status status = AppendQuoted(line, &i, &word); !status.ok()) return status;
        continue;
      }
      if (line[i] == '\\' && ++i == line.size()) {
        return absl::InvalidArgumentError("the line ends with a backslash: quote it");
      }
      word.push_back(line[i++]);
    }
    words.push_back(std::move(word));
  }
}

}  // namespace farlook::cli
