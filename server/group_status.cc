// What operators are told of a group, and ask of it.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/group.h"

namespace farlook::server {

using cluster::Configuration;
using cluster::Replica;

// On the group's thread.
void Group::Describe() {
  described_at_ = Now();
  described_epoch_ = member_.epoch();
  std::string text = absl::StrCat("group ", options_.name, "\nepoch ", member_.epoch(), "\n");
  bool can_hand_over = false;
  const auto followers = stream_.followers();
  const auto describe = [&](absl::string_view role, uint64_t incarnation, absl::string_view address) {
    absl::StrAppend(&text, role, " ", address, " ", absl::Hex(incarnation, absl::kZeroPad16));
    const auto found = followers.find(incarnation);
    if (found != followers.end()) {
      if (!found->second.waits) {
        absl::StrAppend(&text, " lag ", stream_.last() - std::min(stream_.last(), found->second.accepted));
      }
      if (found->second.connection == 0) absl::StrAppend(&text, " disconnected");
    }
    can_hand_over = can_hand_over || role == "backup";  // HandOver() waits for one that connects anew
    absl::StrAppend(&text, "\n");
  };
  if (member_.epoch() != 0) {
    const Configuration& configuration = member_.configuration();
    absl::StrAppend(&text, "members ", configuration.members.size(), " of ", configuration.replicas, ", at least ",
                    configuration.min_insync, "\n");
    for (const Replica& member : configuration.members) {
      describe(member.kind == Replica::Kind::kPrimary ? "primary" : "backup", member.incarnation, member.address);
    }
    for (const auto& [incarnation, state] : followers) {
      if (configuration.Find(incarnation) != nullptr || state.move != 0 || incarnation == leaving_) continue;
      describe(state.waits ? "spare" : "joining", incarnation, state.address);
    }
  }
  DescribeCluster();
  DescribeMoves(&text);
  absl::MutexLock lock(&mutex_);
  known_ = member_.Serves() ? member_.configuration() : Configuration();
  if (!failed_.empty()) absl::StrAppend(&text, "failed ", failed_, "\n");
  if (failed_backup_ != 0 && member_.Serves() && member_.configuration().Find(failed_backup_) == nullptr) {
    failed_backup_ = 0;
    ++figures_.removed_backups;
  }
  if (member_.epoch() != 0) {
    figures_.replicas = member_.configuration().replicas;
    figures_.members = member_.configuration().members.size();
    figures_.min_insync = member_.configuration().min_insync;
  }
  status_ = std::move(text);
  can_hand_over_ = can_hand_over && member_.Serves();
}

std::string Group::Ask(absl::string_view what) {
  absl::MutexLock lock(&mutex_);
  if (what == "status") return absl::StrCat(status_, handover_ ? "handover begun\n" : "");
  if (std::string answer = AskCluster(what); !answer.empty()) return answer;
  if (absl::ConsumePrefix(&what, "resize ")) return AskForSize(what);
  uint64_t epoch = 0;
  if (!absl::ConsumePrefix(&what, "handover ") || !absl::SimpleAtoi(what, &epoch)) return "";
  if (epoch < led_since_) return "begun\n";  // by the primary before, which was asked
  if (!can_hand_over_) return "refused: no backup of the group is in sync: `cluster status` shows them\n";
  handover_ = true;
  wake_.Wake();
  return "begun\n";
}

}  // namespace farlook::server
