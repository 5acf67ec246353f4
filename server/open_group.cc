#include "server/open_group.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cluster/table_layout.h"
#include "kv/cluster_map.h"
#include "server/group_url.h"
#include "server/log.h"

namespace farlook::server {
namespace {

constexpr int kDirectoryPatienceS = 10;

// Etcd may be slow just now, or start together with this server.
absl::StatusOr<std::unique_ptr<Group>> OpenPatiently(const Group::Options& options) {
  const absl::Time deadline = absl::Now() + absl::Seconds(kDirectoryPatienceS);
  for (bool is_told = false;;) {
    auto group = Group::Open(options);
    if (!absl::IsUnavailable(group.status()) || absl::Now() >= deadline) return group;
    if (!std::exchange(is_told, true)) {
      Log(LogLevel::kWarning, "the group's record cannot be read; it is tried again",
          {{"for_s", kDirectoryPatienceS}, {"reason", group.status().message()}});
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
}

// All members have the same users. What the file says later is the operator's business.
absl::Status CheckGroupUser(const ServerOptions& options, const Users& users) {
  const auto list = users.now();
  const User* const user = list->Named(options.group_user);
  const char* const wrong = user == nullptr        ? "is not there"
                            : user->secret.empty() ? "has no secret, by which backups prove who they are"
                            : !user->admin         ? "lacks the role admin, which backups need"
                                                   : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--group_user=", options.group_user, ": in ", options.users, " that user ", wrong));
}

}  // namespace

absl::StatusOr<OpenedGroup> OpenGroup(const ServerOptions& options, const ServerFacts& facts, uint64_t hash_seed,
                                      const Users* users) {
  auto url = GroupUrl::Parse(options.group);
  if (!url.ok()) return url.status();
  const std::string locks = url->locks();
  Group::Options of;
  of.name = url->name;
  of.incarnation = facts.incarnation;
  of.open_directory = [url = *url] { return url.Open(); };
  if (!locks.empty()) of.has_ended = [locks](uint64_t member) { return ProcessLock::HasEnded(locks, member); };
  of.begin_anew = options.begin_group_anew;
  of.suspicion = absl::Milliseconds(options.suspicion_ms);
  of.lease = absl::Milliseconds(options.lease_ms);
  of.replicas = static_cast<uint32_t>(options.replicas);
  of.min_insync = static_cast<uint32_t>(options.min_insync);
  of.cluster = options.cluster;
  of.slots = *kv::ParseSlots(options.slots);  // CheckOptions() found no fault with it
  of.hash_seed = hash_seed;
  of.layout = cluster::TableLayout::Of(facts.partitions);
  of.accepts = [options, own = of.layout](cluster::TableLayout layout) -> absl::Status {
    if (layout.empty()) return absl::OkStatus();  // of a cluster that a former release began
    if (layout.IsLike(own)) return CheckPartitions(options, layout.partitions());
    return absl::FailedPreconditionError(absl::StrCat("the tables of --group=", options.group, " have layout ",
                                                      absl::Hex(layout.word()), " and this server's would have ",
                                                      absl::Hex(own.word()), ": start it with their release"));
  };
  of.user = options.group_user;
  if (!of.user.empty()) {
    if (absl::Status status = CheckGroupUser(options, *users); !status.ok()) return status;
    of.secret = [users, name = of.user] {
      const auto list = users->now();
      const User* const user = list->Named(name);
      return user == nullptr ? std::string() : user->secret;
    };
  }
  auto group = OpenPatiently(of);
  if (!group.ok()) return group.status();
  OpenedGroup opened = {*std::move(group), nullptr};
  if (locks.empty()) return opened;
  auto lock = ProcessLock::Take(locks, facts.incarnation);
  if (!lock.ok()) return lock.status();
  opened.lock = *std::move(lock);
  return opened;
}

}  // namespace farlook::server
