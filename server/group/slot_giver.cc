#include "server/group/slot_giver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/log.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;

namespace {

// Limits when the slots are closed: the taker lacks at most kFewRecords records, or kMostWaitForFew has passed.
constexpr uint64_t kFewRecords = 4096;
constexpr absl::Duration kMostWaitForFew = absl::Seconds(10);
// Time after which the slots are opened again if the taker has not accepted all, and after which they are closed again.
constexpr absl::Duration kMostClosed = absl::Seconds(1);

}  // namespace

bool SlotGiver::Step() {
  if (membership_->member().is_proposing()) return false;  // whether slots are given may be uncertain
  if (giving_ != nullptr) return Give();
  for (const auto& [taker, state] : membership_->stream()->followers()) {
    if (state.move != 0 && state.waits && state.connection != 0) return BeginGiving(taker, state);
  }
  return false;
}

// ---- The beginning.

bool SlotGiver::BeginGiving(uint64_t taker, const GroupStream::Follower& state) {
  const absl::Time now = membership_->Now();
  if (now < begin_at_) return false;
  const absl::StatusOr<Configuration> group = membership_->ReadGroup(state.taker);
  if (!group.ok() && !absl::IsNotFound(group.status())) {
    begin_at_ = now + Membership::kProposeAgain;
    return false;
  }
  const Move* const move = group.ok() ? group->FindMove(state.move) : nullptr;
  const absl::Status status = group.ok() ? Check(*group, move, taker) : group.status();
  if (!status.ok()) {
    Log(LogLevel::kWarning, "slots are not given", {{"group", state.taker}, {"reason", status.message()}});
    membership_->stream()->Forget(taker);
    begin_at_ = now + Membership::kProposeAgain;  // each attempt costs a read of the directory
    return true;
  }
  // Slots are assigned by hash, so all have about as many items.
  const GroupParts& parts = membership_->parts();
  const uint64_t items = parts.table->stats().keys * move->slots.count() / membership_->configuration().slots.count();
  const absl::StatusOr<uint64_t> begun = membership_->stream()->Begin(taker, items);
  if (!begun.ok()) return false;
  giving_ = std::make_unique<Giving>();
  giving_->taker = taker;
  giving_->move = {.id = move->id, .kind = Move::Kind::kGiven, .group = state.taker, .slots = move->slots};
  giving_->from = *begun;
  giving_->sender =
      std::make_unique<SnapshotSender>(parts.table, parts.locks, parts.gate, *begun, &giving_->move.slots);
  Log(LogLevel::kInfo, "another group takes slots", {{"group", state.taker}, {"slots", kv::FormatSlots(move->slots)}});
  return true;
}

// Returns why the slots are not given to that group. `move`: the one in that group's record; null: none.
absl::Status SlotGiver::Check(const Configuration& group, const Move* move, uint64_t taker) const {
  const auto refuse = [](absl::string_view why) { return absl::FailedPreconditionError(why); };
  const Configuration& own = membership_->configuration();
  if (move == nullptr || move->kind != Move::Kind::kTaking || move->group != membership_->options().name) {
    return refuse("the taker's record does not name these slots");
  }
  if (group.primary().incarnation != taker) return refuse("it is not the taker's primary");
  if (own.FindMove(move->id) != nullptr) return refuse("they are given already");
  if ((move->slots & ~own.slots).any()) return refuse("they are not all this group's");
  if (group.layout != own.layout) return refuse("the taker's tables have another layout");
  if (own.moves.size() >= cluster::kMaxMoves) return refuse("too many moves have yet to end");
  return absl::OkStatus();
}

// ---- The copy.

// REQUIRES that nothing is proposed.
bool SlotGiver::Give() {
  Giving& giving = *giving_;
  GroupStream* const stream = membership_->stream();
  if (membership_->configuration().FindMove(giving.move.id) != nullptr) {
    Log(LogLevel::kInfo, "slots are given",
        {{"group", giving.move.group}, {"items", giving.sender->copies()}, {"epoch", membership_->member().epoch()}});
    stream->Forget(giving.taker);  // the taker reads the record when its connection ends
    Forget();
    return true;
  }
  const auto followers = stream->followers();
  const auto state = followers.find(giving.taker);
  // Another primary of the taker may have connected while the former one is still listed.
  const bool another = std::any_of(followers.begin(), followers.end(), [&](const auto& follower) {
    return follower.second.move == giving.move.id && follower.second.waits && follower.second.connection != 0;
  });
  if (state == followers.end() || another || state->second.waits || state->second.from != giving.from) {
    Log(LogLevel::kWarning, "the group that took slots is gone or restarts", {{"group", giving.move.group}});
    // Otherwise it would wait for records that are no longer sent. A taker that waits again has replaced its entry.
    if (state != followers.end() && !state->second.waits) stream->Forget(giving.taker);
    ReopenSlots();
    Forget();
    return true;
  }
  switch (pace_->Step(giving.sender.get())) {
    case SnapshotSender::Progress::kMore:
      return true;
    case SnapshotSender::Progress::kWaits:
      return false;
    case SnapshotSender::Progress::kDone:
      break;
  }
  const absl::Time now = membership_->Now();
  const uint64_t accepted = state->second.accepted;
  giving.copied_at = std::min(giving.copied_at, now);
  if (giving.closed_at != absl::InfiniteFuture()) return GiveClosed(accepted);
  const bool lacks_few = accepted + kFewRecords >= stream->last() || now >= giving.copied_at + kMostWaitForFew;
  if (accepted < giving.sender->last() || !lacks_few || now < giving.close_at) return false;
  CloseSlots();
  return true;
}

// ---- The end, with the slots closed.

// Gives the slots when the taker has accepted all records. Returns whether they are given; otherwise it waits.
bool SlotGiver::GiveClosed(uint64_t accepted) {
  Giving& giving = *giving_;
  GroupStream* const stream = membership_->stream();
  if (const absl::Time now = membership_->Now(); now >= giving.closed_at + kMostClosed) {
    giving.close_at = now + kMostClosed;
    ReopenSlots();
    return false;
  }
  if (giving.last == 0) {
    if (membership_->parts().gate->HasPending(giving.move.slots)) return false;
    giving.last = std::max<uint64_t>(1, stream->last());
  }
  if (accepted < giving.last && stream->last() != 0) return false;
  const Configuration& own = membership_->configuration();
  std::vector<Move> moves = own.moves;
  moves.push_back(giving.move);
  if (membership_->Reassign(own.slots & ~giving.move.slots, std::move(moves))) return true;
  // The outcome may be uncertain: Step() waits for that.
  if (membership_->is_deposed() || membership_->member().is_proposing()) return false;
  giving.close_at = membership_->propose_at();
  ReopenSlots();
  return false;
}

// Closes the slots: no request for them begins after this returns.
void SlotGiver::CloseSlots() {
  giving_->closed_at = membership_->Now();
  membership_->SetClosed(giving_->move.slots);
  membership_->PublishSlots();
  const GroupParts& parts = membership_->parts();
  for (int i = 0; i < parts.table->partitions(); ++i) kv::LockedPartition lock(parts.locks->at(i));
}

void SlotGiver::ReopenSlots() {
  giving_->closed_at = absl::InfiniteFuture();
  giving_->last = 0;
  membership_->SetClosed({});
  membership_->PublishSlots();
  membership_->stream()->notifier()->NotifyTurn();  // requests that found a slot closed continue
}

void SlotGiver::Forget() {
  membership_->SetClosed({});
  giving_.reset();
}

void SlotGiver::Describe(std::string* text) const {
  if (giving_ == nullptr) return;
  const GroupStream& stream = *membership_->stream();
  const auto followers = stream.followers();
  const auto taker = followers.find(giving_->taker);
  const uint64_t accepted = taker == followers.end() ? 0 : taker->second.accepted;
  absl::StrAppend(text, "copying ", giving_->move.group, " ", kv::FormatSlots(giving_->move.slots), " items ",
                  giving_->sender->copies(), " lag ", stream.last() - std::min(stream.last(), accepted),
                  giving_->closed_at == absl::InfiniteFuture() ? "" : " closed", "\n");
}

}  // namespace farlook::server
