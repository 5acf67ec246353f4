// The built program, as a user starts it, on -db map.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farlook::bench {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

struct Finished {
  int code = -1;  // or -2 - N when killed by signal N
  std::string out, err;
};

// A process that was started and not yet waited for.
class Process {
 public:
  explicit Process(std::vector<std::string> args) {
    static int number = 0;
    out_ = testing::TempDir() + "/out" + std::to_string(number);
    err_ = testing::TempDir() + "/err" + std::to_string(number++);
    args.insert(args.begin(), "bench/ycsb/ycsb");
    pid_ = fork();
    if (pid_ != 0) return;
    if (std::freopen(out_.c_str(), "w", stdout) == nullptr || std::freopen(err_.c_str(), "w", stderr) == nullptr) {
      _exit(126);
    }
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  pid_t pid() const { return pid_; }
  std::string err() const { return ReadAll(err_); }

  Finished Wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -2 - WTERMSIG(status), ReadAll(out_), ReadAll(err_)};
  }

 private:
  pid_t pid_;
  std::string out_, err_;
};

Finished RunYcsb(const std::vector<std::string>& args) { return Process(args).Wait(); }

// A load and a run of a shipped workload, small.
Finished RunWorkload(const std::string& name, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {
      "-db", "map", "-load", "-t", "-P", "bench/workloads/workload" + name, "-p", "operationcount=2000"};
  args.insert(args.end(), more.begin(), more.end());
  return RunYcsb(args);
}

// The whole number after "[SECTION], Name, " in the last phase, or -1.
int64_t Figure(const std::string& out, const std::string& name) {
  const size_t at = out.rfind(name + ", ");
  return at == std::string::npos ? -1 : std::atoll(out.c_str() + at + name.size() + 2);
}

TEST(YcsbTest, EveryShippedWorkloadRunsAndItsDataIsRight) {
  for (const char* name : {"a", "b", "c", "d", "f"}) {
    SCOPED_TRACE(name);
    const Finished run = RunWorkload(name, {"-threads", "2", "-p", "dataintegrity=true"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(Figure(run.out, "[INSERT], Return=OK"), name[0] == 'd' ? Figure(run.out, "[INSERT], Operations") : 1000);
    const int64_t reads = Figure(run.out, "[READ], Operations");
    EXPECT_GT(reads, 0);
    EXPECT_EQ(Figure(run.out, "[READ], Return=OK"), reads);
    EXPECT_EQ(Figure(run.out, "[VERIFY], Return=OK"), reads);
    EXPECT_THAT(run.out, HasSubstr("[OVERALL], Throughput(ops/sec), "));
    EXPECT_THAT(run.out, HasSubstr("[READ], 99.9PercentileLatency(us), "));
    EXPECT_THAT(run.err, Not(HasSubstr("unknown")));
  }
}

TEST(YcsbTest, WorkloadFMeasuresItsPartsAndTheWhole) {
  const Finished run = RunWorkload("f");
  const int64_t whole = Figure(run.out, "[READ-MODIFY-WRITE], Operations");
  EXPECT_GT(whole, 800);
  EXPECT_EQ(Figure(run.out, "[UPDATE], Operations"), whole);
  EXPECT_EQ(Figure(run.out, "[READ], Operations"), 2000);
}

TEST(YcsbTest, BatchesAndPipelinesDoTheSameWork) {
  for (const char* mode : {"batchsize=16", "inflight=16"}) {
    for (const char* name : {"a", "c", "d", "f"}) {
      SCOPED_TRACE(std::string(mode) + " " + name);
      const Finished run = RunWorkload(name, {"-p", mode, "-p", "dataintegrity=true", "-threads", "2"});
      EXPECT_EQ(run.code, 0) << run.err;
      const int64_t writes = std::max<int64_t>(0, Figure(run.out, "[UPDATE], Operations"));
      const int64_t inserts = name[0] == 'd' ? Figure(run.out, "[INSERT], Operations") : 0;
      const int64_t reads = Figure(run.out, "[READ], Operations");
      EXPECT_EQ(name[0] == 'f' ? reads : reads + writes + inserts, 2000);
      EXPECT_EQ(Figure(run.out, "[VERIFY], Return=OK"), reads);
    }
  }
  EXPECT_GE(Figure(RunWorkload("c", {"-p", "batchsize=16"}).out, "[READ-BATCH], Operations"), 2000 / 16);
}

TEST(YcsbTest, ATargetIsKeptAndIntendedLatenciesAreReported) {
  const Finished run = RunWorkload("b", {"-target", "4000", "-threads", "2"});
  EXPECT_EQ(run.code, 0) << run.err;
  // 2,000 operations at 4,000 a second.
  EXPECT_GE(Figure(run.out, "[OVERALL], RunTime(ms)"), 495);
  EXPECT_EQ(Figure(run.out, "[Intended-READ], Operations"), Figure(run.out, "[READ], Operations"));
  const Finished pipelined = RunWorkload("b", {"-target", "4000", "-p", "inflight=4"});
  EXPECT_GE(Figure(pipelined.out, "[OVERALL], RunTime(ms)"), 495);
  EXPECT_EQ(Figure(pipelined.out, "[Intended-READ], Operations"), Figure(pipelined.out, "[READ], Operations"));
}

TEST(YcsbTest, StatusLinesAppearEachInterval) {
  const Finished run = RunWorkload("b", {"-target", "4000", "-s", "-status.interval", "0.1"});
  EXPECT_THAT(run.err, ContainsRegex("\n20[^\n]* sec: [0-9]+ operations; [0-9.]+ current ops/sec; "
                                     "[^\n]*\\[READ: Count=[0-9]+, Max="));
  EXPECT_THAT(run.out, Not(HasSubstr("current ops/sec")));
}

TEST(YcsbTest, TheJsonHoldsBothPhases) {
  const std::string path = testing::TempDir() + "/result.json";
  ASSERT_EQ(RunWorkload("a", {"--json", path, "-p", "farlook.server_pid=" + std::to_string(getpid())}).code, 0);
  const nlohmann::json json = nlohmann::json::parse(ReadAll(path));
  ASSERT_EQ(json["phases"].size(), 2u);
  EXPECT_EQ(json["phases"][0]["phase"], "load");
  EXPECT_EQ(json["phases"][0]["operations"], 1000);
  EXPECT_EQ(json["phases"][1]["operations"], 2000);
  EXPECT_TRUE(json["phases"][1]["server_cpu"]["ns"].is_number());
  EXPECT_TRUE(json["phases"][1]["metrics"]["READ"]["latency_ns"]["p99.9"].is_number());
}

TEST(YcsbTest, JsonAloneGoesToStdout) {
  const Finished run = RunWorkload("a", {"--json", "-"});
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(nlohmann::json::parse(run.out)["phases"].size(), 2u);
}

TEST(YcsbTest, AServersCpuTimeThatNobodyTellsIsAnError) {
  const std::string pid = "farlook.server_pid=" + std::to_string(getpid());
  const Finished silent = RunWorkload("a", {"-p", pid, "-p", "server.cpu_reporter=tcp://127.0.0.1:1"});
  EXPECT_EQ(silent.code, 2);
  EXPECT_THAT(silent.err, HasSubstr("no report of the server's CPU time from 127.0.0.1:1"));
  const Finished wrong = RunWorkload("a", {"-p", pid, "-p", "server.cpu_reporter=unix:///tmp/x"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("server.cpu_reporter"));
}

TEST(YcsbTest, TheSameSeedMakesTheSameMix) {
  const auto mix = [](const char* seed) {
    const Finished run = RunWorkload("a", {"-p", seed});
    return Figure(run.out, "[UPDATE], Operations");
  };
  EXPECT_EQ(mix("seed=5"), mix("seed=5"));
}

TEST(YcsbTest, TheTimeLimitEndsARun) {
  const Finished run = RunWorkload("c", {"-p", "operationcount=0", "-p", "maxexecutiontime=0.3"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_GE(Figure(run.out, "[OVERALL], RunTime(ms)"), 300);
  EXPECT_GT(Figure(run.out, "[READ], Operations"), 0);
}

TEST(YcsbTest, ASignalEndsARunWithItsResults) {
  Process process({"-db", "map", "-load", "-t", "-P", "bench/workloads/workloadc", "-p", "operationcount=0", "-p",
                   "maxexecutiontime=600", "-s", "-status.interval", "0.02"});
  // Until it runs transactions.
  for (int i = 0; i < 3000 && process.err().find("[READ:") == std::string::npos; ++i) usleep(10'000);
  kill(process.pid(), SIGINT);
  const Finished run = process.Wait();
  EXPECT_EQ(run.code, 128 + SIGINT);
  EXPECT_GT(Figure(run.out, "[READ], Operations"), 0);
}

TEST(YcsbTest, MissingRecordsAreFailuresAndNotCrashes) {
  // Expect: 500 of 1,000 records were loaded; the run asks for all.
  const Finished run = RunWorkload("c", {"-p", "insertcount=500", "-p", "requestdistribution=latest"});
  EXPECT_EQ(run.code, 3);
  EXPECT_GT(Figure(run.out, "[READ], Return=NOT_FOUND"), 0);
  EXPECT_GT(Figure(run.out, "[READ-FAILED], Operations"), 0);
  EXPECT_THAT(run.err, HasSubstr("READ failed: NOT_FOUND: no record user"));
}

TEST(YcsbTest, MissingDataFailsTheIntegrityCheck) {
  const Finished run =
      RunWorkload("c", {"-p", "insertcount=500", "-p", "requestdistribution=latest", "-p", "dataintegrity=true"});
  EXPECT_EQ(run.code, 4);
  EXPECT_GT(Figure(run.out, "[VERIFY], Return=ERROR"), 0);
}

TEST(YcsbTest, WrongInputIsNamedAndNothingIsRun) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-P", "bench/workloads/none"}, "cannot read the properties file bench/workloads/none: No such file"},
      {{"-p", "recordcount=1e6"}, "property recordcount=1e6 is not a whole number"},
      {{"-p", "recordcount=0"}, "property recordcount=0 is not between 1 and"},
      {{"-p", "insertstart=2000"}, "insertstart=2000 is not below recordcount"},
      {{"-p", "insertstart=500", "-p", "insertcount=501"}, "go beyond recordcount"},
      {{"-p", "workload=site.ycsb.workloads.RestWorkload"}, "workload=site.ycsb.workloads.RestWorkload is unknown"},
      {{"-p", "requestdistribution=zipf"}, "uniform, zipfian"},
      {{"-p", "operationcount=0"}, "operationcount=0"},
      {{"-threads", "-1"}, "threadcount=-1"},
      {{"-target", "x"}, "target=x"},
      {{"-db", "mup"}, "unknown -db mup; there are: "},
      {{"-x"}, "unknown option -x"},
      {{"-P"}, "option -P needs a value"},
      {{"-P", "bench/workloads/workloade"}, "workload E cannot run here"},
  };
  for (const auto& [args, message] : cases) {
    SCOPED_TRACE(message);
    const Finished run = RunWorkload("c", args);
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, AllOf(HasSubstr("ycsb: "), HasSubstr(message)));
  }
}

TEST(YcsbTest, AnEmptyStoreInTheProcessIsRefused) {
  const Finished run = RunYcsb({"-db", "map", "-t", "-P", "bench/workloads/workloadc"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("give -load and -t together"));
}

TEST(YcsbTest, UnknownPropertiesAreAWarning) {
  const Finished run = RunWorkload("c", {"-p", "readpropotion=1"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("warning: property readpropotion is unknown"));
}

TEST(YcsbTest, ResultsThatCannotBeWrittenAreReported) {
  EXPECT_EQ(RunWorkload("c", {"--json", "/nowhere/result.json"}).code, 5);
  EXPECT_EQ(RunWorkload("c", {"--json", "/dev/full"}).code, 5);
}

TEST(YcsbTest, HelpNamesOptionsStoresAndExitCodes) {
  const Finished run = RunYcsb({"--help"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, AllOf(HasSubstr("-threads N"), HasSubstr("map: a hash map"), HasSubstr("Exit codes")));
}

}  // namespace
}  // namespace farlook::bench
