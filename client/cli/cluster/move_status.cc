#include "client/cli/cluster/move_status.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {
namespace {

// Removes and returns the first word.
absl::string_view Word(absl::string_view* text) {
  const absl::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(word.size() + 1, text->size()));
  return word;
}

bool TakeSlots(absl::string_view* rest, kv::SlotSet* slots) {
  const absl::StatusOr<kv::SlotSet> parsed = kv::ParseSlots(Word(rest));
  if (parsed.ok()) *slots = *parsed;
  return parsed.ok() && slots->any();
}

bool TakeTaking(absl::string_view rest, MoveStatus* status) {
  MoveStatus::Taking taking;
  taking.from = std::string(Word(&rest));
  if (!TakeSlots(&rest, &taking.slots)) return false;
  const absl::string_view how = Word(&rest);
  if (how == "waits") {
    taking.waits = rest.empty() ? "no reason was given" : std::string(rest);
  } else if (how != "items" || !absl::SimpleAtoi(Word(&rest), &taking.items) || Word(&rest) != "of" ||
             !absl::SimpleAtoi(Word(&rest), &taking.estimate)) {
    return false;
  }
  status->taking = std::move(taking);
  return true;
}

// Returns false for a line that begins like one of these, but is malformed.
bool TakeLine(absl::string_view line, MoveStatus* status) {
  absl::string_view rest = line;
  const absl::string_view kind = Word(&rest);
  if (kind == "taking") return TakeTaking(rest, status);
  if (kind == "giving") {
    MoveStatus::Giving& giving = status->giving.emplace_back();
    giving.to = std::string(Word(&rest));
    return TakeSlots(&rest, &giving.slots);
  }
  if (kind == "taken") {
    status->taken.emplace_back(Word(&rest));
    return !status->taken.back().empty();
  }
  if (kind == "failed") status->failed = rest.empty() ? "no reason was given" : std::string(rest);
  return true;
}

}  // namespace

absl::StatusOr<MoveStatus> ParseMoveStatus(absl::string_view text) {
  MoveStatus status;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (TakeLine(absl::StripAsciiWhitespace(line), &status)) continue;
    return absl::InternalError(absl::StrCat("the server's report of moving slots is malformed: ",
                                            Quoted(line.substr(0, 80)), "; use a kv_cli of its release"));
  }
  return status;
}

std::optional<JsonLine> MoveLineToJson(absl::string_view line) {
  MoveStatus status;
  if (!TakeLine(line, &status)) return std::nullopt;
  JsonLine json;
  if (status.taking.has_value()) {
    json.Bytes("taking_from", status.taking->from).Bytes("slot_ranges", kv::FormatSlots(status.taking->slots));
    if (!status.taking->waits.empty()) return json.Bytes("waits", status.taking->waits);
    return json.Number("items", status.taking->items).Number("items_estimate", status.taking->estimate);
  }
  if (!status.giving.empty()) {
    return json.Bytes("giving_to", status.giving[0].to).Bytes("slot_ranges", kv::FormatSlots(status.giving[0].slots));
  }
  if (!status.taken.empty()) return json.Bytes("taken_from", status.taken[0]);
  if (!status.failed.empty()) return json.Bytes("failed", status.failed);
  return std::nullopt;
}

}  // namespace farlook::cli
