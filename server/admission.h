// Who may come in, and with which session: the decisions, and their Welcome. Knows no transport.
//
// A connection is counted from its accept on, before it has said who it is; then its Hello gets a new session, or the
// one that it goes on with, or a refusal.
//
// Thread safety: none; each worker has its own. The count of connections is shared by all.
#ifndef FARLOOK_SERVER_ADMISSION_H_
#define FARLOOK_SERVER_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kv/handshake.h"
#include "server/session.h"
#include "server/shared.h"

namespace farlook::server {

class Admission {
 public:
  Admission(const Shared& shared, SessionOptions sessions) : shared_(shared), sessions_(std::move(sessions)) {}

  // Counts one more connection, which means to go on with a session, or 0. False if there are --max_clients, and `*why`
  // says so. Who takes the place of a connection that is still counted is let in beyond that.
  bool Enter(uint64_t session, std::string* why);
  // Nothing of the connection is left.
  void Leave() { shared_.places->Give(); }

  struct Decision {
    Session* session = nullptr;  // null: refused
    // The session has a connection (Session::link) that must end first; ask again then.
    bool must_wait = false;
    bool resumed = false;
    absl::string_view lost;  // not empty: why the session that the client asked for could not be resumed
    kv::Refusal refusal;
  };
  // `hello` as far as it may be believed: its user has proved to be that, or is empty, and it asks for nothing that the
  // user may not do. The session, which is attached from now on, unless it must wait.
  Decision Decide(const kv::Hello& hello, int64_t now_ns);

  // What a client reads of its session. `counters` with rkey 0: it is not given the cells.
  kv::Welcome WelcomeFor(const Session& session, bool resumed, const kv::ServerRange& counters, int64_t now_ns) const;

  // As of SessionTable.
  bool Tell(OutcomesToTell* rest, OutcomesListener* listener) const { return sessions_.Tell(rest, listener); }
  void Restore(uint64_t incarnation, const Outcomes& outcomes, int64_t now_ns) {
    sessions_.Restore(incarnation, outcomes, now_ns);
  }

  // The connection of an attached session is over.
  void Ended(Session* session, int64_t now_ns) { sessions_.Detach(session, now_ns); }

  const SessionTable& sessions() const { return sessions_; }
  // Null: there is no such session here.
  Session* FindSession(uint64_t id) { return sessions_.Find(id); }

 private:
  const Shared shared_;
  SessionTable sessions_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ADMISSION_H_
