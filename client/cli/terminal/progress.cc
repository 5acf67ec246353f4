#include "client/cli/terminal/progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/input/interrupt.h"

namespace farlook::cli {
namespace {

constexpr int64_t kDrawNs = 100'000'000;
constexpr int64_t kRateNs = 500'000'000;
constexpr size_t kBarFrame = 3;  // " |" and "|"
constexpr size_t kLeastBarColumns = 8;
constexpr size_t kMostBarColumns = 40;

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Bytes(double bytes) {
  if (bytes < 1e3) return absl::StrFormat("%.0f B", bytes);
  if (bytes < 1e6) return absl::StrFormat("%.1f kB", bytes / 1e3);
  if (bytes < 1e9) return absl::StrFormat("%.1f MB", bytes / 1e6);
  return absl::StrFormat("%.2f GB", bytes / 1e9);
}

}  // namespace

std::string FormatClock(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds + 0.5, 359999.0));
  if (whole >= 3600) return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

std::string FormatProgress(absl::string_view name, const ProgressFigures& figures, double pairs_per_second,
                           double elapsed_seconds, size_t width) {
  const bool total_known = figures.total_bytes > 0;
  const double part =
      total_known ? std::min(1.0, static_cast<double>(figures.input_bytes) / static_cast<double>(figures.total_bytes))
                  : 0;
  const double bytes_per_pair =
      figures.pairs == 0 ? 0 : static_cast<double>(figures.pair_bytes) / static_cast<double>(figures.pairs);
  const std::string head =
      total_known ? absl::StrFormat("%s %3d%%", name, static_cast<int>(part * 100)) : std::string(name);

  // The most important first: the first piece that does not fit is omitted, with all after it. The bar comes before the
  // last two.
  std::vector<std::string> pieces = {absl::StrCat(figures.pairs, " ", figures.unit)};
  if (figures.failures > 0) pieces.push_back(absl::StrCat(figures.failures, " failed"));
  pieces.push_back(absl::StrFormat("%.0f/s", pairs_per_second));
  const size_t before_bar = pieces.size();
  if (part > 0 && part < 1) pieces.push_back(absl::StrCat(FormatClock(elapsed_seconds * (1 - part) / part), " left"));
  if (bytes_per_pair > 0) pieces.push_back(absl::StrCat(Bytes(pairs_per_second * bytes_per_pair), "/s"));
  std::string tail;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t bar_columns = i >= before_bar && total_known ? kBarFrame + kLeastBarColumns : 0;
    if (head.size() + bar_columns + tail.size() + 2 + pieces[i].size() > width) break;
    absl::StrAppend(&tail, "  ", pieces[i]);
  }

  std::string bar;
  const size_t used = head.size() + kBarFrame + tail.size();
  if (total_known && used + kLeastBarColumns <= width) {
    const size_t columns = std::min(width - used, kMostBarColumns);
    const auto filled = static_cast<size_t>(part * static_cast<double>(columns));
    bar = absl::StrCat(" |", std::string(filled, '#'), std::string(columns - filled, ' '), "|");
  }
  return absl::StrCat(head, bar, tail).substr(0, width);
}

std::string FormatSummary(const ProgressFigures& figures, double elapsed_seconds) {
  return absl::StrFormat("%d pairs, %s, in %.2f s (%.0f/s)", figures.pairs,
                         Bytes(static_cast<double>(figures.pair_bytes)), elapsed_seconds,
                         elapsed_seconds > 0 ? static_cast<double>(figures.pairs) / elapsed_seconds : 0);
}

Progress::Progress(Console* console, absl::string_view name)
    : console_(*console),
      name_(name),
      visible_(console->err().is_terminal()),
      start_ns_(NowNs()),
      drawn_ns_(start_ns_),
      rated_ns_(start_ns_) {}

void Progress::Update(const ProgressFigures& figures) {
  if (!visible_) return;
  const int64_t now_ns = NowNs();
  if (now_ns - drawn_ns_ < kDrawNs) return;
  drawn_ns_ = now_ns;
  const bool first = rated_ns_ == start_ns_;
  if (first || now_ns - rated_ns_ >= kRateNs) {
    pairs_per_second_ = static_cast<double>(figures.pairs - rated_pairs_) / Seconds(now_ns - rated_ns_);
    rated_pairs_ = figures.pairs;
    rated_ns_ = now_ns;
  }
  console_.ShowStatusLine(
      FormatProgress(name_, figures, pairs_per_second_, Seconds(now_ns - start_ns_), console_.width()));
}

double Progress::ElapsedSeconds() const { return Seconds(NowNs() - start_ns_); }

}  // namespace farlook::cli
