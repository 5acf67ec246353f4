// How a group takes slots from another one: its record says that it does; its primary, whichever it is, follows the
// giver's primary and makes what that says of the slots' items writes of its own. When the giver's record says that
// they are given, and nobody READs them there any more, its own record says that it has them. Called on the group's
// thread. Why each step: docs/cluster.md, "Slots that move".
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;

namespace {

constexpr int64_t kDialMs = 1000;
// Between looks at the giver's record, and attempts to follow its primary.
constexpr absl::Duration kLookAgain = absl::Milliseconds(500), kBeginAgain = absl::Milliseconds(100);
// When nothing more comes, as the slots are about to be given: nobody has them until that is seen.
constexpr absl::Duration kLookSoon = absl::Milliseconds(10);

}  // namespace

bool Group::TakeSlots() {
  if (member_.is_proposing()) return false;
  // Perhaps only by now it is known that the record says so.
  if (taking_ != nullptr) {
    const Move* const present = member_.configuration().FindMove(taking_->move.id);
    if (present == nullptr || present->kind != Move::Kind::kTaking) EndTaking();
  }
  if (BeginAsked()) return true;
  const auto& moves = member_.configuration().moves;
  const auto move =
      std::find_if(moves.begin(), moves.end(), [](const Move& one) { return one.kind == Move::Kind::kTaking; });
  if (move == moves.end()) return false;
  if (taking_ == nullptr || taking_->move.id != move->id) {
    taking_ = std::make_unique<Taking>();
    taking_->move = *move;
    eraser_.reset();
  }
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(asked_.cancel, false)) taking_->give_up = "cancelled by an operator";
  }
  if (!taking_->give_up.empty()) return GiveUp();
  if (Now() >= taking_->look_at) LookAtGiver();
  if (!taking_->give_up.empty() || taking_->giver.epoch == 0) return false;
  if (taking_->given_at != absl::InfiniteFuture()) return Own();
  return Adopt();
}

// What an operator asked for. True: the record has changed.
bool Group::BeginAsked() {
  std::optional<Move> take;
  {
    absl::MutexLock lock(&mutex_);
    take = asked_.take;
  }
  if (!take.has_value()) return false;
  Configuration next = member_.configuration();
  const bool is_begun = next.FindMove(take->id) != nullptr;
  if (!is_begun) next.moves.push_back(*take);
  const absl::Status makes_sense = next.Check();  // what was asked for may be out of date
  if (makes_sense.ok() && !is_begun) {
    if (!Reassign(next.slots, std::move(next.moves))) return false;
    Log(LogLevel::kInfo, "slots are taken", {{"group", take->group}, {"slots", kv::FormatSlots(take->slots)}});
  }
  absl::MutexLock lock(&mutex_);
  asked_.take.reset();
  if (!makes_sense.ok()) failed_ = std::string(makes_sense.message());
  return !is_begun;
}

void Group::LookAtGiver() {
  Taking& taking = *taking_;
  taking.look_at = Now() + kLookAgain;
  absl::StatusOr<Configuration> giver = ReadGroup(taking.move.group);
  if (absl::IsNotFound(giver.status())) taking.give_up = std::string(giver.status().message());
  if (!giver.ok()) {
    taking.waits = absl::StrCat("for the directory: ", giver.status().message());
    return;
  }
  taking.giver = *std::move(giver);
  // One that stands still says nothing, and its successor is who can give them.
  if (taking.follower != nullptr && taking.followed != taking.giver.primary().incarnation) {
    StartOver("it has another primary");
    return;
  }
  if (taking.giver.FindMove(taking.move.id) != nullptr) {
    if (taking.given_at == absl::InfiniteFuture()) taking.given_at = Now();
    taking.follower.reset();
    taking.adopter.reset();
    taking.waits.clear();
  } else if ((taking.move.slots & ~taking.giver.slots).any()) {
    taking.give_up = absl::StrCat("group ", taking.move.group, " has not all of these slots");
  } else if (taking.giver.layout != member_.configuration().layout) {
    taking.give_up = absl::StrCat("the tables of group ", taking.move.group, " have another layout");
  }
}

// The slots are given: nobody else can have them. They are this group's as soon as no client believes any more what it
// READs at the giver.
bool Group::Own() {
  if (Now() < taking_->given_at + absl::Microseconds(taking_->giver.lease_us)) return false;
  std::vector<Move> moves = member_.configuration().moves;
  for (Move& move : moves) {
    if (move.id != taking_->move.id) continue;
    move.kind = Move::Kind::kTaken;
    move.slots.reset();
  }
  if (!Reassign(member_.configuration().slots | taking_->move.slots, std::move(moves))) return false;
  EndTaking();
  return true;
}

// The record says how it ended.
void Group::EndTaking() {
  const Configuration& own = member_.configuration();
  if ((taking_->move.slots & ~own.slots).none()) {
    for (Worker* const worker : parts_.workers) {
      worker->Do([worker] {
        worker->NoteExpiry();
        return true;
      });
    }
    Log(LogLevel::kInfo, "slots are this group's",
        {{"group", taking_->move.group}, {"slots", kv::FormatSlots(taking_->move.slots)}, {"epoch", own.epoch}});
  } else {
    Log(LogLevel::kError, "slots are not taken", {{"group", taking_->move.group}, {"reason", taking_->give_up}});
    absl::MutexLock lock(&mutex_);
    failed_ = taking_->give_up;
  }
  taking_.reset();
}

// ---- Copies.

bool Group::Adopt() {
  Taking& taking = *taking_;
  if (taking.follower == nullptr) {
    if (Now() < taking.dial_at) return false;
    DialGiver();
    if (taking.follower == nullptr) return false;
  }
  if (taking.follower->over()) {
    StartOver(taking.follower->status().message());
    return true;
  }
  // Nothing is carried out before what a former attempt left is gone.
  if (taking.adopter != nullptr && !taking.is_clean) return Clean();
  bool did = false;
  if (taking.adopter == nullptr || taking.adopter->has_room()) did = taking.follower->Poll() > 0;
  if (taking.adopter == nullptr || !taking.is_clean) return did;
  did = taking.adopter->Pump() || did;
  if (taking.adopter->is_idle()) taking.look_at = std::min(taking.look_at, Now() + kLookSoon);
  if (!taking.adopter->failed().ok()) taking.give_up = std::string(taking.adopter->failed().message());
  return did;
}

void Group::DialGiver() {
  Taking& taking = *taking_;
  taking.dial_at = Now() + kBeginAgain;
  const cluster::Replica& primary = taking.giver.primary();
  taking.followed = primary.incarnation;
  auto endpoint = parts_.create_endpoint(primary.address);
  if (!endpoint.ok()) {
    taking.waits = std::string(endpoint.status().message());
    return;
  }
  taking.endpoint = *std::move(endpoint);
  const Follower::Identity me = {.replica = options_.incarnation,
                                 .primary = primary.incarnation,
                                 .epoch = taking.giver.epoch,
                                 .user = options_.user,
                                 .secret = Secret(),
                                 .address = parts_.address,
                                 .move = taking.move.id,
                                 .taker = options_.name};
  const auto make = [this, by = primary.incarnation](const kv::Follow& answer) {
    taking_->estimate = answer.items;
    taking_->adopter =
        std::make_unique<Adopter>(Adopter::Parts{parts_.table, parts_.locks, parts_.clock, parts_.time, parts_.gate},
                                  taking_->move.slots, by, answer.accepted);
    return taking_->adopter.get();
  };
  taking.follower = std::make_unique<Follower>(taking.endpoint.get(), make, me);
  if (!taking.follower->Dial(primary.address, kDialMs).ok()) taking.follower.reset();
}

// The giver has begun with this attempt, so what it was told of an earlier one counts no more, and what that copied
// here can be erased.
bool Group::Clean() {
  Taking& taking = *taking_;
  if (taking.eraser == nullptr) {
    taking.eraser = std::make_unique<Eraser>(parts_.table, parts_.locks, parts_.gate, taking.move.slots);
  }
  switch (taking.eraser->Step(kBucketsOfAStep)) {
    case Eraser::Progress::kMore:
      return true;
    case Eraser::Progress::kWaits:
      return false;
    case Eraser::Progress::kDone:
      break;
  }
  taking.is_clean = true;
  taking.waits.clear();
  return true;
}

// From a look at the giver's record on.
void Group::StartOver(absl::string_view why) {
  Taking& taking = *taking_;
  taking.waits = absl::StrCat("for group ", taking.move.group, ": ", why);  // the text may be the follower's
  taking.follower.reset();
  taking.adopter.reset();
  taking.eraser.reset();
  taking.is_clean = false;
  taking.giver = {};
  taking.look_at = absl::InfinitePast();
  taking.dial_at = Now() + kBeginAgain;
}

// Whether the giver has given them by now it finds out, and has them again.
bool Group::GiveUp() {
  const uint64_t id = taking_->move.id;
  std::vector<Move> moves = member_.configuration().moves;
  std::erase_if(moves, [id](const Move& move) { return move.id == id; });
  if (!Reassign(member_.configuration().slots, std::move(moves))) return false;
  EndTaking();
  return true;
}

}  // namespace farlook::server
