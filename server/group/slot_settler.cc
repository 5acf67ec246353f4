#include "server/group/slot_settler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/log.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;

namespace {

// Interval of reads of the other group's record.
constexpr absl::Duration kSettleAgain = absl::Milliseconds(100);
constexpr size_t kBucketsOfAStep = 64;

std::vector<Move> Without(std::vector<Move> moves, uint64_t id) {
  std::erase_if(moves, [id](const Move& move) { return move.id == id; });
  return moves;
}

}  // namespace

bool SlotSettler::Settle() {
  if (membership_->Now() < settle_at_ || membership_->member().is_proposing()) return false;
  settle_at_ = membership_->Now() + kSettleAgain;
  const std::vector<Move> moves = membership_->configuration().moves;
  return std::any_of(moves.begin(), moves.end(), [this](const Move& move) {
    // The giver must first see in the record that it has given the slots, and settling removes the move from there.
    // Otherwise it would give slots again that the taker has settled too, and would seem not to have taken.
    if (giver_->IsGiving(move.id)) return false;
    return (move.kind == Move::Kind::kGiven && SettleGiven(move)) ||
           (move.kind == Move::Kind::kTaken && SettleTaken(move));
  });
}

bool SlotSettler::SettleGiven(const Move& move) {
  const absl::StatusOr<Configuration> taker = membership_->ReadGroup(move.group);
  if (!taker.ok()) return false;
  const Move* const there = taker->FindMove(move.id);
  if (there != nullptr && there->kind == Move::Kind::kTaking) return false;
  const Configuration& own = membership_->configuration();
  std::vector<Move> rest = Without(own.moves, move.id);
  if (there == nullptr) {
    // The taker gave up, and can never take the slots by this move. The items are unchanged since they were given.
    if (!membership_->Reassign(own.slots | move.slots, std::move(rest))) return false;
    Log(LogLevel::kWarning, "slots were returned to this group: the other group did not take them",
        {{"group", move.group}, {"slots", kv::FormatSlots(move.slots)}});
    return true;
  }
  return membership_->Reassign(own.slots, std::move(rest));
}

bool SlotSettler::SettleTaken(const Move& move) {
  const absl::StatusOr<Configuration> giver = membership_->ReadGroup(move.group);
  if (!giver.ok() || giver->FindMove(move.id) != nullptr) return false;
  const Configuration& own = membership_->configuration();
  return membership_->Reassign(own.slots, Without(own.moves, move.id));
}

kv::SlotSet SlotSettler::Foreign() const {
  kv::SlotSet used = membership_->configuration().slots;
  for (const Move& move : membership_->configuration().moves) used |= move.slots;
  return ~used;
}

bool SlotSettler::EraseForeign() {
  if (const uint64_t epoch = membership_->member().epoch(); foreign_epoch_ != epoch) {
    // Also in the first epoch: the former primary may not have finished.
    foreign_epoch_ = epoch;
    const kv::SlotSet before = std::exchange(foreign_, Foreign());
    if ((foreign_ & ~before).any()) {
      erases_ = true;
      cleaner_.reset();
    }
  }
  if (taker_->is_taking()) {
    cleaner_.reset();
    return false;  // the taker erases for itself
  }
  if (cleaner_ != nullptr && (cleaner_->slots() & ~foreign_).any()) cleaner_.reset();
  if (cleaner_ == nullptr && !erases_) return false;
  if (cleaner_ == nullptr) {
    const GroupParts& parts = membership_->parts();
    cleaner_ = std::make_unique<SlotCleaner>(parts.table, parts.locks, parts.gate, foreign_);
  }
  switch (cleaner_->Step(kBucketsOfAStep)) {
    case SlotCleaner::Progress::kMore:
      return true;
    case SlotCleaner::Progress::kWaits:
      return false;
    case SlotCleaner::Progress::kDone:
      break;
  }
  cleaner_.reset();
  erases_ = false;
  return false;
}

}  // namespace farlook::server
