// Decides whether a server may join the group. One that could not take the primary's place is refused, with the flag
// that must change, before it is filled. Remembers the servers that were refused, for operators.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_GROUP_JOIN_RULES_H_
#define FARLOOK_SERVER_GROUP_JOIN_RULES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "kv/wire/handshake.h"

namespace farlook::server {

// Returns why one of the two addresses does not lead to its server from the other one's host, and what to do; empty:
// nothing in them shows that. `own` is this server's, by its --listen, `member` that of a member of the group.
std::string WhyUnreachable(absl::string_view own, absl::string_view member);

// Checks a server's longest value and memory against those of its group. INVALID_ARGUMENT names the flag and the
// remedy.
absl::Status CheckLimits(const cluster::Limits& own, const cluster::Limits& group);

class JoinRules {
 public:
  // A server that was refused lately.
  struct Refused {
    uint64_t incarnation = 0;
    std::string address, why;
    absl::Time at;
  };
  // Returns the digest of this server's users: see UsersDigest().
  using UsersDigest = std::function<kv::Mac(uint64_t group, uint64_t joiner, bool on_one_host)>;

  explicit JoinRules(UsersDigest users) : users_(std::move(users)) {}

  // Sets the group's present record.
  void Set(const cluster::Configuration& configuration);
  // Returns whether a server may join. PERMISSION_DENIED names what must change. Followers that do not join as backups
  // may always follow.
  absl::Status Examine(const kv::Follow& follow, absl::Time now);
  std::vector<Refused> refused(absl::Time now) const;

 private:
  // A refused server tries again each second.
  static constexpr absl::Duration kRemember = absl::Seconds(10);
  static constexpr size_t kMostRefused = 16;

  std::string WhyNot(const kv::Follow& follow) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UsersDigest users_;
  mutable absl::Mutex mutex_;
  cluster::Configuration configuration_ ABSL_GUARDED_BY(mutex_);
  std::vector<Refused> refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_JOIN_RULES_H_
