// The line that says how far a move of slots is: redrawn on a terminal, else one a second at most.
#ifndef FARLOOK_CLIENT_CLI_MOVE_PROGRESS_H_
#define FARLOOK_CLIENT_CLI_MOVE_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/console.h"
#include "client/cli/json_line.h"

namespace farlook::cli {

struct MoveFigures {
  size_t number = 0;  // from 1; 0: it was begun by another command
  size_t moves = 0;   // of how many
  std::string from = {};
  std::string to = {};
  size_t slots = 0;
  uint64_t items = 0;      // copied
  uint64_t estimate = 0;   // of all; 0: not known
  std::string waits = {};  // why it does not go on; empty: it does
  double per_second = 0;   // items
};

// "1 slot", "683 slots".
std::string CountSlots(size_t slots);
// "move 1 of 2: kv.0 -> kv.2"; where nobody takes, "group kv.0".
std::string NameOf(const MoveFigures& move);
// "move 1 of 2: kv.0 -> kv.2  45%  450000 of 1000000 items  31234/s  0:17 left", as much of it as fits.
std::string FormatMove(const MoveFigures& move, size_t width);
JsonLine MoveToJson(const MoveFigures& move);

class MoveProgress {
 public:
  // As lines at least `line_ms` apart; with `json` always so.
  MoveProgress(Console* console, bool json, int64_t line_ms) : console_(*console), json_(json), line_ms_(line_ms) {}

  // Of another move the items a second are counted anew.
  void Show(MoveFigures move);
  // A line about it that stays.
  void Tell(absl::string_view text, const JsonLine& json);

 private:
  Console& console_;
  const bool json_;
  const int64_t line_ms_;
  std::string name_;  // of the move that was shown last
  int64_t told_ns_ = 0;
  int64_t rated_ns_ = 0;
  uint64_t rated_items_ = 0;
  double per_second_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_MOVE_PROGRESS_H_
