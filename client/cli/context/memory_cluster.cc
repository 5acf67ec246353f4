#include "client/cli/context/memory_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::cli {
namespace {

constexpr uint64_t kItemsEachSlot = 10;

}  // namespace

void MemoryCluster::AddGroup(const std::string& name, absl::string_view slots, bool serves) {
  cluster_[name] = {.slots = kv::ParseSlots(slots).value(), .serves = serves};
}

void MemoryCluster::AddGroups(absl::string_view text) {
  for (const absl::string_view group : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(group, absl::MaxSplits(' ', 1));
    AddGroup(std::string(parts.first), parts.second);
  }
}

std::string MemoryCluster::ToString() const {
  std::string text;
  for (const auto& [name, group] : cluster_) {
    absl::StrAppend(&text, text.empty() ? "" : ";", name, group.slots.none() ? "" : " ", kv::FormatSlots(group.slots));
  }
  return text;
}

void MemoryCluster::ForgetMoves() {
  for (auto& [name, group] : cluster_) group.move.reset();
}

absl::Status MemoryCluster::Admit(absl::string_view what, const std::string& group) {
  if (admin_fault_) {
    if (absl::Status status = admin_fault_(what, group); !status.ok()) return status;
  }
  if (group.empty() || cluster_.count(group) != 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the cluster has no group ", group));
}

bool MemoryCluster::Gives(const std::string& name) const {
  return std::any_of(cluster_.begin(), cluster_.end(), [&](const auto& entry) {
    const std::optional<Move>& move = entry.second.move;
    return move.has_value() && move->from == name && move->step != Step::kCopying;
  });
}

void MemoryCluster::GoOn(Group* taker) {
  Move& move = *taker->move;
  if (!waits_.empty()) return;
  ++move.looks;
  if (!move.failure.empty() && move.looks > copy_looks_ / 2) {
    taker->failed = move.failure;
    taker->move.reset();
    return;
  }
  switch (move.step) {
    case Step::kCopying:
      if (move.looks <= copy_looks_) return;
      cluster_[move.from].slots &= ~move.slots;
      move.step = Step::kGiven;
      return;
    case Step::kGiven:
      taker->slots |= move.slots;
      move.step = Step::kTaken;
      return;
    case Step::kTaken:
      taker->move.reset();
      return;
  }
}

absl::StatusOr<std::string> MemoryCluster::GroupStatus(const ServerOptions& options) {
  if (cluster_.empty()) return MemoryStore::GroupStatus(options);
  if (absl::Status status = Admit("status", options.group); !status.ok()) return status;
  const std::string name = options.group.empty() ? cluster_.begin()->first : options.group;
  Group& group = cluster_[name];
  if (group.move.has_value()) GoOn(&group);
  std::string text = absl::StrCat("group ", name, "\nepoch 1\n");
  if (const std::optional<Move>& move = group.move; move.has_value() && move->step == Step::kTaken) {
    absl::StrAppend(&text, "taken ", move->from, "\n");
  } else if (move.has_value()) {
    const uint64_t items = kItemsEachSlot * move->slots.count();
    const uint64_t copied = items * static_cast<uint64_t>(std::min(move->looks, copy_looks_)) /
                            static_cast<uint64_t>(std::max(copy_looks_, 1));
    absl::StrAppend(&text, "taking ", move->from, " ", kv::FormatSlots(move->slots),
                    waits_.empty() ? absl::StrCat(" items ", copied, " of ", items) : absl::StrCat(" waits ", waits_),
                    "\n");
  }
  for (const auto& [other, taker] : cluster_) {
    if (!taker.move.has_value() || taker.move->from != name || taker.move->step != Step::kGiven) continue;
    absl::StrAppend(&text, "giving ", other, " ", kv::FormatSlots(taker.move->slots), "\n");
  }
  if (!group.failed.empty()) absl::StrAppend(&text, "failed ", group.failed, "\n");
  return text;
}

absl::Status MemoryCluster::TakeSlots(const std::string& giver, const std::string& slot_ranges,
                                      const ServerOptions& options) {
  if (absl::Status status = Admit("take", options.group); !status.ok()) return status;
  const absl::StatusOr<kv::SlotSet> slots = kv::ParseSlots(slot_ranges);
  if (!slots.ok()) return slots.status();
  Group& taker = cluster_[options.group];
  if (taker.move.has_value()) {
    if (taker.move->from == giver && taker.move->slots == *slots) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("it takes slots of ", taker.move->from, " already"));
  }
  if (cluster_.count(giver) == 0 || (*slots & ~cluster_[giver].slots).any()) {
    return absl::FailedPreconditionError(absl::StrCat(giver, " does not have all of these slots"));
  }
  takes_.push_back(absl::StrCat(giver, ">", options.group, ":", slot_ranges));
  taker.failed.clear();
  taker.move = Move{.from = giver, .slots = *slots};
  if (!failures_.empty()) {
    taker.move->failure = failures_.front();
    failures_.erase(failures_.begin());
  }
  return absl::OkStatus();
}

absl::Status MemoryCluster::CancelMove(const ServerOptions& options) {
  if (absl::Status status = Admit("cancel", options.group); !status.ok()) return status;
  Group& taker = cluster_[options.group];
  if (!taker.move.has_value() || taker.move->step != Step::kCopying) {
    return absl::FailedPreconditionError("the slots are given already");
  }
  taker.move.reset();
  taker.failed = "cancelled by an operator";
  return absl::OkStatus();
}

absl::Status MemoryCluster::LeaveCluster(const ServerOptions& options) {
  if (absl::Status status = Admit("leave", options.group); !status.ok()) return status;
  const Group& group = cluster_[options.group];
  if (group.slots.any() || group.move.has_value() || Gives(options.group)) {
    return absl::FailedPreconditionError("it has slots, or a move is under way");
  }
  cluster_.erase(options.group);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ClusterGroup>> MemoryCluster::Groups(const ServerOptions& options) {
  if (cluster_.empty()) return MemoryStore::Groups(options);
  if (absl::Status status = Admit("map", options.group); !status.ok()) return status;
  std::vector<ClusterGroup> groups;
  for (const auto& [name, group] : cluster_) {
    groups.push_back(
        {name, group.serves ? uint64_t{1} : uint64_t{0},
         group.serves ? std::vector<std::string>{absl::StrCat("tcp://", name, ":1")} : std::vector<std::string>(),
         group.slots.count(), kv::FormatSlots(group.slots)});
  }
  return groups;
}

}  // namespace farlook::cli
