// A table of figures, each beside its limit and the floor that this was derived from.
#ifndef FARLOOK_BENCH_COMMON_FIGURES_H_
#define FARLOOK_BENCH_COMMON_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

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

  // A line for each: name, value, unit, and where there is a limit "at most 420.0 (3 D): holds" or "FAILS".
  std::string Text() const;
  nlohmann::json Json() const;
  // Writes the text to stdout and, unless its name is empty, the JSON to a file. False: that cannot be written, as
  // stderr says.
  bool Print(const std::string& json_file) const;

  // Whether all limits hold.
  bool hold() const;
  const std::vector<Figure>& all() const { return figures_; }

 private:
  std::vector<Figure> figures_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_FIGURES_H_
