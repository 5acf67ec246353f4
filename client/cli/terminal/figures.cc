#include "client/cli/terminal/figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

// Those of kv_server. A new one that is missing here is treated according to its value.
constexpr absl::string_view kTexts[] = {"version", "incarnation", "address", "addresses", "huge_pages", "numa_node"};

std::optional<double> Amount(const Figure& figure) {
  double amount;
  if (figure.is_text() || !absl::SimpleAtod(figure.value, &amount) || !std::isfinite(amount)) return std::nullopt;
  return amount;
}

// Figures of which the greatest of several servers counts: common settings, times and ages, lengths of single things.
constexpr absl::string_view kGreatest[] = {"uptime_s",     "draining",      "page_bytes",     "max_value_bytes",
                                           "window",       "evict",         "client_figures", "level",
                                           "touch_sample", "cluster_groups"};

bool AddsUp(const Figure& figure) {
  return !figure.is_level() &&
         std::find(std::begin(kGreatest), std::end(kGreatest), figure.name) == std::end(kGreatest);
}

std::string Rate(double per_second) {
  return std::abs(per_second) < 100 ? absl::StrFormat("%+.3f/s", per_second) : absl::StrFormat("%+.0f/s", per_second);
}

}  // namespace

bool Figure::is_text() const { return std::find(std::begin(kTexts), std::end(kTexts), name) != std::end(kTexts); }

bool Figure::is_level() const {
  constexpr absl::string_view kParts[] = {"_p50_", "_p99_", "_p999_", "longest_", "largest_", "_age_"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [this](absl::string_view part) { return absl::StrContains(name, part); });
}

bool Figure::has_rate() const { return !is_level() && !absl::EndsWith(name, "_per_s"); }

bool Figure::is_bucket() const { return absl::StrContains(name, "_below_"); }

std::vector<Figure> ParseFigures(absl::string_view text) {
  std::vector<Figure> figures;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (stripped.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(stripped, absl::MaxSplits(' ', 1));
    figures.push_back({std::string(parts.first), std::string(absl::StripAsciiWhitespace(parts.second))});
  }
  return figures;
}

std::vector<Figure> AddFigures(const std::vector<std::vector<Figure>>& groups) {
  if (groups.size() == 1) return groups.front();
  std::vector<Figure> sums;
  for (const Figure& first : groups.front()) {
    double sum = 0, most = 0;
    bool same = true, amounts = true, all = true;
    for (const std::vector<Figure>& figures : groups) {
      const auto found =
          std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == first.name; });
      if (found == figures.end()) {
        all = false;
        break;
      }
      const std::optional<double> amount = Amount(*found);
      amounts &= amount.has_value();
      same &= found->value == first.value;
      sum += amount.value_or(0);
      most = std::max(most, amount.value_or(0));
    }
    if (!all || (!amounts && !same)) continue;
    const double value = AddsUp(first) ? sum : most;
    sums.push_back({first.name, amounts ? absl::StrFormat("%.15g", value) : first.value});
  }
  return sums;
}

JsonLine FiguresToJson(const std::vector<Figure>& figures) {
  JsonLine line;
  for (const Figure& figure : figures) {
    if (figure.is_text()) {
      line.Bytes(figure.name, figure.value);
    } else {
      line.NumberOrBytes(figure.name, figure.value);
    }
  }
  return line;
}

std::vector<FigureChange> CompareFigures(const std::vector<Figure>& earlier, const std::vector<Figure>& later,
                                         double seconds) {
  std::vector<FigureChange> changes;
  for (const Figure& figure : later) {
    FigureChange change{figure.name, figure.value, std::nullopt, true};
    const auto before =
        std::find_if(earlier.begin(), earlier.end(), [&](const Figure& f) { return f.name == figure.name; });
    if (before != earlier.end()) {
      change.changed = before->value != figure.value;
      const std::optional<double> from = Amount(*before);
      const std::optional<double> to = Amount(figure);
      if (from.has_value() && to.has_value() && seconds > 0 && figure.has_rate())
        change.per_second = (*to - *from) / seconds;
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

std::string FormatChanges(const std::vector<FigureChange>& changes,
                          const std::function<bool(const FigureChange&)>& show) {
  size_t name_columns = 0;
  size_t value_columns = 0;
  for (const FigureChange& change : changes) {
    if (!show(change)) continue;
    name_columns = std::max(name_columns, Escape(change.name).size());
    value_columns = std::max(value_columns, Escape(change.value).size());
  }
  std::string text;
  for (const FigureChange& change : changes) {
    if (!show(change)) continue;
    absl::StrAppendFormat(&text, "%-*s  %*s", static_cast<int>(name_columns), Escape(change.name),
                          static_cast<int>(value_columns), Escape(change.value));
    if (change.changed && change.per_second.has_value())
      absl::StrAppendFormat(&text, "  %12s", Rate(*change.per_second));
    text += "\n";
  }
  return text;
}

}  // namespace farlook::cli
