// Slots that a group takes or gives, as reported in lines of `cluster status`:
//
//     taking GROUP SLOTS items N of M     at the taker, while it copies; M is an estimate
//     taking GROUP SLOTS waits WHY...     it cannot continue at present, and continues by itself
//     taken GROUP                         at the taker, which has them: the giver does not know it yet
//     giving GROUP SLOTS                  at the giver, which no longer has them
//     failed WHY...                       at the taker: its last move failed
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_MOVE_STATUS_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_MOVE_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/json_line.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cli {

struct MoveStatus {
  struct Taking {
    std::string from = {};
    kv::SlotSet slots = {};
    uint64_t items = 0;
    uint64_t estimate = 0;   // number of all its items
    std::string waits = {};  // why it cannot continue; empty: it does
  };
  struct Giving {
    std::string to = {};
    kv::SlotSet slots = {};
  };

  std::optional<Taking> taking = {};
  std::vector<Giving> giving = {};
  std::vector<std::string> taken = {};  // groups
  std::string failed = {};              // reason; empty: it did not fail

  bool none() const { return !taking.has_value() && giving.empty() && taken.empty(); }
};

// Ignores other lines. INTERNAL: one of these lines is malformed.
absl::StatusOr<MoveStatus> ParseMoveStatus(absl::string_view text);

// Returns one of these lines as JSON; null for another line.
std::optional<JsonLine> MoveLineToJson(absl::string_view line);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_MOVE_STATUS_H_
