// A group's part in its cluster: it enters with its first slots before anybody can ask for one of its keys, and tells
// clients which slots it has, and the cluster's map. Slots that it gives: group_give.cc; takes: group_take.cc.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cluster/cluster_record.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Actions;
using cluster::Configuration;
using cluster::Move;

namespace {

// Between looks at what has become of a move in the other group's record.
constexpr absl::Duration kSettleAgain = absl::Milliseconds(100);

std::vector<Move> Without(std::vector<Move> moves, uint64_t id) {
  std::erase_if(moves, [id](const Move& move) { return move.id == id; });
  return moves;
}

}  // namespace

absl::Status Group::EnterCluster() {
  if (entry_.revision != 0 || options_.cluster.empty()) return absl::OkStatus();
  auto entry = directory_->Get(options_.cluster, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  if (entry->revision != 0) {
    const auto there = cluster::DecodeClusterRecord(entry->value);
    absl::Status status = there.ok() ? options_.accepts(there->layout) : there.status();
    if (!status.ok()) return status;
  }
  auto record = cluster::EnterCluster(directory_.get(), options_.cluster, options_.name, options_.slots,
                                      options_.hash_seed, options_.layout);
  if (!record.ok()) return record.status();
  // Another group may have begun it meanwhile.
  if (absl::Status status = options_.accepts(record->layout); !status.ok()) return status;
  first_.cluster = options_.cluster;
  first_.slots = options_.slots;
  first_.hash_seed = record->hash_seed;
  first_.layout = record->layout;
  cluster_watch_.Begin(*std::move(record));
  return absl::OkStatus();
}

// Of one that is there.
absl::Status Group::CheckCluster() {
  if (!options_.cluster.empty() && options_.cluster != first_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", options_.name, " is in ", first_.cluster.empty() ? "no cluster" : "cluster ",
                     first_.cluster, ", and --cluster says ", options_.cluster,
                     ": a group stays where it began; leave the flag out, or begin a group of another name"));
  }
  if (first_.cluster.empty()) return absl::OkStatus();
  // So that a map is there as soon as this server serves. Without one it does as well: the watch goes on to look.
  auto entry = directory_->Get(first_.cluster, cluster::Freshness::kMaybeOld);
  auto record = entry.ok() ? cluster::DecodeClusterRecord(entry->value) : entry.status();
  if (record.ok()) {
    cluster_watch_.Begin(*std::move(record));
  } else {
    Log(LogLevel::kWarning, "the cluster's record cannot be read",
        {{"cluster", first_.cluster}, {"reason", record.status().message()}});
  }
  return absl::OkStatus();
}

// What clients are told of: before they are let in, and whenever it changes.
void Group::TellCluster(const Configuration& configuration) {
  if (configuration.cluster.empty()) return;
  const bool closed = giving_ != nullptr && giving_->closed_at != absl::InfiniteFuture();
  serving_.SetSlots(closed ? configuration.slots & ~giving_->move.slots : configuration.slots);
  cluster_watch_.SetOwn(configuration);
}

void Group::WatchCluster() {
  if (member_.configuration().cluster.empty()) return;
  if (has_threads_) cluster_watch_.Start(options_.open_directory);
}

void Group::LookAtOthers() {
  if (!member_.Serves() || restores_ || member_.configuration().cluster.empty()) return;
  cluster_watch_.Look(directory_.get()).IgnoreError();  // the map is as it was
}

void Group::DescribeCluster() {
  const size_t groups = cluster_watch_.groups();
  absl::MutexLock lock(&mutex_);
  if (member_.epoch() == 0 || member_.configuration().cluster.empty()) return;
  figures_.is_in_cluster = true;
  figures_.cluster_groups = groups;
  figures_.cluster_moves = member_.configuration().moves.size();
  figures_.cluster_slots = member_.configuration().slots.count();
}

// ---- Moves.

bool Group::ServeSlots() {
  if (member_.configuration().cluster.empty()) return false;
  Leave();
  bool did = TakeSlots();
  if (!deposed_) did = GiveSlots() || did;
  if (!deposed_) did = Settle() || did;
  if (!deposed_) did = EraseForeign() || did;
  return did;
}

// The other group's record: all that was done before the call is seen.
absl::StatusOr<Configuration> Group::ReadGroup(const std::string& name) {
  const absl::StatusOr<cluster::Entry> entry = directory_->Get(name, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  if (entry->revision == 0) return absl::NotFoundError(absl::StrCat("there is no group ", name));
  absl::StatusOr<Configuration> group = cluster::DecodeConfiguration(entry->value);
  if (group.ok() && group->cluster != member_.configuration().cluster) {
    return absl::NotFoundError(absl::StrCat("group ", name, " is not of this cluster"));
  }
  return group;
}

// Changes the group's own record. False: not now, or not yet.
bool Group::Reassign(const kv::SlotSet& slots, std::vector<Move> moves) {
  if (Now() < propose_at_) return false;
  propose_at_ = Now() + kProposeAgain;
  const uint64_t before = member_.epoch();
  Actions actions;
  if (absl::Status status = member_.Reassign(slots, std::move(moves), &actions); !status.ok()) {
    if (absl::IsInvalidArgument(status)) Log(LogLevel::kError, "slots", {{"reason", status.message()}});
    return false;
  }
  CarryOut(&actions);
  if (deposed_ || member_.epoch() == before) return false;
  propose_at_ = absl::InfinitePast();
  parts_.gate->Advanced();  // who waits for a key that is another group's now is to hear it
  return true;
}

// Brings moves to an end whose other side has done its part.
bool Group::Settle() {
  if (Now() < settle_at_ || member_.is_proposing()) return false;
  settle_at_ = Now() + kSettleAgain;
  const std::vector<Move> moves = member_.configuration().moves;
  return std::any_of(moves.begin(), moves.end(), [this](const Move& move) {
    // Give() is to see first that it has given them: what is settled is in the record no more, and it would give slots
    // once more that are the other group's, who settled it too, and would seem not to have taken them.
    if (giving_ != nullptr && giving_->move.id == move.id) return false;
    return (move.kind == Move::Kind::kGiven && SettleGiven(move)) ||
           (move.kind == Move::Kind::kTaken && SettleTaken(move));
  });
}

bool Group::SettleGiven(const Move& move) {
  const absl::StatusOr<Configuration> taker = ReadGroup(move.group);
  if (!taker.ok()) return false;
  const Move* const there = taker->FindMove(move.id);
  if (there != nullptr && there->kind == Move::Kind::kTaking) return false;
  const Configuration& own = member_.configuration();
  std::vector<Move> rest = Without(own.moves, move.id);
  if (there == nullptr) {
    // The taker gave it up, and can never take it any more; nobody wrote the items since they were given.
    if (!Reassign(own.slots | move.slots, std::move(rest))) return false;
    Log(LogLevel::kWarning, "slots are this group's again, as the other one did not take them",
        {{"group", move.group}, {"slots", kv::FormatSlots(move.slots)}});
    return true;
  }
  return Reassign(own.slots, std::move(rest));
}

bool Group::SettleTaken(const Move& move) {
  const absl::StatusOr<Configuration> giver = ReadGroup(move.group);
  if (!giver.ok() || giver->FindMove(move.id) != nullptr) return false;
  return Reassign(member_.configuration().slots, Without(member_.configuration().moves, move.id));
}

// Slots whose items this group has no use for.
kv::SlotSet Group::Foreign() const {
  kv::SlotSet used = member_.configuration().slots;
  for (const Move& move : member_.configuration().moves) used |= move.slots;
  return ~used;
}

bool Group::EraseForeign() {
  if (foreign_epoch_ != member_.epoch()) {
    // Also in the first epoch that it sees: the primary before may not have come to an end with it.
    foreign_epoch_ = member_.epoch();
    const kv::SlotSet before = std::exchange(foreign_, Foreign());
    if ((foreign_ & ~before).any()) {
      erases_ = true;
      eraser_.reset();
    }
  }
  if (taking_ != nullptr) return false;  // which erases for itself
  if (eraser_ != nullptr && (eraser_->slots() & ~foreign_).any()) eraser_.reset();
  if (eraser_ == nullptr && !erases_) return false;
  if (eraser_ == nullptr) {
    eraser_ = std::make_unique<Eraser>(parts_.table, parts_.locks, parts_.gate, foreign_);
  }
  switch (eraser_->Step(kBucketsOfAStep)) {
    case Eraser::Progress::kMore:
      return true;
    case Eraser::Progress::kWaits:
      return false;
    case Eraser::Progress::kDone:
      break;
  }
  eraser_.reset();
  erases_ = false;
  return false;
}

// ---- For operators.

void Group::DescribeMoves(std::string* text) const {
  for (const Move& move : member_.configuration().moves) {
    const std::string slots = kv::FormatSlots(move.slots);
    switch (move.kind) {
      case Move::Kind::kTaking: {
        const bool is_this = taking_ != nullptr && taking_->move.id == move.id;
        const uint64_t items = is_this && taking_->adopter != nullptr ? taking_->adopter->items() : 0;
        absl::StrAppend(text, "taking ", move.group, " ", slots);
        if (is_this && !taking_->waits.empty()) {
          absl::StrAppend(text, " waits ", taking_->waits, "\n");
        } else {
          absl::StrAppend(text, " items ", items, " of ", taking_ == nullptr ? 0 : taking_->estimate, "\n");
        }
        break;
      }
      case Move::Kind::kTaken:
        absl::StrAppend(text, "taken ", move.group, "\n");
        break;
      case Move::Kind::kGiven:
        absl::StrAppend(text, "giving ", move.group, " ", slots, "\n");
        break;
    }
  }
  if (giving_ == nullptr) return;
  const auto followers = stream_.followers();
  const auto taker = followers.find(giving_->taker);
  const uint64_t accepted = taker == followers.end() ? 0 : taker->second.accepted;
  absl::StrAppend(text, "copying ", giving_->move.group, " ", kv::FormatSlots(giving_->move.slots), " items ",
                  giving_->refill->copies(), " lag ", stream_.last() - std::min(stream_.last(), accepted),
                  giving_->closed_at == absl::InfiniteFuture() ? "" : " closed", "\n");
}

// Empty: it is no question that only a cluster's group is asked.
std::string Group::AskCluster(absl::string_view what) {
  if (absl::ConsumePrefix(&what, "take ")) return AskToTake(what);
  if (what != "cancel" && what != "leave") return "";
  const auto& moves = known_.moves;
  if (what == "cancel") {
    const bool takes =
        std::any_of(moves.begin(), moves.end(), [](const Move& move) { return move.kind == Move::Kind::kTaking; });
    // What is asked again, as the answer was lost, may find that it is done.
    if (!takes) return cancelled_ ? "begun\n" : "refused: the group takes no slots at present\n";
    asked_.cancel = cancelled_ = true;
  } else {
    if (known_.cluster.empty()) return "refused: this is no primary of a cluster's group\n";
    if (known_.slots.any() || !moves.empty() || asked_.take.has_value()) {
      return "refused: a group leaves when it has no slots, and none are moved\n";
    }
    asked_.leave = true;
  }
  wake_.Wake();
  return "begun\n";
}

// "GROUP SLOTS"
std::string Group::AskToTake(absl::string_view what) {
  const auto refuse = [](absl::string_view why) { return absl::StrCat("refused: ", why, "\n"); };
  const std::vector<std::string> words = absl::StrSplit(what, ' ');
  if (words.size() != 2) return refuse("take GROUP SLOTS");
  if (known_.cluster.empty()) return refuse("this is no primary of a cluster's group");
  const absl::StatusOr<kv::SlotSet> slots = kv::ParseSlots(words[1]);
  if (!slots.ok()) return refuse(slots.status().message());
  if (words[0] == options_.name || !kv::IsClusterName(words[0]) || slots->none()) {
    return refuse("it takes slots, of another group");
  }
  std::vector<Move> moves = known_.moves;
  if (asked_.take.has_value()) moves.push_back(*asked_.take);
  for (const Move& move : moves) {
    if (move.kind == Move::Kind::kTaking && move.group == words[0] && move.slots == *slots) return "begun\n";
    if (move.kind == Move::Kind::kTaking)
      return refuse(absl::StrCat("it takes slots of group ", move.group, " already"));
    if ((move.slots & *slots).any()) return refuse("some of these slots are being given to another group");
  }
  if ((known_.slots & *slots).any()) return refuse("the group has some of these slots");
  if (moves.size() >= cluster::kMaxMoves)
    return refuse("the groups have yet to hear of the end of many moves; ask again");
  asked_.take = Move{.id = cluster::RandomId(), .kind = Move::Kind::kTaking, .group = words[0], .slots = *slots};
  asked_.cancel = cancelled_ = false;
  failed_.clear();
  wake_.Wake();
  return "begun\n";
}

void Group::Leave() {
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(asked_.leave, false)) return;
  }
  const absl::Status status = cluster::LeaveCluster(directory_.get(), member_.configuration().cluster, options_.name);
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kError,
      status.ok() ? "the group has left its cluster" : "the group cannot leave its cluster",
      {{"cluster", member_.configuration().cluster}, {"reason", status.message()}});
}

std::optional<std::string> Group::Map() const {
  if (serving_.told().cluster.empty()) return std::nullopt;
  return cluster_watch_.Map();
}

}  // namespace farlook::server
