// Admission of clients: decides whether a connection is admitted and which session it gets, and builds its Welcome.
// Independent of the transport.
//
// A connection is counted from its accept on, before the client is authenticated. Its Hello then gets a new session,
// the resumed one, or a refusal.
//
// Thread safety: none; each worker has its own. All workers share the count of connections.
#ifndef FARLOOK_SERVER_WORKER_ADMISSION_H_
#define FARLOOK_SERVER_WORKER_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kv/wire/handshake.h"
#include "server/executor/shared.h"
#include "server/session/session.h"

namespace farlook::server {

class Admission {
 public:
  Admission(const Shared& shared, SessionOptions sessions) : shared_(shared), sessions_(std::move(sessions)) {}

  // Counts one more connection, which intends to resume `session`; 0: none. Returns false, with the reason in `*why`,
  // if --max_clients are connected. The limit may be exceeded by a connection that replaces one that is still counted:
  // the session's own, or another one that is about to close (`replaces`).
  bool Enter(uint64_t session, bool replaces, std::string* why);

  struct Decision {
    Session* session = nullptr;
    // The session has a connection (Session::link) that must close first; call Decide() again afterwards.
    bool must_wait = false;
    bool resumed = false;
    absl::string_view lost;  // not empty: why the session that the client asked for could not be resumed
  };
  // Chooses the session for a client, and attaches it unless the client must wait. REQUIRES a checked `hello`: its user
  // is authenticated or empty, and its flags are restricted to what the user may do.
  Decision Decide(const kv::Hello& hello, int64_t now_ns);

  // Returns the Welcome for a client of this session. `counters` with rkey 0: the client gets no access to cells.
  kv::Welcome WelcomeFor(const Session& session, bool resumed, const kv::ServerRange& counters, int64_t now_ns) const;

  // See SessionTable.
  bool Report(OutcomesToReport* rest, OutcomesListener* listener) const { return sessions_.Report(rest, listener); }
  void Restore(uint64_t incarnation, const ReplyCache& outcomes, int64_t now_ns) {
    sessions_.Restore(incarnation, outcomes, now_ns);
  }

  // Detaches a session whose connection has closed.
  void Ended(Session* session, int64_t now_ns) { sessions_.Detach(session, now_ns); }

  const SessionTable& sessions() const { return sessions_; }
  // Returns null if this worker has no such session.
  Session* FindSession(uint64_t id) { return sessions_.Find(id); }

 private:
  const Shared shared_;
  SessionTable sessions_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_ADMISSION_H_
