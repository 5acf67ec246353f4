#include "server/group/join_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kv/wire/proof.h"
#include "server/base/byte_size.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

bool IsOnOneHost(absl::string_view address) { return absl::StartsWith(address, "shm:"); }

// Returns the host of "tcp://host:port"; empty for shm://.
absl::string_view HostOf(absl::string_view address) {
  const size_t scheme = address.find("://");
  if (scheme == absl::string_view::npos || IsOnOneHost(address)) return "";
  absl::string_view host = address.substr(scheme + 3);
  host = host.substr(0, host.rfind(':'));
  absl::ConsumePrefix(&host, "[");
  absl::ConsumeSuffix(&host, "]");
  return host;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace

std::string WhyUnreachable(absl::string_view own, absl::string_view member) {
  if (IsOnOneHost(own) != IsOnOneHost(member)) {
    return IsOnOneHost(own)
               ? absl::StrCat("--listen=", own, " is reached from this host only, and ", member,
                              " of the group may be elsewhere: first name a tcp:// or rdma:// address")
               : absl::StrCat(member, " of the group is reached from its own host only, and --listen=", own,
                              " is of a network: all members need addresses of one kind");
  }
  if (IsOnOneHost(own) || IsLoopback(HostOf(own)) == IsLoopback(HostOf(member))) return "";
  return IsLoopback(HostOf(own))
             ? absl::StrCat("--listen=", own, " is reached from this host only, and ", member,
                            " of the group is elsewhere: name an address of this host that the others reach")
             : absl::StrCat(member,
                            " of the group is reached from its own host only: restart that server with a --listen that "
                            "others reach");
}

absl::Status CheckLimits(const cluster::Limits& own, const cluster::Limits& group) {
  if (group.max_value_bytes != 0 && own.max_value_bytes != group.max_value_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("--max_value_bytes=", FormatByteSize(own.max_value_bytes),
                                                   ", and the group has ", FormatByteSize(group.max_value_bytes),
                                                   ": give all members the same"));
  }
  if (own.memory_bytes < group.memory_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("--memory=", FormatByteSize(own.memory_bytes),
                                                   ", and the group needs ", FormatByteSize(group.memory_bytes),
                                                   ": give all members as much at least"));
  }
  return absl::OkStatus();
}

void JoinRules::Set(const cluster::Configuration& configuration) {
  absl::MutexLock lock(&mutex_);
  configuration_ = configuration;
}

std::string JoinRules::WhyNot(const kv::Follow& follow) const {
  if (follow.memory_bytes == 0) return "it does not say what it can hold: start a server of this release";
  const cluster::Limits limits = {.max_value_bytes = follow.max_value_bytes, .memory_bytes = follow.memory_bytes};
  if (absl::Status status = CheckLimits(limits, configuration_.limits); !status.ok()) {
    return std::string(status.message());
  }
  for (const cluster::Replica& member : configuration_.members) {
    if (std::string why = WhyUnreachable(follow.address, member.address); !why.empty()) return why;
  }
  const kv::Mac own =
      users_ == nullptr ? kv::Mac() : users_(configuration_.group, follow.incarnation, IsOnOneHost(follow.address));
  if (kv::SameMac(own, follow.users)) return "";
  if (follow.users == kv::Mac()) return "it has no --users, and the primary has: give all members the same file";
  if (own == kv::Mac()) return "it has --users, and the primary has none: give all members the same file";
  return "its --users differ from those of the primary, by name, role or secret: give all members the same file "
         "(SIGHUP "
         "has a server read it again)";
}

absl::Status JoinRules::Examine(const kv::Follow& follow, absl::Time now) {
  if (follow.address.empty() || follow.move != 0) return absl::OkStatus();
  bool is_new = false;
  std::string why;
  {
    absl::MutexLock lock(&mutex_);
    why = WhyNot(follow);
    const auto known = std::find_if(refused_.begin(), refused_.end(), [&follow](const Refused& refused) {
      return refused.incarnation == follow.incarnation;
    });
    is_new = known == refused_.end() || known->why != why;
    if (known != refused_.end()) refused_.erase(known);
    if (why.empty()) return absl::OkStatus();
    if (refused_.size() >= kMostRefused) refused_.erase(refused_.begin());  // the one that tried longest ago
    refused_.push_back({follow.incarnation, follow.address, why, now});
  }
  if (is_new)
    Log(LogLevel::kWarning, "a server may not join the group", {{"address", follow.address}, {"reason", why}});
  return absl::PermissionDeniedError(why);
}

std::vector<JoinRules::Refused> JoinRules::refused(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  std::vector<Refused> lately;
  for (const Refused& refused : refused_) {
    if (now - refused.at < kRemember) lately.push_back(refused);
  }
  return lately;
}

}  // namespace farlook::server
