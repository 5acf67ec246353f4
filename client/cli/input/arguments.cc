#include "client/cli/input/arguments.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

absl::Status UnknownFlag(absl::string_view word, absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const Flag& flag : AllFlags()) names.push_back(flag.name);
  const absl::string_view nearest = Nearest(name, names);
  return absl::InvalidArgumentError(absl::StrCat("unknown flag ", Quoted(word),
                                                 nearest.empty() ? "" : absl::StrCat(": did you mean --", nearest, "?"),
                                                 "; if it is no flag, write -- before it"));
}

// One flag as it was written.
struct Written {
  const Flag* flag = nullptr;
  bool has_value = false;
  std::string value;
};

// `word` begins with a dash and is not just one or two.
absl::StatusOr<Written> ReadFlag(absl::string_view word) {
  if (word == "-h") return Written{FindFlag("help"), true, "true"};
  absl::string_view name = word;
  if (!absl::ConsumePrefix(&name, "--"))
    return UnknownFlag(word, absl::StripPrefix(word.substr(0, word.find('=')), "-"));
  Written written;
  const size_t equals = name.find('=');
  if (equals != absl::string_view::npos) {
    written.has_value = true;
    written.value = std::string(name.substr(equals + 1));
    name = name.substr(0, equals);
  }
  written.flag = FindFlag(name);
  if (written.flag == nullptr && !written.has_value && absl::StartsWith(name, "no")) {
    written.flag = FindFlag(name.substr(2));
    if (written.flag != nullptr && written.flag->is_boolean()) {
      written.has_value = true;
      written.value = "false";
    } else {
      written.flag = nullptr;
    }
  }
  if (written.flag == nullptr) return UnknownFlag(word, name);
  return written;
}

}  // namespace

absl::StatusOr<Arguments> ParseArguments(absl::Span<const std::string> words, const Options& defaults) {
  Arguments arguments{defaults, {}, {}};
  bool literal = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (literal || word == "-" || !absl::StartsWith(word, "-")) {
      arguments.operands.push_back({word, literal});
      continue;
    }
    if (word == "--") {
      literal = true;
      continue;
    }
    absl::StatusOr<Written> written = ReadFlag(word);
    if (!written.ok()) return written.status();
    const Flag& flag = *written->flag;
    if (!written->has_value && flag.is_boolean()) {
      written->value = "true";
    } else if (!written->has_value) {
      // A flag whose value is missing must not consume the flag after it.
      if (i + 1 == words.size() || (words[i + 1] != "-" && absl::StartsWith(words[i + 1], "-"))) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", flag.name, " needs a value: --", flag.name, "=", flag.metavar));
      }
      written->value = words[++i];
    }
    if (absl::Status status = flag.set(written->value, &arguments.options); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag.name, ": ", status.message()));
    }
    arguments.flags.push_back(&flag);
  }
  return arguments;
}

}  // namespace farlook::cli
