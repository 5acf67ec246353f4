#include "server/daemon/open_group.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "cluster/configuration.h"
#include "cluster/table_layout.h"
#include "kv/wire/cluster_map.h"
#include "server/base/log.h"
#include "server/group/group_url.h"
#include "server/group/join_rules.h"
#include "server/session/users_digest.h"

namespace farlook::server {
namespace {

constexpr int kDirectoryPatienceS = 10;

// Etcd may be slow at the moment, or start together with this server.
absl::StatusOr<std::unique_ptr<Group>> OpenPatiently(const Group::Options& options) {
  const absl::Time deadline = SteadyNow() + absl::Seconds(kDirectoryPatienceS);
  for (bool is_told = false;;) {
    auto group = Group::Open(options);
    if (!absl::IsUnavailable(group.status()) || SteadyNow() >= deadline) return group;
    if (!std::exchange(is_told, true)) {
      Log(LogLevel::kWarning, "cannot read the group's record; retrying",
          {{"for_s", kDirectoryPatienceS}, {"reason", group.status().message()}});
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
}

// All members have the same users. Later changes of the file are the operator's responsibility.
absl::Status CheckGroupUser(const ServerOptions& options, const Users& users) {
  const auto list = users.now();
  const User* const user = list->Named(options.group_user);
  const char* const wrong = user == nullptr        ? "is not there"
                            : user->secret.empty() ? "has no secret, and backups authenticate with one"
                            : !user->admin         ? "lacks the role admin, which backups need"
                                                   : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--group_user=", options.group_user, ": in ", options.users, " that user ", wrong));
}

absl::StatusOr<Group::Options> OptionsOf(const GroupUrl& url, const ServerOptions& options, const ServerFacts& facts,
                                         uint64_t hash_seed, const Users* users) {
  const std::string locks = url.locks();
  Group::Options of;
  of.name = url.name;
  of.incarnation = facts.incarnation;
  of.open_directory = [url] { return url.Open(); };
  if (!locks.empty()) of.has_ended = [locks](uint64_t member) { return ProcessLock::HasEnded(locks, member); };
  // A server that starts has no copy.
  of.begin_anew = options.begin_group_anew.from_copy ? 0 : options.begin_group_anew.epoch;
  of.suspicion = absl::Milliseconds(options.suspicion_ms);
  of.lease = absl::Milliseconds(options.lease_ms);
  of.replicas = static_cast<uint32_t>(options.replicas);
  of.min_insync = static_cast<uint32_t>(options.min_insync);
  of.cluster = options.cluster;
  of.slots = *kv::ParseSlots(options.slots);  // CheckOptions() has accepted it
  of.hash_seed = hash_seed;
  of.layout = cluster::TableLayout::Of(facts.partitions);
  of.limits = {.max_value_bytes = options.max_value_bytes, .memory_bytes = options.memory_bytes};
  if (users != nullptr) {
    of.users_digest = [users](uint64_t group, uint64_t joiner, bool on_one_host) {
      return UsersDigest(users->now().get(), group, joiner, on_one_host);
    };
  }
  of.accepts = [options, own = of.layout](cluster::TableLayout layout) -> absl::Status {
    if (layout.empty()) return absl::OkStatus();  // of a cluster that an earlier release began
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
  return of;
}

// Logs flags whose values the group's record overrules.
void LogOverruled(const ServerOptions& options, const cluster::Configuration& group) {
  const struct {
    absl::string_view flag;
    bool is_other;
    uint64_t own, of_group;
    absl::string_view advice;
  } all[] = {
      {"--replicas", options.replicas != group.replicas, static_cast<uint64_t>(options.replicas), group.replicas,
       "kv_cli cluster resize changes the group's"},
      {"--min_insync", options.min_insync != group.min_insync, static_cast<uint64_t>(options.min_insync),
       group.min_insync, "kv_cli cluster resize changes the group's"},
      {"--hash_seed", options.hash_seed != 0 && options.hash_seed != group.hash_seed, options.hash_seed,
       group.hash_seed, "leave it out"},
  };
  for (const auto& one : all) {
    if (!one.is_other) continue;
    Log(LogLevel::kWarning, "a flag is without effect, as the group has another value",
        {{"flag", one.flag}, {"value", one.own}, {"group", one.of_group}, {"advice", one.advice}});
  }
}

// Returns what would keep this server from joining the group, as far as the record shows it.
absl::Status CheckFit(const ServerOptions& options, const cluster::Configuration& group) {
  const cluster::Limits own = {.max_value_bytes = options.max_value_bytes, .memory_bytes = options.memory_bytes};
  if (absl::Status status = CheckLimits(own, group.limits); !status.ok()) return status;
  for (const cluster::Replica& member : group.members) {
    if (const std::string why = WhyUnreachable(options.listen[0], member.address); !why.empty()) {
      return absl::InvalidArgumentError(why);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedGroup> OpenGroup(const ServerOptions& options, const ServerFacts& facts, uint64_t hash_seed,
                                      const Users* users) {
  auto url = GroupUrl::Parse(options.group);
  if (!url.ok()) return url.status();
  auto of = OptionsOf(*url, options, facts, hash_seed, users);
  if (!of.ok()) return of.status();
  auto group = OpenPatiently(*of);
  if (!group.ok()) return group.status();
  OpenedGroup opened = {*std::move(group), nullptr};
  if (opened.group->has_begun()) LogOverruled(options, opened.group->found());
  const std::string locks = url->locks();
  if (locks.empty()) return opened;
  auto lock = ProcessLock::Take(locks, facts.incarnation);
  if (!lock.ok()) return lock.status();
  opened.lock = *std::move(lock);
  return opened;
}

absl::StatusOr<bool> FindGroup(const ServerOptions& options, const Users* users) {
  auto url = GroupUrl::Parse(options.group);
  if (!url.ok()) return url.status();
  ServerFacts facts;
  facts.partitions = PartitionsFor(options);
  auto of = OptionsOf(*url, options, facts, /*hash_seed=*/0, users);
  if (!of.ok()) return of.status();
  auto group = OpenPatiently(*of);
  if (!group.ok()) return group.status();
  if (absl::Status status = (*group)->CheckEntry(); !status.ok()) return status;
  if ((*group)->has_begun() && of->begin_anew == 0) {
    if (absl::Status status = CheckFit(options, (*group)->found()); !status.ok()) return status;
  }
  return (*group)->has_begun();
}

}  // namespace farlook::server
