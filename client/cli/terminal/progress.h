// The progress bar of import and export, and of scans.
#ifndef FARLOOK_CLIENT_CLI_TERMINAL_PROGRESS_H_
#define FARLOOK_CLIENT_CLI_TERMINAL_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/terminal/console.h"

namespace farlook::cli {

struct ProgressFigures {
  absl::string_view unit = "pairs";
  uint64_t pairs = 0;       // finished
  uint64_t pair_bytes = 0;  // of their keys and values
  uint64_t failures = 0;
  uint64_t input_bytes = 0;  // read of the input
  uint64_t total_bytes = 0;  // of the input; 0: not known
};

// Returns "import  45% |####      |  450000 pairs  312345/s  31.2 MB/s  2 failed  0:03 left", as much of it as fits.
std::string FormatProgress(absl::string_view name, const ProgressFigures& figures, double pairs_per_second,
                           double elapsed_seconds, size_t width);
// Returns "0:03", "1:00:00".
std::string FormatClock(double seconds);
// Returns "450000 pairs, 45.0 MB, in 1.44 s (312345/s)".
std::string FormatSummary(const ProgressFigures& figures, double elapsed_seconds);

// Draws the bar on a console's status line, some ten times a second.
class Progress {
 public:
  Progress(Console* console, absl::string_view name);

  // Cheap: draws only when it is due.
  void Update(const ProgressFigures& figures);
  double ElapsedSeconds() const;

 private:
  Console& console_;
  const std::string name_;
  const bool visible_;
  const int64_t start_ns_;
  int64_t drawn_ns_;
  int64_t rated_ns_;
  uint64_t rated_pairs_ = 0;
  double pairs_per_second_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TERMINAL_PROGRESS_H_
