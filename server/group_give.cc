// How a group gives slots to another one, whose primary follows the stream as a joiner does, with copies of the slots'
// items in it. When that has nearly all, requests of the slots are refused, what is under way comes to its end, and
// when the taker has accepted that too this group's record names it as the only one that may have the slots from now
// on. Called on the group's thread. Why each step: docs/cluster.md, "Slots that move".
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;

namespace {

// The slots are closed when the taker lacks so few records; or after so long, however many.
constexpr uint64_t kFewRecords = 4096;
constexpr absl::Duration kMostWaitForFew = absl::Seconds(10);
// They are opened again when it has not accepted all in this time, and closed again after as long.
constexpr absl::Duration kMostClosed = absl::Seconds(1);

}  // namespace

bool Group::GiveSlots() {
  if (member_.is_proposing()) return false;  // whether they are given may not be certain
  if (giving_ != nullptr) return Give();
  for (const auto& [taker, state] : stream_.followers()) {
    if (state.move != 0 && state.waits && state.connection != 0) return BeginGiving(taker, state);
  }
  return false;
}

bool Group::BeginGiving(uint64_t taker, const GroupStream::Follower& state) {
  const auto refuse = [&](absl::string_view why) {
    Log(LogLevel::kWarning, "slots are not given", {{"group", state.taker}, {"reason", why}});
    stream_.Forget(taker);
    begin_giving_at_ = Now() + kProposeAgain;  // whoever comes again and again costs a look at the directory each time
    return true;
  };
  if (Now() < begin_giving_at_) return false;
  const absl::StatusOr<Configuration> group = ReadGroup(state.taker);
  if (absl::IsNotFound(group.status())) return refuse(group.status().message());
  if (!group.ok()) {
    begin_giving_at_ = Now() + kProposeAgain;
    return false;
  }
  const Configuration& own = member_.configuration();
  const Move* const move = group->FindMove(state.move);
  if (move == nullptr || move->kind != Move::Kind::kTaking || move->group != options_.name) {
    return refuse("the taker's record does not say that it takes them");
  }
  if (group->primary().incarnation != taker) return refuse("it is not the taker's primary");
  if (own.FindMove(move->id) != nullptr) return refuse("they are given already");
  if ((move->slots & ~own.slots).any()) return refuse("they are not all this group's");
  if (group->layout != own.layout) return refuse("the taker's tables have another layout");
  if (own.moves.size() >= cluster::kMaxMoves) return refuse("too many moves have yet to end");
  // Slots are by hash, so each has about as many items.
  const uint64_t items = parts_.table->stats().keys * move->slots.count() / own.slots.count();
  const absl::StatusOr<uint64_t> begun = stream_.Begin(taker, items);
  if (!begun.ok()) return false;
  giving_ = std::make_unique<Giving>();
  giving_->taker = taker;
  giving_->move = {.id = move->id, .kind = Move::Kind::kGiven, .group = state.taker, .slots = move->slots};
  giving_->from = *begun;
  giving_->refill = std::make_unique<Refill>(parts_.table, parts_.locks, parts_.gate, *begun, &giving_->move.slots);
  Log(LogLevel::kInfo, "another group takes slots", {{"group", state.taker}, {"slots", kv::FormatSlots(move->slots)}});
  return true;
}

// Some of it. False: it waits. REQUIRES that nothing is proposed.
bool Group::Give() {
  Giving& giving = *giving_;
  if (member_.configuration().FindMove(giving.move.id) != nullptr) {
    Log(LogLevel::kInfo, "slots are given",
        {{"group", giving.move.group}, {"items", giving.refill->copies()}, {"epoch", member_.epoch()}});
    StopGiving();  // the taker looks at the record when its connection ends
    return true;
  }
  const auto followers = stream_.followers();
  const auto state = followers.find(giving.taker);
  // Of the taker another primary, which has come since. One that is gone may be in the list still.
  const bool another = std::any_of(followers.begin(), followers.end(), [&](const auto& follower) {
    return follower.second.move == giving.move.id && follower.second.waits && follower.second.connection != 0;
  });
  if (state == followers.end() || another || state->second.waits || state->second.from != giving.from) {
    Log(LogLevel::kWarning, "the group that took slots is gone, or begins anew", {{"group", giving.move.group}});
    // Else it would wait for the rest of what nobody gives. What follows anew is in the list in its place.
    if (state != followers.end() && !state->second.waits) stream_.Forget(giving.taker);
    ReopenSlots();
    giving_.reset();
    return true;
  }
  switch (CopySome(giving.refill.get())) {
    case Refill::Progress::kMore:
      return true;
    case Refill::Progress::kWaits:
      return false;
    case Refill::Progress::kDone:
      break;
  }
  const absl::Time now = Now();
  const uint64_t accepted = state->second.accepted;
  giving.copied_at = std::min(giving.copied_at, now);
  if (giving.closed_at == absl::InfiniteFuture()) {
    const bool lacks_few = accepted + kFewRecords >= stream_.last() || now >= giving.copied_at + kMostWaitForFew;
    if (accepted < giving.refill->last() || !lacks_few || now < giving.close_at) return false;
    CloseSlots();
    return true;
  }
  if (now >= giving.closed_at + kMostClosed) {
    giving.close_at = now + kMostClosed;
    ReopenSlots();
    return false;
  }
  if (giving.last == 0) {
    if (parts_.gate->HasPending(giving.move.slots)) return false;
    giving.last = std::max<uint64_t>(1, stream_.last());
  }
  if (accepted < giving.last && stream_.last() != 0) return false;
  std::vector<Move> moves = member_.configuration().moves;
  moves.push_back(giving.move);
  if (!Reassign(member_.configuration().slots & ~giving.move.slots, std::move(moves))) {
    // Not for certain, maybe: GiveSlots() waits for that.
    if (deposed_ || member_.is_proposing()) return false;
    giving.close_at = propose_at_;
    ReopenSlots();
    return false;
  }
  return true;
}

// From when this returns nothing of the slots is begun.
void Group::CloseSlots() {
  giving_->closed_at = Now();
  TellCluster(member_.configuration());
  for (int i = 0; i < parts_.table->partitions(); ++i) kv::LockedPartition lock(parts_.locks->at(i));
}

void Group::ReopenSlots() {
  giving_->closed_at = absl::InfiniteFuture();
  giving_->last = 0;
  TellCluster(member_.configuration());
  parts_.gate->Advanced();  // who found a slot closed, and waits for its turn, has it now
}

void Group::StopGiving() {
  stream_.Forget(giving_->taker);
  giving_.reset();
}

}  // namespace farlook::server
