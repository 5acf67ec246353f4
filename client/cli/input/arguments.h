// Splits a command line into flags and operands.
//
//     kv_cli get --json KEY           flags may stand anywhere
//     kv_cli get KEY --timeout-ms 5   --name VALUE is --name=VALUE, - in a name is _
//     kv_cli get KEY --nojson         booleans: --name, --noname, --name=true|false
//     kv_cli put KEY -- -value-       after -- nothing is a flag
#ifndef FARLOOK_CLIENT_CLI_INPUT_ARGUMENTS_H_
#define FARLOOK_CLIENT_CLI_INPUT_ARGUMENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/input/options.h"

namespace farlook::cli {

struct Operand {
  std::string text;
  bool literal = false;  // stood after --: a dash is a dash, not standard input

  bool is_stdin() const { return text == "-" && !literal; }
};

struct Arguments {
  Options options;
  std::vector<Operand> operands;
  std::vector<const Flag*> flags;  // those given
};

// `defaults` are the options without flags. INVALID_ARGUMENT names the wrong word, and what may have been meant. It
// does not check whether the command has these flags.
absl::StatusOr<Arguments> ParseArguments(absl::Span<const std::string> words, const Options& defaults);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_ARGUMENTS_H_
