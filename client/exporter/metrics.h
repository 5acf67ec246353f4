// A server's statistics in Prometheus' format: https://prometheus.io/docs/instrumenting/exposition_formats.
#ifndef FARLOOK_CLIENT_EXPORTER_METRICS_H_
#define FARLOOK_CLIENT_EXPORTER_METRICS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook::exporter {

// `stats` is the result of Client::ServerStats(): "name value" lines; a server of another release may have other ones.
// Unknown figures become farlook_other_figures. Names begin with farlook_, units are seconds and bytes, and names of
// counters end in _total.
std::string ToMetrics(absl::string_view stats);

// Returns a label's value, quoted.
std::string QuotedLabel(absl::string_view value);

// Returns whether ToMetrics() shows the figure of this name, or its information in another form.
bool IsKnownFigure(absl::string_view name);

}  // namespace farlook::exporter

#endif  // FARLOOK_CLIENT_EXPORTER_METRICS_H_
