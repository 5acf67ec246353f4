#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "client/cli/terminal/figures.h"

namespace farlook::cli {
namespace {

constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

// One sample of the figures.
struct Sample {
  int64_t time_ns = 0;
  uint64_t incarnation = 0;
  std::vector<Figure> figures;
};

double AmountOf(const std::vector<Figure>& figures, absl::string_view name) {
  for (const Figure& figure : figures) {
    double amount;
    if (figure.name == name && absl::SimpleAtod(figure.value, &amount)) return amount;
  }
  return 0;
}

// Samples the server; in a cluster all groups, or the one in the options.
absl::StatusOr<Sample> TakeSample(const Context& context) {
  const absl::StatusOr<std::vector<std::string>> groups = context.GroupNames();
  if (!groups.ok()) return groups.status();
  std::vector<std::vector<Figure>> figures;
  uint64_t incarnation = 0;
  for (const std::string& group : *groups) {
    absl::StatusOr<std::string> text = context.store->ServerStats(context.At(group));
    if (!text.ok()) return text.status();
    figures.push_back(ParseFigures(*text));
    const auto its = std::find_if(figures.back().begin(), figures.back().end(),
                                  [](const Figure& figure) { return figure.name == "incarnation"; });
    if (its != figures.back().end()) incarnation += absl::HashOf(its->value);
  }
  if (groups->size() == 1) incarnation = context.store->incarnation();
  return Sample{NowNs(), incarnation, AddFigures(figures)};
}

std::string Now(const char* format, absl::TimeZone zone = absl::LocalTimeZone()) {
  return absl::FormatTime(format, absl::Now(), zone);  // wall clock
}

// Prints samples, each with the changes since the one before.
class Watcher {
 public:
  explicit Watcher(const Context& context) : context_(context), out_(context.console.out()) {}

  void Print(const Sample& earlier, const Sample& later) {
    const double seconds = static_cast<double>(later.time_ns - earlier.time_ns) / 1e9;
    std::vector<FigureChange> changes = CompareFigures(earlier.figures, later.figures, seconds);
    if (!context_.options.json) {
      std::erase_if(changes, [](const FigureChange& change) { return Figure{change.name, ""}.is_bucket(); });
    }
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
                       .Bytes("time", Now("%Y-%m-%dT%H:%M:%SZ", absl::UTCTimeZone()))
                       .Number("seconds", seconds)
                       .Object("figures", FiguresToJson(sample.figures))
                       .Object("per_second", rates)
                       .ToString());
  }

  // Shows the figures that have changed at any time, as far as the terminal has lines. If the heading scrolled away,
  // time and address would be lost.
  void PrintScreen(const std::vector<FigureChange>& changes) {
    for (const FigureChange& change : changes) {
      if (change.changed) moving_.insert(change.name);
    }
    constexpr size_t kOtherLines = 5;  // heading, blank, blank, note, cursor
    const size_t height = context_.console.height();
    size_t lines = height > kOtherLines ? height - kOtherLines : 1;
    const auto shown = [&](const FigureChange& change) {
      if (!moving_.contains(change.name) || lines == 0) return false;
      --lines;
      return true;
    };
    std::vector<FigureChange> rows;
    std::copy_if(changes.begin(), changes.end(), std::back_inserter(rows), shown);
    out_.Write(absl::StrCat(kClearScreen, Now("%H:%M:%S"), "  ", context_.options.address, "  (Ctrl-C ends)\n\n",
                            FormatChanges(rows, [](const FigureChange&) { return true; }), "\n",
                            changes.size() - rows.size(), " other figures; stat prints them\n"));
  }

  const Context& context_;
  Output& out_;
  absl::flat_hash_set<std::string> moving_;
};

// The most important figures of a server, as one line.
struct Top {
  double writes = 0;     // per second
  double reads = 0;      // requests for reads, per second
  bool reports = false;  // a client has reported its gets, so these are known:
  double gets = 0;       // per second
  double get_p99_ns = 0;
  double cpus = 0;
  double used_share = 0;  // of the region
  double keys = 0;
  double clients = 0;
};

Top TopOf(const Sample& earlier, const Sample& later) {
  const double seconds = static_cast<double>(std::max<int64_t>(later.time_ns - earlier.time_ns, 1)) / 1e9;
  const auto rate = [&](std::initializer_list<absl::string_view> names) {
    double sum = 0;
    for (const absl::string_view name : names) {
      sum += AmountOf(later.figures, name) - AmountOf(earlier.figures, name);
    }
    return sum / seconds;
  };
  Top top;
  top.writes =
      rate({"requests_put", "requests_put_pulled", "requests_delete", "requests_touch", "requests_get_and_touch",
            "requests_counter_create", "requests_counter_add", "requests_counter_swap", "requests_counter_delete"});
  top.reads = rate({"requests_get", "requests_ttl", "requests_counter_read"});
  top.reports = AmountOf(later.figures, "reporting_clients") != 0;
  top.gets = AmountOf(later.figures, "client_gets_per_s");
  top.get_p99_ns = AmountOf(later.figures, "get_p99_ns");
  top.cpus = rate({"cpu_user_s", "cpu_system_s"});
  const double region = AmountOf(later.figures, "region_bytes");
  const double spare = AmountOf(later.figures, "free_bytes") + AmountOf(later.figures, "reclaimable_bytes");
  if (region > 0) top.used_share = 1 - spare / region;
  top.keys = AmountOf(later.figures, "keys");
  top.clients = AmountOf(later.figures, "connections");
  return top;
}

constexpr int64_t kTopRows = 20;  // between two headings

void PrintTop(const Context& context, const Sample& earlier, const Sample& later, bool first) {
  const Top top = TopOf(earlier, later);
  Output& out = context.console.out();
  if (context.options.json) {
    JsonLine line;
    line.Bytes("time", Now("%Y-%m-%dT%H:%M:%SZ", absl::UTCTimeZone()))
        .Number("writes_per_second", top.writes)
        .Number("asked_reads_per_second", top.reads);
    if (top.reports) line.Number("gets_per_second", top.gets).Number("get_p99_us", top.get_p99_ns / 1e3);
    out.WriteLine(line.Number("cpus", top.cpus)
                      .Number("used_share", top.used_share)
                      .Number("keys", top.keys)
                      .Number("clients", top.clients)
                      .ToString());
  } else {
    if (first) {
      out.WriteLine(
          "time      writes/s  reads/s*      gets/s  p99 us  CPUs   used  keys          clients   * by message");
    }
    const std::string reports = top.reports ? absl::StrFormat("%10.0f  %6.1f  ", top.gets, top.get_p99_ns / 1e3)
                                            : absl::StrFormat("%10s  %6s  ", "-", "-");
    out.WriteLine(absl::StrFormat("%s  %8.0f  %8.0f  %s%4.2f  %4.1f%%  %-12.0f  %.0f", Now("%H:%M:%S"), top.writes,
                                  top.reads, reports, top.cpus, 100 * top.used_share, top.keys, top.clients));
  }
  out.Flush();
}

// Ctrl-C is the normal way to end watch and an endless ping, so it is no failure.
bool Pause(const Context& context, int64_t deadline_ns) {
  return context.console.out().status().ok() && SleepUntilNs(deadline_ns);
}

}  // namespace

ExitCode RunStat(Context& context) {
  std::vector<Figure> all;
  if (context.options.client) {
    all = ParseFigures(context.store->ClientStats());
  } else {
    absl::StatusOr<Sample> sample = TakeSample(context);
    if (!sample.ok()) return context.Fail(sample.status());
    all = std::move(sample->figures);
  }
  std::vector<Figure> figures;
  std::copy_if(all.begin(), all.end(), std::back_inserter(figures), [&](const Figure& figure) {
    return context.operands.empty() ||
           std::any_of(context.operands.begin(), context.operands.end(),
                       [&](const Operand& prefix) { return absl::StartsWith(figure.name, prefix.text); });
  });
  if (figures.empty() && !context.operands.empty()) {
    return context.Fail(ExitCode::kNotFound,
                        absl::StrCat("no figure's name begins with ", Quoted(context.operands[0].text)));
  }
  Output& out = context.console.out();
  if (context.options.json) {
    out.WriteLine(FiguresToJson(figures).ToString());
  } else {
    for (const Figure& figure : figures) {
      const std::string line = absl::StrCat(figure.name, " ", figure.value);
      out.WriteLine(out.is_terminal() ? Printable(line) : line);
    }
  }
  return ExitCode::kOk;
}

ExitCode RunTop(Context& context) {
  CatchInterrupts();
  absl::StatusOr<Sample> earlier = TakeSample(context);
  if (!earlier.ok()) return context.Fail(earlier.status());
  int64_t next_ns = earlier->time_ns;
  ExitCode code = ExitCode::kOk;
  for (int64_t i = 0; context.options.count == 0 || i < context.options.count; ++i) {
    next_ns = std::max(next_ns + context.options.interval_ms * 1'000'000, NowNs());
    if (!Pause(context, next_ns)) break;
    absl::StatusOr<Sample> later = TakeSample(context);
    if (!later.ok()) {
      code = Worst(code, context.Fail(later.status()));
      continue;
    }
    if (later->incarnation == earlier->incarnation) {
      PrintTop(context, *earlier, *later, /*first=*/i % kTopRows == 0);
    } else {
      context.console.Note("top: the server was restarted; its figures begin at 0");
    }
    earlier = std::move(later);
  }
  return code;
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
      // Continues, since the user waits for the server to come back.
      code = Worst(code, context.Fail(later.status()));
      continue;
    }
    if (later->incarnation != earlier->incarnation) {
      context.console.Note("watch: the server was restarted; its figures begin at 0");
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
    const absl::Status status = context.store->Ping(context.At(context.options.group));
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
