#include "client/cli/cluster/move_progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/terminal/progress.h"

namespace farlook::cli {
namespace {

constexpr int64_t kNsInMs = 1'000'000;
constexpr int64_t kRateNs = 500 * kNsInMs;
constexpr size_t kNoWidth = 4096;

}  // namespace

std::string CountSlots(size_t slots) { return absl::StrCat(slots, slots == 1 ? " slot" : " slots"); }

std::string NameOf(const MoveFigures& move) {
  if (move.to.empty()) return move.from.empty() ? "the cluster" : absl::StrCat("group ", Escape(move.from));
  const std::string groups = absl::StrCat(Escape(move.from), " -> ", Escape(move.to));
  return move.number == 0 ? groups : absl::StrCat("move ", move.number, " of ", move.moves, ": ", groups);
}

std::string FormatMove(const MoveFigures& move, size_t width) {
  // The most important first: the first piece that does not fit is omitted, with all after it.
  std::vector<std::string> pieces;
  if (!move.waits.empty()) {
    pieces.push_back(absl::StrCat("waits: ", Escape(move.waits)));
  } else if (move.estimate == 0) {
    pieces.push_back(absl::StrCat(move.items, " items"));
  } else {
    const double part = std::min(1.0, static_cast<double>(move.items) / static_cast<double>(move.estimate));
    pieces.push_back(absl::StrFormat("%d%%", static_cast<int>(part * 100)));
    pieces.push_back(absl::StrCat(move.items, " of ", move.estimate, " items"));
  }
  if (move.per_second > 0 && move.waits.empty()) {
    pieces.push_back(absl::StrFormat("%.0f/s", move.per_second));
    if (move.estimate > move.items) {
      pieces.push_back(
          absl::StrCat(FormatClock(static_cast<double>(move.estimate - move.items) / move.per_second), " left"));
    }
  }
  std::string line = NameOf(move);
  for (const std::string& piece : pieces) {
    // The reason for waiting is cut rather than omitted.
    if (line.size() + 2 + piece.size() > width && move.waits.empty()) break;
    absl::StrAppend(&line, "  ", piece);
  }
  return line.substr(0, width);
}

JsonLine MoveToJson(const MoveFigures& move) {
  JsonLine line;
  if (move.number != 0) {
    line.Number("move", static_cast<uint64_t>(move.number)).Number("moves", static_cast<uint64_t>(move.moves));
  }
  return line.Bytes("from", move.from).Bytes("to", move.to).Number("slots", static_cast<uint64_t>(move.slots));
}

void MoveProgress::Show(MoveFigures move) {
  const int64_t now_ns = NowNs();
  if (const std::string name = NameOf(move); name != name_ || move.items < rated_items_) {
    name_ = name;
    rated_ns_ = now_ns;
    rated_items_ = move.items;
    per_second_ = 0;
  } else if (now_ns - rated_ns_ >= kRateNs) {
    per_second_ = static_cast<double>(move.items - rated_items_) * 1e9 / static_cast<double>(now_ns - rated_ns_);
    rated_ns_ = now_ns;
    rated_items_ = move.items;
  }
  move.per_second = per_second_;
  if (!json_ && console_.err().is_terminal()) return console_.ShowStatusLine(FormatMove(move, console_.width()));
  if (printed_ns_ != 0 && now_ns < printed_ns_ + line_ms_ * kNsInMs) return;
  printed_ns_ = now_ns;
  JsonLine json = MoveToJson(move);
  json.Number("items", move.items).Number("items_estimate", move.estimate).Number("items_per_second", move.per_second);
  if (!move.waits.empty()) json.Bytes("waits", move.waits);
  Print(FormatMove(move, kNoWidth), json);
}

void MoveProgress::Print(absl::string_view text, const JsonLine& json) {
  console_.HideStatusLine();
  console_.out().WriteLine(json_ ? json.ToString() : text);
  console_.out().Flush();
}

}  // namespace farlook::cli
