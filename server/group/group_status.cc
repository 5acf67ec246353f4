#include "server/group/group_status.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Move;
using cluster::Replica;

void GroupStatus::Update() {
  const Configuration& configuration = membership_->configuration();
  updated_at_ = membership_->Now();
  epoch_ = configuration.epoch;
  std::string text = DescribeMembers();
  DescribeMoves(&text);
  const bool has_backup = std::any_of(configuration.members.begin(), configuration.members.end(),
                                      [](const Replica& member) { return member.kind != Replica::Kind::kPrimary; });
  desk_->Update(std::move(text), ComputeFigures(), has_backup);  // OperatorDesk::HandOver() waits for a reconnect
}

std::string GroupStatus::DescribeMembers() const {
  const Configuration& configuration = membership_->configuration();
  const GroupStream& stream = *membership_->stream();
  std::string text = absl::StrCat("group ", membership_->options().name, "\nepoch ", configuration.epoch, "\n");
  if (configuration.epoch == 0) return text;
  const auto followers = stream.followers();
  const auto describe = [&](absl::string_view role, uint64_t incarnation, absl::string_view address) {
    absl::StrAppend(&text, role, " ", address, " ", absl::Hex(incarnation, absl::kZeroPad16));
    const auto found = followers.find(incarnation);
    if (found != followers.end() && !found->second.waits) {
      absl::StrAppend(&text, " lag ", stream.last() - std::min(stream.last(), found->second.accepted));
    }
    // A backup that has never connected to this primary counts as well.
    const bool is_away =
        found == followers.end() ? role == "backup" && membership_->member().Serves() : found->second.connection == 0;
    if (is_away) {
      absl::StrAppend(&text, " disconnected for ", absl::ToInt64Seconds(keeper_->GoneFor(incarnation)), " s");
    }
    if (incarnation == keeper_->filled()) absl::StrAppend(&text, " filled ", keeper_->FilledPercent(), " %");
    if (incarnation == keeper_->kept()) absl::StrAppend(&text, " blocks reads and writes");
    absl::StrAppend(&text, "\n");
  };
  absl::StrAppend(&text, "members ", configuration.members.size(), " of ", configuration.replicas, ", at least ",
                  configuration.min_insync, "\n", DescribeHealth(followers));
  for (const Replica& member : configuration.members) {
    describe(member.kind == Replica::Kind::kPrimary ? "primary" : "backup", member.incarnation, member.address);
  }
  if (membership_->member().role() == cluster::Member::Role::kRemoved) {
    absl::StrAppend(&text, "copy ", membership_->parts().address, " ",
                    absl::Hex(membership_->options().incarnation, absl::kZeroPad16), " of epoch ",
                    standby_->copy_epoch(), " keys ", membership_->parts().table->stats().keys, "\n");
  }
  for (const auto& [incarnation, state] : followers) {
    if (configuration.Find(incarnation) != nullptr || state.move != 0 || incarnation == keeper_->leaving()) continue;
    const bool is_former =
        std::any_of(configuration.members.begin(), configuration.members.end(),
                    [&state = state](const Replica& member) { return member.address == state.address; });
    describe(state.waits ? "spare" : "joining", incarnation, state.address);
    if (is_former) text.insert(text.size() - 1, " former incarnation is a member");
  }
  for (const JoinRules::Refused& refused : rules_->refused(membership_->Now())) {
    absl::StrAppend(&text, "refused ", refused.address, " ", absl::Hex(refused.incarnation, absl::kZeroPad16), " ",
                    refused.why, "\n");
  }
  return text;
}

// At a primary, one line each about the group and its directory: "health whole", or "health degraded" or "health
// blocked" and why. Blocked: writes wait, or reads and writes.
std::string GroupStatus::DescribeHealth(const Followers& followers) const {
  const Configuration& configuration = membership_->configuration();
  if (!membership_->member().Serves()) return "";
  const absl::Status directory = desk_->directory();
  std::string line = directory.ok()                ? "directory answers\n"
                     : absl::IsDataLoss(directory) ? "directory lost the record\n"
                                                   : "directory does not answer\n";
  const auto is_away = [&followers](const Replica& member) {
    const auto found = followers.find(member.incarnation);
    return member.kind != Replica::Kind::kPrimary && (found == followers.end() || found->second.connection == 0);
  };
  const Replica* const kept = keeper_->kept() == 0 ? nullptr : configuration.Find(keeper_->kept());
  const auto away = std::find_if(configuration.members.begin(), configuration.members.end(), is_away);
  if (kept != nullptr) {
    absl::StrAppend(&line, "health blocked reads and writes wait for ", kept->address, ", which does not answer\n");
  } else if (configuration.members.size() < configuration.min_insync) {
    absl::StrAppend(&line, "health blocked writes wait until ", configuration.min_insync, " members are in sync\n");
  } else if (away != configuration.members.end()) {
    absl::StrAppend(&line, "health degraded ", away->address,
                    " is disconnected, and writes wait until it is removed\n");
  } else if (configuration.members.size() < configuration.replicas) {
    absl::StrAppend(&line, "health degraded ", configuration.members.size(), " of ", configuration.replicas,
                    " members are in sync\n");
  } else if (!directory.ok()) {
    absl::StrAppend(&line, "health degraded no member can be replaced: ", directory.message(), "\n");
  } else {
    absl::StrAppend(&line, "health whole\n");
  }
  return line;
}

void GroupStatus::DescribeMoves(std::string* text) const {
  for (const Move& move : membership_->configuration().moves) {
    switch (move.kind) {
      case Move::Kind::kTaking:
        taker_->Describe(move, text);
        break;
      case Move::Kind::kTaken:
        absl::StrAppend(text, "taken ", move.group, "\n");
        break;
      case Move::Kind::kGiven:
        absl::StrAppend(text, "giving ", move.group, " ", kv::FormatSlots(move.slots), "\n");
        break;
    }
  }
  giver_->Describe(text);
}

GroupFigures GroupStatus::ComputeFigures() const {
  const Configuration& configuration = membership_->configuration();
  GroupFigures figures;
  figures.removed_backups = keeper_->CountRemoved();
  if (configuration.epoch == 0) return figures;
  figures.replicas = configuration.replicas;
  figures.members = configuration.members.size();
  figures.min_insync = configuration.min_insync;
  if (membership_->member().Serves()) {
    figures.waits_for_member = keeper_->kept() != 0;
    figures.directory_is_away = !desk_->directory().ok();
    const GroupStream& stream = *membership_->stream();
    const auto followers = stream.followers();
    for (const Replica& member : configuration.members) {
      const auto found = followers.find(member.incarnation);
      if (found == followers.end()) continue;
      figures.lag_records =
          std::max(figures.lag_records, stream.last() - std::min(stream.last(), found->second.accepted));
    }
    figures.lag_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(keeper_->Behind()));
  }
  if (!configuration.cluster.empty()) {
    figures.is_in_cluster = true;
    figures.cluster_groups = membership_->cluster_watch()->groups();
    figures.cluster_moves = configuration.moves.size();
    figures.cluster_slots = configuration.slots.count();
  }
  return figures;
}

}  // namespace farlook::server
