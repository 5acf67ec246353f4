#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/figures.h"
#include "client/cli/interrupt.h"
#include "client/cli/json_line.h"

namespace farlook::cli {
namespace {

constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

// One look at the figures.
struct Sample {
  int64_t time_ns = 0;
  uint64_t incarnation = 0;
  std::vector<Figure> figures;
};

absl::StatusOr<Sample> TakeSample(const Context& context) {
  absl::StatusOr<std::string> text = context.store->ServerStats(context.options.timeout_ms);
  if (!text.ok()) return text.status();
  return Sample{NowNs(), context.store->incarnation(), ParseFigures(*text)};
}

std::string Now(const char* format) { return absl::FormatTime(format, absl::Now(), absl::LocalTimeZone()); }

// Prints samples, each with the changes since the one before.
class Watcher {
 public:
  explicit Watcher(const Context& context) : context_(context), out_(context.console.out()) {}

  void Print(const Sample& earlier, const Sample& later) {
    const double seconds = static_cast<double>(later.time_ns - earlier.time_ns) / 1e9;
    const std::vector<FigureChange> changes = CompareFigures(earlier.figures, later.figures, seconds);
    if (context_.options.json) {
      PrintJson(later, changes, seconds);
    } else if (out_.is_terminal()) {
      PrintScreen(changes);
    } else {
      const auto changed = [](const FigureChange& change) { return change.changed; };
      out_.Write(absl::StrCat(Now("%Y-%m-%d %H:%M:%S"), "\n", FormatChanges(changes, changed), "\n"));
    }
    out_.Flush();
  }

 private:
  void PrintJson(const Sample& sample, const std::vector<FigureChange>& changes, double seconds) {
    JsonLine rates;
    for (const FigureChange& change : changes) {
      if (change.per_second.has_value()) rates.Number(change.name, *change.per_second);
    }
    out_.WriteLine(JsonLine()
                       .Bytes("time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()))
                       .Number("seconds", seconds)
                       .Object("figures", FiguresToJson(sample.figures))
                       .Object("per_second", rates)
                       .ToString());
  }

  // A server has more figures than a terminal has lines: those are shown that changed, now or before.
  void PrintScreen(const std::vector<FigureChange>& changes) {
    for (const FigureChange& change : changes) {
      if (change.changed) moving_.insert(change.name);
    }
    const auto moves = [this](const FigureChange& change) { return moving_.contains(change.name); };
    out_.Write(absl::StrCat(kClearScreen, Now("%H:%M:%S"), "  ", context_.options.address, "  (Ctrl-C ends)\n\n",
                            FormatChanges(changes, moves), "\n", changes.size() - moving_.size(),
                            " figures have not changed; stat prints them\n"));
  }

  const Context& context_;
  Output& out_;
  absl::flat_hash_set<std::string> moving_;
};

// Ctrl-C is how watch and an endless ping are ended, so it is no failure of theirs.
bool Pause(const Context& context, int64_t deadline_ns) {
  return context.console.out().status().ok() && SleepUntilNs(deadline_ns);
}

}  // namespace

ExitCode RunStat(Context& context) {
  std::string text;
  if (context.options.client) {
    text = context.store->ClientStats();
  } else {
    absl::StatusOr<std::string> stats = context.store->ServerStats(context.options.timeout_ms);
    if (!stats.ok()) return context.Fail(stats.status());
    text = *std::move(stats);
  }
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(FiguresToJson(ParseFigures(text)).ToString());
  } else {
    out.Write(text);
    if (!text.empty() && !absl::EndsWith(text, "\n")) out.Write("\n");
  }
  return ExitCode::kOk;
}

ExitCode RunWatch(Context& context) {
  CatchInterrupts();
  absl::StatusOr<Sample> earlier = TakeSample(context);
  if (!earlier.ok()) return context.Fail(earlier.status());
  const int64_t interval_ns = context.options.interval_ms * 1'000'000;
  int64_t next_ns = earlier->time_ns;
  Watcher watcher(context);
  ExitCode code = ExitCode::kOk;
  for (int64_t i = 0; context.options.count == 0 || i < context.options.count; ++i) {
    next_ns = std::max(next_ns + interval_ns, NowNs());
    if (!Pause(context, next_ns)) break;
    absl::StatusOr<Sample> later = TakeSample(context);
    if (!later.ok()) {
      // Goes on: who watches wants to see the server come back.
      code = Worst(code, context.Fail(later.status()));
      continue;
    }
    if (later->incarnation != earlier->incarnation) {
      context.console.Note("watch: the server was started anew; its figures begin again");
    } else {
      watcher.Print(*earlier, *later);
    }
    earlier = std::move(later);
  }
  return code;
}

ExitCode RunPing(Context& context) {
  CatchInterrupts();
  const int64_t count = std::max<int64_t>(context.options.count, 1);
  ExitCode code = ExitCode::kOk;
  std::vector<double> round_trips_us;
  int64_t next_ns = NowNs();
  for (int64_t i = 0; i < count; ++i) {
    if (!Pause(context, next_ns)) break;
    next_ns = std::max(next_ns, NowNs()) + context.options.interval_ms * 1'000'000;
    const int64_t start_ns = NowNs();
    const absl::Status status = context.store->Ping(context.options.timeout_ms);
    const double us = static_cast<double>(NowNs() - start_ns) / 1e3;
    if (!status.ok()) {
      code = Worst(code, context.Fail(status));
      continue;
    }
    round_trips_us.push_back(us);
    Output& out = context.console.out();
    if (context.options.json) {
      out.WriteLine(JsonLine().Bytes("address", context.options.address).Number("round_trip_us", us).ToString());
    } else {
      out.WriteLine(absl::StrFormat("answer from %s in %.1f us", context.options.address, us));
    }
    out.Flush();
  }
  if (round_trips_us.size() > 1 && !context.options.json) {
    std::sort(round_trips_us.begin(), round_trips_us.end());
    context.console.out().WriteLine(absl::StrFormat("%d answers: least %.1f us, median %.1f us, most %.1f us",
                                                    round_trips_us.size(), round_trips_us.front(),
                                                    round_trips_us[round_trips_us.size() / 2], round_trips_us.back()));
  }
  return code;
}

}  // namespace farlook::cli
