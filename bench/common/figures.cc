#include "bench/common/figures.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_format.h"
#include "bench/common/environment.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

std::string Str(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

void Figures::Add(absl::string_view name, double value, absl::string_view unit) {
  figures_.push_back({Str(name), value, Str(unit), Figure::Limit::kNone, 0, ""});
}

void Figures::AddAtMost(absl::string_view name, double value, absl::string_view unit, double limit,
                        absl::string_view is) {
  figures_.push_back({Str(name), value, Str(unit), Figure::Limit::kAtMost, limit, Str(is)});
}

void Figures::AddAtLeast(absl::string_view name, double value, absl::string_view unit, double limit,
                         absl::string_view is) {
  figures_.push_back({Str(name), value, Str(unit), Figure::Limit::kAtLeast, limit, Str(is)});
}

std::string Figures::Text() const {
  std::string text;
  for (const Figure& figure : figures_) {
    absl::StrAppendFormat(&text, "%-52s %14.2f %-9s", figure.name, figure.value, figure.unit);
    if (figure.kind != Figure::Limit::kNone) {
      absl::StrAppendFormat(&text, " %s %.2f (%s): %s", figure.kind == Figure::Limit::kAtMost ? "at most" : "at least",
                            figure.limit, figure.limit_is, figure.holds() ? "holds" : "FAILS");
    }
    while (text.back() == ' ') text.pop_back();
    text.push_back('\n');
  }
  return text;
}

nlohmann::json Figures::Json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Figure& figure : figures_) {
    nlohmann::json entry = {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}};
    if (figure.kind != Figure::Limit::kNone) {
      entry[figure.kind == Figure::Limit::kAtMost ? "at_most" : "at_least"] = figure.limit;
      entry["limit_is"] = figure.limit_is;
      entry["holds"] = figure.holds();
    }
    list.push_back(entry);
  }
  return list;
}

bool Figures::hold() const {
  return std::all_of(figures_.begin(), figures_.end(), [](const Figure& figure) { return figure.holds(); });
}

int TakeFigures(absl::string_view program, const std::string& json_file,
                absl::FunctionRef<absl::Status(Figures*)> measure) {
  const Environment environment = DescribeEnvironment();
  absl::PrintF("machine: %s, %d CPUs, %s\nbuilt by: %s; commit %s\n", environment.cpu, environment.cpus,
               environment.kernel, environment.compiler, environment.commit);
  Figures figures;
  const absl::Status status = measure(&figures);
  std::fputs(figures.Text().c_str(), stdout);
  if (!status.ok()) {
    absl::FPrintF(stderr, "%s: %s\n", program, status.ToString());
    return 1;
  }
  const nlohmann::json found = {
      {"built_by", environment.compiler}, {"kernel", environment.kernel}, {"figures", figures.Json()}};
  if (!json_file.empty() && !(std::ofstream(json_file) << found.dump(2) << std::endl)) {
    absl::FPrintF(stderr, "%s: cannot write %s\n", program, json_file);
    return 1;
  }
  return figures.hold() ? 0 : 3;
}

}  // namespace farlook::bench
