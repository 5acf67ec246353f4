#include "server/group/slot_taker.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/log.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;

namespace {

constexpr int64_t kDialMs = 1000;
// Interval of reads of the giver's record, and of attempts to follow its primary.
constexpr absl::Duration kLookAgain = absl::Milliseconds(500), kBeginAgain = absl::Milliseconds(100);
// The same, when the slots are about to be given: no group serves them until that is seen.
constexpr absl::Duration kLookSoon = absl::Milliseconds(10);
constexpr size_t kBucketsOfAStep = 64;

}  // namespace

bool SlotTaker::Step() {
  const cluster::Member& member = membership_->member();
  if (member.is_proposing()) return false;
  // The latest record may show that the move has ended.
  if (taking_ != nullptr) {
    const Move* const present = member.configuration().FindMove(taking_->move.id);
    if (present == nullptr || present->kind != Move::Kind::kTaking) EndTaking();
  }
  if (BeginRequested()) return true;
  const auto& moves = member.configuration().moves;
  const auto move =
      std::find_if(moves.begin(), moves.end(), [](const Move& one) { return one.kind == Move::Kind::kTaking; });
  if (move == moves.end()) return false;
  if (taking_ == nullptr || taking_->move.id != move->id) {
    taking_ = std::make_unique<Taking>();
    taking_->move = *move;
  }
  if (desk_->TakeCancel()) taking_->give_up = "cancelled by an operator";
  if (!taking_->give_up.empty()) return GiveUp();
  if (membership_->Now() >= taking_->look_at) LookAtGiver();
  if (!taking_->give_up.empty() || taking_->giver.epoch == 0) return false;
  if (taking_->given_at != absl::InfiniteFuture()) return Own();
  return Import();
}

// Begins the move that an operator requested. Returns whether it did something.
bool SlotTaker::BeginRequested() {
  const std::optional<Move> take = desk_->requested_move();
  if (!take.has_value()) return false;
  Configuration next = membership_->configuration();
  const bool is_begun = next.FindMove(take->id) != nullptr;
  if (!is_begun) next.moves.push_back(*take);
  const absl::Status valid = next.Check();  // the request may be out of date
  if (valid.ok() && !is_begun) {
    if (!membership_->Reassign(next.slots, std::move(next.moves))) return false;
    Log(LogLevel::kInfo, "slots are taken", {{"group", take->group}, {"slots", kv::FormatSlots(take->slots)}});
  }
  desk_->EndMoveRequest(valid.message());
  return !is_begun;
}

void SlotTaker::LookAtGiver() {
  Taking& taking = *taking_;
  taking.look_at = membership_->Now() + kLookAgain;
  absl::StatusOr<Configuration> giver = membership_->ReadGroup(taking.move.group);
  if (absl::IsNotFound(giver.status())) taking.give_up = std::string(giver.status().message());
  if (!giver.ok()) {
    taking.waits = absl::StrCat("for the directory: ", giver.status().message());
    return;
  }
  taking.giver = *std::move(giver);
  // A primary that hangs sends nothing, and only its successor can give the slots.
  if (taking.follower != nullptr && taking.followed != taking.giver.primary().incarnation) {
    StartOver("it has another primary");
    return;
  }
  if (taking.giver.FindMove(taking.move.id) != nullptr) {
    if (taking.given_at == absl::InfiniteFuture()) taking.given_at = membership_->Now();
    taking.follower.reset();
    taking.importer.reset();
    taking.waits.clear();
  } else if ((taking.move.slots & ~taking.giver.slots).any()) {
    taking.give_up = absl::StrCat("group ", taking.move.group, " does not have all of these slots");
  } else if (taking.giver.limits.max_value_bytes > membership_->configuration().limits.max_value_bytes) {
    taking.give_up =
        absl::StrCat("group ", taking.move.group,
                     " takes values of --max_value_bytes=", FormatByteSize(taking.giver.limits.max_value_bytes),
                     ", and this group of ", FormatByteSize(membership_->configuration().limits.max_value_bytes));
  } else if (taking.giver.layout != membership_->configuration().layout) {
    taking.give_up = absl::StrCat("the tables of group ", taking.move.group, " have another layout");
  }
}

// Enters given slots into the record as this group's own, once no client trusts its READs at the giver. Returns whether
// the record has changed.
bool SlotTaker::Own() {
  if (membership_->Now() < taking_->given_at + absl::Microseconds(taking_->giver.lease_us)) return false;
  const Configuration& own = membership_->configuration();
  std::vector<Move> moves = own.moves;
  for (Move& move : moves) {
    if (move.id != taking_->move.id) continue;
    move.kind = Move::Kind::kTaken;
    move.slots.reset();
  }
  if (!membership_->Reassign(own.slots | taking_->move.slots, std::move(moves))) return false;
  EndTaking();
  return true;
}

// Removes the move from the record. A giver that has given the slots meanwhile finds that, and owns them again. Returns
// whether the record has changed.
bool SlotTaker::GiveUp() {
  const uint64_t id = taking_->move.id;
  std::vector<Move> moves = membership_->configuration().moves;
  std::erase_if(moves, [id](const Move& move) { return move.id == id; });
  if (!membership_->Reassign(membership_->configuration().slots, std::move(moves))) return false;
  EndTaking();
  return true;
}

// Reports how the move ended, according to the record.
void SlotTaker::EndTaking() {
  const Configuration& own = membership_->configuration();
  if ((taking_->move.slots & ~own.slots).none()) {
    for (Worker* const worker : membership_->parts().workers) {
      worker->Do([worker] {
        worker->NoteExpiry();
        return true;
      });
    }
    Log(LogLevel::kInfo, "slots are this group's",
        {{"group", taking_->move.group}, {"slots", kv::FormatSlots(taking_->move.slots)}, {"epoch", own.epoch}});
  } else {
    Log(LogLevel::kError, "slots are not taken", {{"group", taking_->move.group}, {"reason", taking_->give_up}});
    desk_->SetMoveFailure(taking_->give_up);
  }
  taking_.reset();
}

// ---- Copies.

// Returns whether it did something; otherwise it waits.
bool SlotTaker::Import() {
  Taking& taking = *taking_;
  if (taking.follower == nullptr) {
    if (membership_->Now() < taking.dial_at) return false;
    DialGiver();
    if (taking.follower == nullptr) return false;
  }
  if (taking.follower->over()) {
    StartOver(taking.follower->status().message());
    return true;
  }
  // Records are applied only after the copies of a former attempt are erased.
  if (taking.importer != nullptr && !taking.is_clean) return Clean();
  bool did = false;
  if (taking.importer == nullptr || taking.importer->has_room()) did = taking.follower->Poll() > 0;
  if (taking.importer == nullptr || !taking.is_clean) return did;
  did = taking.importer->Pump() || did;
  if (taking.importer->is_idle()) taking.look_at = std::min(taking.look_at, membership_->Now() + kLookSoon);
  if (!taking.importer->failed().ok()) taking.give_up = std::string(taking.importer->failed().message());
  return did;
}

void SlotTaker::DialGiver() {
  Taking& taking = *taking_;
  taking.dial_at = membership_->Now() + kBeginAgain;
  const GroupParts& parts = membership_->parts();
  const GroupOptions& options = membership_->options();
  const cluster::Replica& primary = taking.giver.primary();
  taking.followed = primary.incarnation;
  auto endpoint = parts.create_endpoint(primary.address);
  if (!endpoint.ok()) {
    taking.waits = std::string(endpoint.status().message());
    return;
  }
  taking.endpoint = *std::move(endpoint);
  const Follower::Identity me = {.replica = options.incarnation,
                                 .primary = primary.incarnation,
                                 .epoch = taking.giver.epoch,
                                 .user = options.user,
                                 .secret = options.secret ? options.secret() : "",
                                 .address = parts.address,
                                 .move = taking.move.id,
                                 .taker = options.name};
  const auto make = [this, by = primary.incarnation](const kv::Follow& answer) {
    const GroupParts& with = membership_->parts();
    taking_->estimate = answer.items;
    taking_->importer =
        std::make_unique<SlotImporter>(SlotImporter::Parts{with.table, with.locks, with.clock, with.time, with.gate},
                                       taking_->move.slots, by, answer.accepted);
    return taking_->importer.get();
  };
  taking.follower = std::make_unique<Follower>(taking.endpoint.get(), make, me);
  if (!taking.follower->Dial(primary.address, kDialMs).ok()) taking.follower.reset();
}

// Erases what former attempts copied. The giver has begun with this attempt, so acceptances of former ones no longer
// count. Returns whether it did something; otherwise it waits.
bool SlotTaker::Clean() {
  Taking& taking = *taking_;
  if (taking.cleaner == nullptr) {
    const GroupParts& parts = membership_->parts();
    taking.cleaner = std::make_unique<SlotCleaner>(parts.table, parts.locks, parts.gate, taking.move.slots);
  }
  switch (taking.cleaner->Step(kBucketsOfAStep)) {
    case SlotCleaner::Progress::kMore:
      return true;
    case SlotCleaner::Progress::kWaits:
      return false;
    case SlotCleaner::Progress::kDone:
      break;
  }
  taking.is_clean = true;
  taking.waits.clear();
  return true;
}

// Begins another attempt, with a read of the giver's record.
void SlotTaker::StartOver(absl::string_view why) {
  Taking& taking = *taking_;
  taking.waits = absl::StrCat("for group ", taking.move.group, ": ", why);  // `why` may be the follower's
  taking.follower.reset();
  taking.importer.reset();
  taking.cleaner.reset();
  taking.is_clean = false;
  taking.giver = {};
  taking.look_at = absl::InfinitePast();
  taking.dial_at = membership_->Now() + kBeginAgain;
}

void SlotTaker::Describe(const Move& move, std::string* text) const {
  const bool is_this = taking_ != nullptr && taking_->move.id == move.id;
  const uint64_t items = is_this && taking_->importer != nullptr ? taking_->importer->items() : 0;
  absl::StrAppend(text, "taking ", move.group, " ", kv::FormatSlots(move.slots));
  if (is_this && !taking_->waits.empty()) {
    absl::StrAppend(text, " waits ", taking_->waits, "\n");
  } else {
    absl::StrAppend(text, " items ", items, " of ", taking_ == nullptr ? 0 : taking_->estimate, "\n");
  }
}

}  // namespace farlook::server
