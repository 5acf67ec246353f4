// Runs simulations from the command line: many seeds, or one again.
//
//     simulate --seeds=N [--first=S]       stops at the first that fails, shrinks it, and says how to run it again
//     simulate --seed=S [--operations=N] [--clients=N] [--servers=N] [--keys=N] [--in_flight=N] [--faults=BITS]
//     ... --break=N                        with that mutation (tests/sim/hook.h)
//     ... --focus=N                        runs of one kind only (tests/sim/plan.h)
//     ... --keep_going                     counts those that fail
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/sim/report.h"
#include "tests/sim/run.h"

namespace farlook::sim {
namespace {

const std::set<std::string> kFlags = {"--seeds",   "--first", "--keep_going", "--focus",
                                      "--break",   "--seed",  "--operations", "--clients",
                                      "--servers", "--keys",  "--in_flight",  "--faults"};

int Main(int argc, char** argv) {
  std::map<std::string, uint64_t> flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    const size_t equals = flag.find('=');
    uint64_t value = 1;
    const std::string name(flag.substr(0, equals));
    if (kFlags.count(name) == 0 || (equals != flag.npos && !absl::SimpleAtoi(flag.substr(equals + 1), &value))) {
      std::fprintf(stderr, "simulate: what is %s? See tests/sim/simulate.cc\n", argv[i]);
      return 2;
    }
    flags[name.substr(2)] = value;
  }
  const auto broken = static_cast<Break>(flags["break"]);
  const auto focus = static_cast<Focus>(flags["focus"]);
  if (flags.count("seed") != 0) {
    Plan plan = DrawPlan(flags["seed"], focus);
    const auto set = [&](const char* name, int Plan::*field) {
      if (flags.count(name) != 0) plan.*field = static_cast<int>(flags[name]);
    };
    set("operations", &Plan::operations);
    set("clients", &Plan::clients);
    set("servers", &Plan::servers);
    set("keys", &Plan::keys);
    set("in_flight", &Plan::in_flight);
    if (flags.count("faults") != 0) plan.faults = flags["faults"];
    const RunResult result = RunPlan(plan, broken, /*noting=*/true);
    std::printf("%s\n%s", Describe(plan).c_str(), result.trace.c_str());
    std::printf("%s\n", result.violation.empty() ? "all is well" : result.violation.c_str());
    return result.violation.empty() ? 0 : 1;
  }
  const uint64_t first = flags.count("first") != 0 ? flags["first"] : 1;
  const uint64_t seeds = flags.count("seeds") != 0 ? flags["seeds"] : 100;
  Totals totals;
  int failed = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Plan plan = DrawPlan(seed, focus);
    const RunResult result = RunPlan(plan, broken);
    totals.Add(result);
    if (result.violation.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.violation.c_str());
    if (flags["keep_going"] != 0) continue;
    std::printf("%s", Explain(plan, broken).c_str());
    break;
  }
  std::printf("two faults struck together in %llu runs at least; never in one run: %s\n",
              static_cast<unsigned long long>(totals.RarestPair()), totals.PairsNotSeen().c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s, %.1f s, %d failed\n", totals.ToString().c_str(), seconds, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace farlook::sim

int main(int argc, char** argv) { return farlook::sim::Main(argc, argv); }
