#include "base/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "base/visible_text.h"

namespace farlook {
namespace {

constexpr absl::string_view kFlagFile = "flagfile";
constexpr int kMaxDepth = 8;  // of flagfiles that name flagfiles

class Parser {
 public:
  Parser(absl::string_view program, const std::vector<absl::string_view>& names) : program_(program), names_(names) {}

  absl::Status ParseWords(const std::vector<std::string>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      const bool more = i + 1 < words.size();
      bool took_next = false;
      absl::Status status = ParseWord(words[i], more ? &words[i + 1] : nullptr, &took_next);
      if (!status.ok()) return status;
      if (took_next) ++i;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ParseWord(absl::string_view word, const std::string* next, bool* took_next) {
    absl::string_view name = word;
    if (!absl::ConsumePrefix(&name, "-") || name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("takes flags only, which begin with --, not ", word, "; see ", program_, " --help"));
    }
    absl::ConsumePrefix(&name, "-");
    std::string value;
    const size_t equals = name.find('=');
    const bool has_value = equals != absl::string_view::npos;
    if (has_value) {
      value = std::string(name.substr(equals + 1));
      name = name.substr(0, equals);
    }
    bool is_bool = IsBool(name);
    if (!has_value && !Knows(name) && absl::StartsWith(name, "no") && IsBool(name.substr(2))) {
      name.remove_prefix(2);
      is_bool = true;
      value = "false";
    } else if (!has_value && is_bool) {
      value = "true";
    } else if (!has_value && Knows(name)) {
      if (next == nullptr) return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      value = *next;
      *took_next = true;
    }
    if (name == kFlagFile) return ParseFile(value);
    return Set(name, value);
  }

  absl::Status ParseFile(const std::string& path) {
    if (depth_ == kMaxDepth) return absl::InvalidArgumentError(absl::StrCat(path, ": flagfiles name each other"));
    errno = 0;
    std::ifstream file(path);
    ++depth_;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      const absl::Status status = ParseLine(++number == 1 ? WithoutByteOrderMark(line) : absl::string_view(line));
      if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", status.message()));
    }
    // A directory can be opened; reading it fails.
    if (!file.is_open() || file.bad()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read the flagfile ", path, errno == 0 ? "" : absl::StrCat(": ", strerror(errno))));
    }
    --depth_;
    return absl::OkStatus();
  }

  absl::Status ParseLine(absl::string_view line) {
    const absl::string_view word = absl::StripAsciiWhitespace(line);
    if (word.empty() || word[0] == '#') return absl::OkStatus();
    if (const std::string invisible = FirstInvisible(word); !invisible.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("has ", invisible, ": write the line again"));
    }
    bool took_next = false;
    return ParseWord(word, nullptr, &took_next);
  }

  absl::Status Set(absl::string_view name, const std::string& value) {
    if (!Knows(name)) {
      const absl::string_view nearest = Nearest(name, names_);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag --", name, nearest.empty() ? "" : absl::StrCat(": did you mean --", nearest, "?"),
                       "; see ", program_, " --help"));
    }
    std::string why;
    if (absl::FindCommandLineFlag(name)->ParseFrom(value, &why)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", value, ": ", why));
  }

  bool Knows(absl::string_view name) const {
    return name == kFlagFile || std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  bool IsBool(absl::string_view name) const {
    return name != kFlagFile && Knows(name) && absl::FindCommandLineFlag(name)->IsOfType<bool>();
  }

  const absl::string_view program_;
  const std::vector<absl::string_view>& names_;
  int depth_ = 0;
};

}  // namespace

absl::Status ParseCommandLine(absl::string_view program, const std::vector<std::string>& words,
                              const std::vector<absl::string_view>& names) {
  return Parser(program, names).ParseWords(words);
}

std::string FlagsToText(const std::vector<absl::string_view>& names) {
  std::string text;
  for (const absl::string_view name : names) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    const std::string value = flag->CurrentValue();
    absl::StrAppend(&text, text.empty() ? "" : "\n", "# ", flag->Help(), "\n", value.empty() ? "# " : "", "--", name,
                    "=", value, "\n");
  }
  return text;
}

}  // namespace farlook
