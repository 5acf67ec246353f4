#include "server/worker/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kv/layout/counter_value.h"

namespace farlook::server {

bool Admission::Enter(uint64_t session, bool replaces, std::string* why) {
  ConnectionQuota& quota = *shared_.quota;
  if (quota.Take(replaces || sessions_.attached(session))) return true;
  const bool lacks_descriptors = quota.limit() < quota.max();
  *why = absl::StrCat(
      "the server has its limit of ", quota.limit(), " clients; close some, or raise ",
      lacks_descriptors ? "its limit of descriptors (ulimit -n), too low for --max_clients=" : "--max_clients",
      lacks_descriptors ? absl::StrCat(quota.max()) : "");
  return false;
}

Admission::Decision Admission::Decide(const kv::Hello& hello, int64_t now_ns) {
  Decision decision;
  if (hello.session != 0) {
    decision.session = sessions_.FindResumable(hello, now_ns, &decision.lost);
    if (decision.session != nullptr) {
      decision.must_wait = decision.session->link != nullptr;
      if (decision.must_wait) return decision;
      sessions_.Attach(decision.session);
      decision.session->Resume(hello);
      decision.resumed = true;
      return decision;
    }
  }
  decision.session = sessions_.Create((hello.flags & kv::Hello::kReadOnly) != 0, hello.user);
  return decision;
}

kv::Welcome Admission::WelcomeFor(const Session& session, bool resumed, const kv::ServerRange& counters,
                                  int64_t now_ns) const {
  kv::Welcome welcome;
  if (resumed) welcome.flags |= kv::Welcome::kResumed;
  if (session.read_only()) welcome.flags |= kv::Welcome::kReadOnly;
  welcome.session = session.id();
  welcome.epoch = session.epoch();
  welcome.window = session.window();
  welcome.max_value_bytes = shared_.max_value_bytes;
  welcome.time_us = shared_.time.At(now_ns);
  if (!session.read_only() && counters.rkey != 0) {
    welcome.counters = counters;
    welcome.atomics = kv::AtomicsOfEach(shared_.quota->max());
  }
  return welcome;
}

}  // namespace farlook::server
