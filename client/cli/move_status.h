// What a group says of the slots that it takes or gives, as lines of `cluster status`:
//
//     taking GROUP SLOTS items N of M     at the taker, while it copies; M is an estimate
//     taking GROUP SLOTS waits WHY...     it cannot go on at present, and goes on by itself
//     taken GROUP                         at the taker, which has them: the giver is yet to hear of it
//     giving GROUP SLOTS                  at the giver, whose own they are no more
//     failed WHY...                       of the taker: its last move was given up
#ifndef FARLOOK_CLIENT_CLI_MOVE_STATUS_H_
#define FARLOOK_CLIENT_CLI_MOVE_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_line.h"
#include "kv/cluster_map.h"

namespace farlook::cli {

struct MoveStatus {
  struct Taking {
    std::string from = {};
    kv::SlotSet slots = {};
    uint64_t items = 0;
    uint64_t estimate = 0;   // of all its items
    std::string waits = {};  // why it cannot go on; empty: it does
  };
  struct Giving {
    std::string to = {};
    kv::SlotSet slots = {};
  };

  std::optional<Taking> taking = {};
  std::vector<Giving> giving = {};
  std::vector<std::string> taken = {};  // groups
  std::string failed = {};              // why; empty: it did not

  bool none() const { return !taking.has_value() && giving.empty() && taken.empty(); }
};

// The other lines do not matter. INTERNAL: one of these is not understood.
absl::StatusOr<MoveStatus> ParseMoveStatus(absl::string_view text);

// One of these lines as JSON; null if it is another one.
std::optional<JsonLine> MoveLineToJson(absl::string_view line);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_MOVE_STATUS_H_
