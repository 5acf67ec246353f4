// The progress line of a move of slots: redrawn on a terminal, else at most one line a second.
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_MOVE_PROGRESS_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_MOVE_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/input/json_line.h"
#include "client/cli/terminal/console.h"

namespace farlook::cli {

struct MoveFigures {
  size_t number = 0;  // from 1; 0: begun by another command
  size_t moves = 0;   // number of moves
  std::string from = {};
  std::string to = {};
  size_t slots = 0;
  uint64_t items = 0;      // copied
  uint64_t estimate = 0;   // of all items; 0: not known
  std::string waits = {};  // why it does not continue; empty: it does
  double per_second = 0;   // items
};

// Returns "1 slot", "683 slots".
std::string CountSlots(size_t slots);
// Returns "move 1 of 2: kv.0 -> kv.2"; if no group takes, "group kv.0".
std::string NameOf(const MoveFigures& move);
// Returns "move 1 of 2: kv.0 -> kv.2  45%  450000 of 1000000 items  31234/s  0:17 left", as much of it as fits.
std::string FormatMove(const MoveFigures& move, size_t width);
JsonLine MoveToJson(const MoveFigures& move);

class MoveProgress {
 public:
  // `line_ms`: minimum time between lines that are not redrawn; with `json` none is.
  MoveProgress(Console* console, bool json, int64_t line_ms) : console_(*console), json_(json), line_ms_(line_ms) {}

  // Shows progress. For another move, the rate of items is counted again.
  void Show(MoveFigures move);
  // Prints a permanent line about it.
  void Print(absl::string_view text, const JsonLine& json);

 private:
  Console& console_;
  const bool json_;
  const int64_t line_ms_;
  std::string name_;  // of the move that was shown last
  int64_t printed_ns_ = 0;
  int64_t rated_ns_ = 0;
  uint64_t rated_items_ = 0;
  double per_second_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_MOVE_PROGRESS_H_
