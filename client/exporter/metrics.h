// A server's figures as Prometheus reads them: https://prometheus.io/docs/instrumenting/exposition_formats.
#ifndef FARLOOK_CLIENT_EXPORTER_METRICS_H_
#define FARLOOK_CLIENT_EXPORTER_METRICS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::exporter {

// `stats` is what Client::ServerStats() gave: "name value" lines, which a server of another release may have more or
// fewer of. Those that are not known are farlook_other_figures. Names begin with farlook_, units are seconds and bytes,
// and what only grows ends in _total.
std::string ToMetrics(absl::string_view stats);

// A label's value, quoted.
std::string QuotedLabel(absl::string_view value);

// Whether ToMetrics() tells a figure of this name, or what it says is told otherwise.
bool IsKnownFigure(absl::string_view name);

}  // namespace farlook::exporter

#endif  // FARLOOK_CLIENT_EXPORTER_METRICS_H_
