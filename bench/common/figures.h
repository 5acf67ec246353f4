// A table of figures, each with its limit and the floor from which the limit was derived, and the main function of
// programs that measure figures.
#ifndef FARLOOK_BENCH_COMMON_FIGURES_H_
#define FARLOOK_BENCH_COMMON_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace farlook::bench {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  enum class Limit { kNone, kAtMost, kAtLeast } kind = Limit::kNone;
  double limit = 0;      // in the same unit
  std::string limit_is;  // in words: "3 D"

  bool holds() const { return kind == Limit::kNone || (kind == Limit::kAtMost ? value <= limit : value >= limit); }
};

class Figures {
 public:
  void Add(absl::string_view name, double value, absl::string_view unit);
  void AddAtMost(absl::string_view name, double value, absl::string_view unit, double limit, absl::string_view is);
  void AddAtLeast(absl::string_view name, double value, absl::string_view unit, double limit, absl::string_view is);

  // A line for each: name, value, unit, and if there is a limit "at most 420.0 (3 D): holds" or "FAILS".
  std::string Text() const;
  nlohmann::json Json() const;

  // Returns whether all limits hold.
  bool hold() const;
  const std::vector<Figure>& all() const { return figures_; }

 private:
  std::vector<Figure> figures_;
};

// The main function of a program that measures figures. It prints their origin, calls `measure` to add them, prints
// them, and writes them to a file as {"built_by": ..., "kernel": ..., "figures": [...]} unless its name is empty.
// Returns the exit code. 0: all limits hold. 1: it cannot be measured, and only the figures so far are printed, or the
// file cannot be written. 3: a limit does not hold.
int TakeFigures(absl::string_view program, const std::string& json_file,
                absl::FunctionRef<absl::Status(Figures*)> measure);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_FIGURES_H_
