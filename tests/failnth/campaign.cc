#include "tests/failnth/campaign.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "rdma/test_address.h"
#include "tests/failnth/scenario.h"

extern "C" char __executable_start;  // of the linker: places are printed in the form for addr2line

namespace farlook::failnth {
namespace {

// Much longer than any run on a busy machine: a run that takes this long hangs.
constexpr unsigned kBoundS = 200;

constexpr int kWrong = 99;
constexpr size_t kOutputBytes = 8192;

// Abseil maps memory for its record of each thread, and keeps it for later threads. It must exist before the runs, so
// that they do not seem to leak it.
void HaveAbseilKnowThreads() {
  constexpr int kThreads = 16;
  absl::Barrier* const together = new absl::Barrier(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([together] {
      if (together->Block()) delete together;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr const char* kPhaseNames[] = {"start-up", "connecting", "load", "shutdown"};

// One run in a child process.
class Child {
 public:
  Child(Phase phase, const Choice& choice, Report* report)
      : phase_(phase), choice_(choice), report_(report), output_(tmpfile()) {
    if (output_ == nullptr) abort();
    memset(static_cast<void*>(report_), 0, sizeof(*report_));
    const std::string address = rdma::UnusedTestAddress();
    fflush(stdout);
    fflush(stderr);
    pid_ = fork();
    if (pid_ < 0) abort();
    if (pid_ > 0) return;
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);  // ending by a signal is usual here
    alarm(kBoundS);
    dup2(fileno(output_), STDERR_FILENO);
    // On a separate thread: an uncaught exception ends the process where it is thrown, and is not caught by our caller.
    std::string trouble;
    std::thread([&] { trouble = RunScenario(address, phase_, choice_, report_); }).join();
    fputs(trouble.c_str(), stderr);
    exit(trouble.empty() ? 0 : kWrong);  // the leak sanitizer's turn
  }
  ~Child() { fclose(output_); }

  void Wait() {
    while (waitpid(pid_, &status_, 0) < 0) {
    }
  }

  const Choice& choice() const { return choice_; }
  const Report& report() const { return *report_; }
  bool reached() const { return report_->failed.load(std::memory_order_acquire); }
  bool fine() const { return status_ == 0; }

  // Returns whether the process ended as one that has no memory and reports it.
  bool EndedForLackOfMemory() {
    return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGABRT && absl::StrContains(Output(), "terminate called");
  }

  std::string Describe() {
    std::string text = absl::StrCat("while ", kPhaseNames[static_cast<int>(phase_)], ", call ", choice_.nth);
    if (reached()) {
      absl::StrAppend(&text, ", ", report_->name, " from ",
                      absl::Hex(report_->site - reinterpret_cast<uintptr_t>(&__executable_start)));
      if (report_->bytes != 0) absl::StrAppend(&text, " of ", report_->bytes, " bytes");
      absl::StrAppend(&text, ", fails with ", strerror(report_->error));
    } else {
      absl::StrAppend(&text, " was never made");
    }
    if (WIFEXITED(status_)) {
      absl::StrAppend(&text, ": exit code ", WEXITSTATUS(status_));
    } else if (WTERMSIG(status_) == SIGALRM) {
      absl::StrAppend(&text, ": hung");
    } else {
      absl::StrAppend(&text, ": ended by signal ", WTERMSIG(status_));
    }
    return absl::StrCat(text, "\n", Output());
  }

 private:
  std::string Output() {
    rewind(output_);
    char text[kOutputBytes];
    return std::string(text, fread(text, 1, sizeof(text), output_));
  }

  const Phase phase_;
  const Choice choice_;
  Report* const report_;
  FILE* const output_;
  pid_t pid_ = -1;
  int status_ = 0;  // of waitpid
};

class Campaign {
 public:
  explicit Campaign(const Plan& plan) : plan_(plan) {
    void* const memory =
        mmap(nullptr, sizeof(Report) * plan.at_once, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    reports_ = static_cast<Report*>(memory);
  }
  ~Campaign() { munmap(static_cast<void*>(reports_), sizeof(Report) * plan_.at_once); }

  void RunPhase(Phase phase) {
    phase_ = phase;
    places_.clear();  // the calls of one place differ between phases: a greeting, and a wake-up
    seen_.clear();
    plan_.of_each_place > 0 ? RunPlaces() : RunAll();
  }

  Summary& summary() { return summary_; }

 private:
  void RunAll() {
    // A run may make fewer calls than another, since threads interleave differently. The end is reached when a whole
    // batch makes no such call.
    bool reached = true;
    for (uint64_t nth = 1; reached;) {
      std::vector<Choice> batch;
      for (size_t i = 0; i < plan_.at_once; ++i, ++nth) batch.push_back({plan_.kind, 0, nth, 0});
      std::vector<Choice> other_errors;
      reached = RunBatch(batch, &other_errors);
      RunInBatches(other_errors, nullptr);
    }
    // For the same reason the nth may have been another place's call each time.
    std::vector<Choice> missed;
    for (const uintptr_t place : seen_) {
      if (!places_.contains(place)) missed.push_back({plan_.kind, place, 1, 0});
    }
    std::vector<Choice> other_errors;
    RunInBatches(missed, &other_errors);
    RunInBatches(other_errors, nullptr);
  }

  void RunPlaces() {
    RunBatch({{plan_.kind}}, nullptr);
    const size_t calls = std::min<size_t>(reports_[0].calls.load(), Report::kPlaces);
    std::map<uintptr_t, uint64_t> of_place;
    for (size_t i = 0; i < calls; ++i) ++of_place[reports_[0].places[i].load()];
    std::vector<Choice> choices;
    for (const auto& [place, count] : of_place) {
      for (uint64_t nth = 1; nth <= std::min(count, plan_.of_each_place); ++nth) {
        choices.push_back({plan_.kind, place, nth, 0});
      }
    }
    std::vector<Choice> other_errors;
    RunInBatches(choices, &other_errors);
    RunInBatches(other_errors, nullptr);
  }

  void RunInBatches(const std::vector<Choice>& choices, std::vector<Choice>* other_errors) {
    for (size_t i = 0; i < choices.size(); i += plan_.at_once) {
      const auto begin = choices.begin() + static_cast<ptrdiff_t>(i);
      RunBatch({begin, begin + static_cast<ptrdiff_t>(std::min(plan_.at_once, choices.size() - i))}, other_errors);
    }
  }

  // Returns whether any of the calls was made. `other_errors` gets the choices to run for places not seen before.
  bool RunBatch(const std::vector<Choice>& batch, std::vector<Choice>* other_errors) {
    std::vector<std::unique_ptr<Child>> children;
    for (const Choice& choice : batch) {
      children.push_back(std::make_unique<Child>(phase_, choice, &reports_[children.size()]));
    }
    bool reached = false;
    for (const auto& child : children) {
      child->Wait();
      reached = child->reached() || reached;
      Judge(*child);
      const size_t calls = std::min<size_t>(child->report().calls.load(), Report::kPlaces);
      for (size_t i = 0; i < calls; ++i) seen_.insert(child->report().places[i].load());
      if (other_errors == nullptr || !child->reached() || !places_.insert(child->report().site).second) continue;
      for (uint32_t error = 1; error < child->report().errors; ++error) {
        other_errors->push_back(child->choice());
        other_errors->back().error = error;
      }
    }
    return reached;
  }

  void Judge(Child& child) {
    ++summary_.runs;
    if (child.reached()) ++summary_.by_name[child.report().name];
    if (child.fine()) return;
    if (plan_.may_end && child.EndedForLackOfMemory()) {
      ++summary_.ended;
      return;
    }
    summary_.failures.push_back(child.Describe());
  }

  const Plan plan_;
  Phase phase_ = Phase::kStartUp;
  Report* reports_ = nullptr;   // shared with the children
  std::set<uintptr_t> places_;  // that failed in this phase
  std::set<uintptr_t> seen_;    // that made calls in it
  Summary summary_;
};

}  // namespace

Summary FailEveryNth(const Plan& plan) {
  HaveAbseilKnowThreads();
  Campaign campaign(plan);
  for (const Phase phase : {Phase::kStartUp, Phase::kConnect, Phase::kLoad, Phase::kShutdown}) campaign.RunPhase(phase);
  return std::move(campaign.summary());
}

void Print(const Summary& summary) {
  printf("%llu runs; ended by the failure: %llu\n", static_cast<unsigned long long>(summary.runs),
         static_cast<unsigned long long>(summary.ended));
  for (const auto& [name, runs] : summary.by_name) {
    printf("  %-26s failed in %llu runs\n", name.c_str(), static_cast<unsigned long long>(runs));
  }
  for (const std::string& failure : summary.failures) printf("%s\n", failure.c_str());
}

}  // namespace farlook::failnth
