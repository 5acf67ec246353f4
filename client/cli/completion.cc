#include "client/cli/completion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/options.h"

namespace farlook::cli {
namespace {

std::vector<std::string> CommandNames(bool with_quit) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  if (with_quit) names.emplace_back("quit");
  return names;
}

std::vector<std::string> FlagNames(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : AllFlags()) {
    const bool listed = std::find(command.flags.begin(), command.flags.end(), flag.name) != command.flags.end();
    if (!listed && flag.scope != Flag::Scope::kEverywhere) continue;
    names.push_back(absl::StrCat("--", flag.name, flag.is_boolean() ? "" : "="));
  }
  return names;
}

// Returns all words that may replace the last of `words`.
std::vector<std::string> Possible(const std::vector<absl::string_view>& words) {
  if (words.size() == 1) return CommandNames(/*with_quit=*/true);
  const Command* command = FindCommand(words[0]);
  if (command == nullptr) return {};
  if (absl::StartsWith(words.back(), "--")) return FlagNames(*command);
  if (command->name == "cluster" && words.size() == 2) return ClusterParts();
  if (command->name == "help" && words.size() == 2) return CommandNames(/*with_quit=*/false);
  return {};
}

size_t CommonPrefixBytes(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

Completion Complete(absl::string_view text) {
  std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.empty() || absl::EndsWith(text, " ") || absl::EndsWith(text, "\t")) words.push_back("");

  Completion completion;
  for (std::string& word : Possible(words)) {
    if (absl::StartsWith(word, words.back())) completion.candidates.push_back(std::move(word));
  }
  if (completion.candidates.empty()) return completion;
  std::sort(completion.candidates.begin(), completion.candidates.end());
  std::string common = completion.candidates.front();
  for (const std::string& candidate : completion.candidates) common.resize(CommonPrefixBytes(common, candidate));
  completion.insert = common.substr(words.back().size());
  // A whole word is followed by a blank, but a flag by its value.
  if (completion.candidates.size() == 1 && !absl::EndsWith(common, "=")) completion.insert += " ";
  return completion;
}

}  // namespace farlook::cli
