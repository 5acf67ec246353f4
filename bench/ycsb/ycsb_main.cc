// ycsb: the YCSB core workload against a store. See --help, and bench/README.md.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/common/environment.h"
#include "bench/stores/db.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/farlook_db.h"
#include "bench/ycsb/command_line.h"
#include "bench/ycsb/core_workload.h"
#include "bench/ycsb/phase.h"
#include "bench/ycsb/report.h"
#include "bench/ycsb/run_config.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

// Documented in --help.
enum ExitCode : int {
  kAllOk = 0,
  kWrongInput = 1,
  kUnreachable = 2,
  kOperationsFailed = 3,
  kWrongData = 4,
  kNotWritten = 5,
  kSignalled = 128,
};

// Set by the signal handler.
std::atomic<bool> stop{false};
std::atomic<int> caught_signal{0};

void HandleSignal(int signal) {
  caught_signal.store(signal, std::memory_order_relaxed);
  stop.store(true, std::memory_order_relaxed);
}

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second signal ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);  // reports results that exceed a limit of file sizes as not written
}

int Complain(const absl::Status& status, ExitCode code) {
  std::fprintf(stderr, "ycsb: %s\n", std::string(status.message().data(), status.message().size()).c_str());
  return code;
}

bool WrongData(const PhaseResult& result) {
  const Series* verify = result.totals.series(Metric::kVerify);
  return verify != nullptr && verify->returned(DbStatus::kOk) != verify->raw.count();
}

// Collects the results of phases and writes them to the requested places.
class Results {
 public:
  Results(const CommandLine& line, const RunConfig& config, const std::vector<std::string>& command_line)
      : json_path_(line.json_path),
        run_{.db = config.db, .command_line = command_line, .percentiles = config.percentiles},
        environment_(DescribeEnvironment()) {
    json_to_stdout_ = json_path_ == "-";
    if (!json_path_.empty() && !json_to_stdout_) json_file_.open(json_path_, std::ios::trunc);
  }

  // Called before measuring: returns false if a file cannot be written.
  bool Writable() const { return json_path_.empty() || json_file_.good(); }

  bool Add(const PhaseResult& result) {
    const std::string text = TextReport(run_, environment_, result);
    json_.push_back(JsonPhase(run_, result));
    if (json_to_stdout_) return true;
    return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  }

  bool Finish() {
    if (json_path_.empty()) return true;
    const nlohmann::json report = JsonReport(run_, environment_, json_);
    std::ostream& out = json_to_stdout_ ? std::cout : json_file_;
    out << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    return out.good();
  }

 private:
  const std::string json_path_;
  const RunDescription run_;
  const Environment environment_;
  bool json_to_stdout_ = false;
  std::ofstream json_file_;
  std::vector<nlohmann::json> json_;
};

// Runs the phases. The exit code is the worst of them.
int RunPhases(const RunConfig& config, CoreWorkload* workload, DbBackend* backend, Results* results) {
  int code = kAllOk;
  for (PhaseOptions options : config.phases) {
    if (options.server_pid == 0 && (backend->server_is_here() || options.cpu_reporter)) {
      options.server_pid = backend->server_pid();
    }
    stop.store(caught_signal.load() != 0);  // the previous phase may have ended by its own limit
    absl::StatusOr<std::unique_ptr<PhaseResult>> result = RunPhase(options, workload, backend, &stop);
    if (!result.ok()) return Complain(result.status(), kUnreachable);
    if (!results->Add(**result)) return Complain(absl::UnknownError("cannot write the results"), kNotWritten);
    if ((*result)->failed && code == kAllOk) code = kOperationsFailed;
    if (WrongData(**result)) {
      std::fprintf(stderr, "ycsb: the data-integrity check found wrong or missing data: see [VERIFY]\n");
      code = kWrongData;
    }
    if (options.load && code != kAllOk) break;
    if (caught_signal.load() != 0) return kSignalled + caught_signal.load();
  }
  return code;
}

int Main(const std::vector<std::string>& command_line) {
  DbRegistry registry;
  RegisterDriverDb(&registry);
  RegisterFarlookDb(&registry);
  RegisterFloorDb(&registry);
  RegisterLmdbDb(&registry);
  RegisterMapDb(&registry);
  RegisterMemcachedDb(&registry);
  RegisterRedisDb(&registry);

  const absl::StatusOr<CommandLine> line =
      ParseCommandLine(std::vector<std::string>(command_line.begin() + 1, command_line.end()));
  if (!line.ok()) return Complain(line.status(), kWrongInput);
  if (line->help) {
    std::fputs(HelpText(registry).c_str(), stdout);
    return kAllOk;
  }

  PropertyReader reader(&line->properties);
  const absl::StatusOr<WorkloadConfig> workload_config = ReadWorkloadConfig(&reader);
  if (!workload_config.ok()) return Complain(workload_config.status(), kWrongInput);
  const absl::StatusOr<RunConfig> config = ReadRunConfig(*line, *workload_config, &reader);
  if (!config.ok()) return Complain(config.status(), kWrongInput);
  const absl::StatusOr<const DbEntry*> entry = registry.Find(config->db);
  if (!entry.ok()) return Complain(entry.status(), kWrongInput);
  if ((*entry)->in_process && !config->phases.front().load) {
    return Complain(
        absl::InvalidArgumentError("this store is in the process itself, and empty: give -load and -t together"),
        kWrongInput);
  }
  const absl::StatusOr<std::unique_ptr<DbBackend>> backend = (*entry)->open(&reader);
  if (!reader.status().ok()) return Complain(reader.status(), kWrongInput);
  if (!backend.ok()) {
    return Complain(backend.status(), absl::IsInvalidArgument(backend.status()) ? kWrongInput : kUnreachable);
  }
  for (const std::string& warning : config->warnings) std::fprintf(stderr, "ycsb: warning: %s\n", warning.c_str());
  for (const std::string& name : reader.Unread()) {
    std::fprintf(stderr, "ycsb: warning: property %s is unknown to ycsb and to -db %s\n", name.c_str(),
                 config->db.c_str());
  }
  if (workload_config->data_integrity) std::fprintf(stderr, "ycsb: data integrity is checked\n");

  Results results(*line, *config, command_line);
  if (!results.Writable()) {
    return Complain(absl::InvalidArgumentError("cannot create the file for the results"), kNotWritten);
  }
  CatchSignals();
  CoreWorkload workload(*workload_config);
  const int code = RunPhases(*config, &workload, backend->get(), &results);
  if (!results.Finish()) return Complain(absl::UnknownError("cannot write the JSON file"), kNotWritten);
  return code;
}

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) { return farlook::bench::Main(std::vector<std::string>(argv, argv + argc)); }
