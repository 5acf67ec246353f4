// The figures of a server or a client, "name value" a line, and how they change.
#ifndef FARLOOK_CLIENT_CLI_FIGURES_H_
#define FARLOOK_CLIENT_CLI_FIGURES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/json_line.h"

namespace farlook::cli {

struct Figure {
  std::string name;
  std::string value;

  // A name, not an amount, although it may look like one: "version 0.1", "incarnation 12345678", "numa_node 0".
  bool is_text() const;
};

// In their order. A line without a blank is a name without a value.
std::vector<Figure> ParseFigures(absl::string_view text);

// Of the groups of a cluster as if they were one server: amounts are added up; of times, lengths and what all have the
// greatest counts, of texts what all say.
std::vector<Figure> AddFigures(const std::vector<std::vector<Figure>>& groups);

// One JSON object: {"name":value,...}.
JsonLine FiguresToJson(const std::vector<Figure>& figures);

// What became of one figure between two looks at it.
struct FigureChange {
  std::string name;
  std::string value;
  std::optional<double> per_second;  // if both values are amounts
  bool changed = false;
};

// `earlier` may lack figures and have others.
std::vector<FigureChange> CompareFigures(const std::vector<Figure>& earlier, const std::vector<Figure>& later,
                                         double seconds);

// A table of those for which `show` is true, in their order: name, value, rate of what changed.
std::string FormatChanges(const std::vector<FigureChange>& changes,
                          const std::function<bool(const FigureChange&)>& show);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_FIGURES_H_
