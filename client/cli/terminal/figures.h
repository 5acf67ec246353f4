// The figures of a server or a client, "name value" a line, and their changes.
#ifndef FARLOOK_CLIENT_CLI_TERMINAL_FIGURES_H_
#define FARLOOK_CLIENT_CLI_TERMINAL_FIGURES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/input/json_line.h"

namespace farlook::cli {

struct Figure {
  std::string name;
  std::string value;

  // A name, not an amount, even if it looks like one: "version 0.1", "incarnation 12345678", "numa_node 0".
  bool is_text() const;
  // A percentile, an age, a maximum: the greatest of several servers counts.
  bool is_level() const;
  // An amount with a meaningful change per second.
  bool has_rate() const;
  // A cumulative bucket of a histogram.
  bool is_bucket() const;
};

// In their order. A line without a blank is a name without a value.
std::vector<Figure> ParseFigures(absl::string_view text);

// Combines the figures of a cluster's groups. Amounts are added. For times, lengths and common settings the greatest
// counts. Texts are kept if all groups have the same.
std::vector<Figure> AddFigures(const std::vector<std::vector<Figure>>& groups);

// Returns one JSON object: {"name":value,...}.
JsonLine FiguresToJson(const std::vector<Figure>& figures);

// The change of one figure between two samples.
struct FigureChange {
  std::string name;
  std::string value;
  std::optional<double> per_second;  // if both values are amounts, and not levels
  bool changed = false;
};

// `earlier` may lack figures and have others.
std::vector<FigureChange> CompareFigures(const std::vector<Figure>& earlier, const std::vector<Figure>& later,
                                         double seconds);

// Formats a table of the changes for which `show` is true, in order: name, value, rate of changed ones.
std::string FormatChanges(const std::vector<FigureChange>& changes,
                          const std::function<bool(const FigureChange&)>& show);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TERMINAL_FIGURES_H_
