// A result of an examination of the host. Shown by `kv_cli doctor` and `kv_server --check`.
#ifndef FARLOOK_RDMA_FINDING_H_
#define FARLOOK_RDMA_FINDING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma {

struct Finding {
  enum class Level : uint8_t {
    kGood,     // correct
    kAdvice,   // works, and could be better
    kTrouble,  // prevents something
  };
  Level level;
  std::string text;  // the fact, and, unless it is good, the remedy
};

using Findings = std::vector<Finding>;

inline Finding Good(std::string text) { return {Finding::Level::kGood, std::move(text)}; }
inline Finding Advice(std::string text) { return {Finding::Level::kAdvice, std::move(text)}; }
inline Finding Trouble(std::string text) { return {Finding::Level::kTrouble, std::move(text)}; }
inline Finding Trouble(const absl::Status& status) { return Trouble(std::string(status.message())); }

inline absl::string_view LevelName(Finding::Level level) {
  switch (level) {
    case Finding::Level::kGood:
      return "good";
    case Finding::Level::kAdvice:
      return "advice";
    case Finding::Level::kTrouble:
      return "trouble";
  }
  return "";
}

// Lowers trouble to advice, where an alternative exists.
inline Findings AsAdvice(Findings findings) {
  for (Finding& finding : findings) {
    if (finding.level == Finding::Level::kTrouble) finding.level = Finding::Level::kAdvice;
  }
  return findings;
}

// Returns the text that is shown, without a newline.
inline std::string ToLine(const Finding& finding) {
  return absl::StrFormat("%-8s %s", LevelName(finding.level), finding.text);
}

inline bool AnyTrouble(const Findings& findings) {
  for (const Finding& finding : findings) {
    if (finding.level == Finding::Level::kTrouble) return true;
  }
  return false;
}

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_FINDING_H_
