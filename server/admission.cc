#include "server/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kv/counter_value.h"

namespace farlook::server {

bool Admission::Enter(uint64_t session, std::string* why) {
  if (shared_.places->Take(sessions_.attached(session))) return true;
  *why = absl::StrCat("the server has its limit of ", shared_.places->max(),
                      " clients; close some, or raise --max_clients");
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
  const bool read_only = (hello.flags & kv::Hello::kReadOnly) != 0;
  if (!read_only && sessions_.full(now_ns, hello.user)) {
    decision.refusal.code = kv::RefusalCode::kFull;
    decision.refusal.text =
        "the server keeps as many sessions of clients that are gone, and may come back, as --max_kept_sessions lets "
        "it, of all or of this user; try again later, or raise it";
    const int64_t left_ms = (sessions_.full_until_ns(hello.user) - now_ns) / 1'000'000;
    decision.refusal.retry_after_ms = static_cast<uint32_t>(std::clamp<int64_t>(left_ms, 1, 1'000'000'000));
    return decision;
  }
  decision.session = sessions_.Create(read_only, hello.user);
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
    welcome.atomics = kv::AtomicsOfEach(shared_.places->max());
  }
  return welcome;
}

}  // namespace farlook::server
