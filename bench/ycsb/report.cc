#include "bench/ycsb/report.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

std::string Str(absl::string_view text) { return std::string(text.data(), text.size()); }

double Throughput(const PhaseResult& result) {
  return result.runtime_ns == 0 ? 0
                                : static_cast<double>(result.operations) * 1e9 / static_cast<double>(result.runtime_ns);
}

double MicrosecondsPerOperation(double us, const PhaseResult& result) {
  return result.operations == 0 ? 0 : us / static_cast<double>(result.operations);
}

// YCSB: "50th", "99.9".
std::string Ordinal(double percentile) {
  const int whole = static_cast<int>(percentile);
  if (whole != percentile) return absl::StrCat(percentile);
  const bool teens = whole / 10 % 10 == 1;
  const char* suffix = teens ? "th" : whole % 10 == 1 ? "st" : whole % 10 == 2 ? "nd" : whole % 10 == 3 ? "rd" : "th";
  return absl::StrCat(whole, suffix);
}

class Lines {
 public:
  void Add(absl::string_view section, absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text_, "[", section, "], ", name, ", ", value, "\n");
  }
  void Add(absl::string_view section, absl::string_view name, double value, int decimals) {
    Add(section, name, absl::StrFormat("%.*f", decimals, value));
  }
  void AddMicroseconds(absl::string_view section, absl::string_view name, double ns) {
    Add(section, name, ns / 1000, 3);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddCpu(const PhaseResult& result, Lines* lines) {
  lines->Add("CPU", "ClientUser(s)", result.client.user_s, 3);
  lines->Add("CPU", "ClientSystem(s)", result.client.system_s, 3);
  lines->Add("CPU", "ClientPerOperation(us)", MicrosecondsPerOperation(result.client.total_s() * 1e6, result), 3);
  if (!result.server_cpu_ns.has_value()) return;
  lines->Add("CPU", "Server(ns)", absl::StrCat(*result.server_cpu_ns));
  lines->Add("CPU", "ServerPerOperation(us)",
             MicrosecondsPerOperation(static_cast<double>(*result.server_cpu_ns) / 1000, result), 6);
}

void AddLatencies(const std::string& section, const std::vector<double>& percentiles, const Histogram& histogram,
                  Lines* lines) {
  lines->Add(section, "Operations", absl::StrCat(histogram.count()));
  lines->AddMicroseconds(section, "AverageLatency(us)", histogram.Mean());
  lines->AddMicroseconds(section, "MinLatency(us)", static_cast<double>(histogram.min()));
  lines->AddMicroseconds(section, "MaxLatency(us)", static_cast<double>(histogram.max()));
  for (double percentile : percentiles) {
    lines->AddMicroseconds(section, absl::StrCat(Ordinal(percentile), "PercentileLatency(us)"),
                           static_cast<double>(histogram.Percentile(percentile)));
  }
}

nlohmann::json JsonLatencies(const std::vector<double>& percentiles, const Histogram& histogram) {
  nlohmann::json json = {
      {"count", histogram.count()}, {"mean", histogram.Mean()}, {"min", histogram.min()}, {"max", histogram.max()}};
  for (double percentile : percentiles) json[absl::StrCat("p", percentile)] = histogram.Percentile(percentile);
  return json;
}

nlohmann::json JsonClientCpu(const PhaseResult& result) {
  return {{"user_s", result.client.user_s},
          {"system_s", result.client.system_s},
          {"us_per_operation", MicrosecondsPerOperation(result.client.total_s() * 1e6, result)}};
}

nlohmann::json JsonServerCpu(const PhaseResult& result) {
  if (!result.server_cpu_ns.has_value()) return nullptr;
  return {{"ns", *result.server_cpu_ns},
          {"us_per_operation", MicrosecondsPerOperation(static_cast<double>(*result.server_cpu_ns) / 1000, result)}};
}

}  // namespace

std::string TextReport(const RunDescription& run, const Environment& environment, const PhaseResult& result) {
  const PhaseOptions& options = result.options;
  Lines lines;
  lines.Add("MACHINE", "CPU", absl::StrCat(environment.cpu, " (", environment.cpus, " usable)"));
  lines.Add("MACHINE", "Memory(GiB)", environment.memory_gib, 1);
  lines.Add("MACHINE", "Kernel", environment.kernel);
  lines.Add("RUN", "Compiler", environment.compiler);
  lines.Add("RUN", "Commit", environment.commit);
  lines.Add("RUN", "CommandLine", absl::StrJoin(run.command_line, " "));
  lines.Add("RUN", "DB", run.db);
  lines.Add("RUN", "Phase", options.load ? "load" : "run");
  lines.Add("RUN", "Threads", absl::StrCat(options.threads));
  if (options.batch > 1) lines.Add("RUN", "BatchSize", absl::StrCat(options.batch));
  if (options.inflight > 1) lines.Add("RUN", "Inflight", absl::StrCat(options.inflight));
  if (options.target > 0) lines.Add("RUN", "Target(ops/sec)", absl::StrCat(options.target));
  lines.Add("RUN", "Seed", absl::StrCat(options.seed));

  lines.Add("OVERALL", "RunTime(ms)", absl::StrCat(result.runtime_ns / 1'000'000));
  lines.Add("OVERALL", "Throughput(ops/sec)", Throughput(result), 3);
  AddCpu(result, &lines);

  for (size_t i = 0; i < kMetrics; ++i) {
    const Metric metric = static_cast<Metric>(i);
    const Series* series = result.totals.series(metric);
    if (series == nullptr) continue;
    const std::string name = Str(MetricName(metric));
    AddLatencies(name, run.percentiles, series->raw, &lines);
    for (size_t s = 0; s < kDbStatuses; ++s) {
      const DbStatus status = static_cast<DbStatus>(s);
      if (series->returned(status) > 0) {
        lines.Add(name, absl::StrCat("Return=", DbStatusName(status)), absl::StrCat(series->returned(status)));
      }
    }
    if (series->intended.count() > 0) {
      AddLatencies(absl::StrCat("Intended-", name), run.percentiles, series->intended, &lines);
    }
  }
  return lines.Take();
}

nlohmann::json JsonPhase(const RunDescription& run, const PhaseResult& result) {
  const PhaseOptions& options = result.options;
  nlohmann::json json = {{"phase", options.load ? "load" : "run"},
                         {"threads", options.threads},
                         {"batch", options.batch},
                         {"inflight", options.inflight},
                         {"target_per_s", options.target},
                         {"seed", options.seed},
                         {"operations", result.operations},
                         {"runtime_ns", result.runtime_ns},
                         {"throughput_per_s", Throughput(result)},
                         {"client_cpu", JsonClientCpu(result)},
                         {"server_cpu", JsonServerCpu(result)},
                         {"client_resident_bytes", result.client_resident_bytes},
                         {"metrics", nlohmann::json::object()}};
  for (size_t i = 0; i < kMetrics; ++i) {
    const Metric metric = static_cast<Metric>(i);
    const Series* series = result.totals.series(metric);
    if (series == nullptr) continue;
    nlohmann::json entry = {{"latency_ns", JsonLatencies(run.percentiles, series->raw)}};
    if (series->intended.count() > 0) {
      entry["intended_latency_ns"] = JsonLatencies(run.percentiles, series->intended);
    }
    nlohmann::json returns = nlohmann::json::object();
    for (size_t s = 0; s < kDbStatuses; ++s) {
      const DbStatus status = static_cast<DbStatus>(s);
      if (series->returned(status) > 0) returns[Str(DbStatusName(status))] = series->returned(status);
    }
    if (!returns.empty()) entry["returns"] = returns;
    json["metrics"][Str(MetricName(metric))] = entry;
  }
  return json;
}

nlohmann::json JsonReport(const RunDescription& run, const Environment& environment,
                          const std::vector<nlohmann::json>& phases) {
  return {{"machine",
           {{"cpu", environment.cpu},
            {"usable_cpus", environment.cpus},
            {"memory_gib", environment.memory_gib},
            {"kernel", environment.kernel}}},
          {"run",
           {{"db", run.db},
            {"command_line", run.command_line},
            {"compiler", environment.compiler},
            {"commit", environment.commit}}},
          {"phases", phases}};
}

}  // namespace farlook::bench
