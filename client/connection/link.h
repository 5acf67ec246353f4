// The connection to the server: one at a time, from dialling until operations can run, and the time of the next
// attempt.
//
//     kDown -Dial-> kDialling -OnConnected, Greet-> kGreeting -Welcome-> kLoading -directory read-> kReady
//                                           [Challenge -> Proof]
//       ^                                                                                             |
//       +------------------------ Failed(), or Lost() where it had come further -----------------------+
//
// The directory is READ while the server replies to the Hello; its location is in the accept. A server that asks for
// the client's identity sends the location with the Welcome, and proves its own identity there. Over a network, a
// client with a secret accepts no other servers. If the directory is known (the same incarnation), nothing is READ, and
// kGreeting leads to kReady.
//
// A group (docs/cluster-design.md) has several addresses (dialer.h). Between rounds of addresses is the pause. If no
// server of the group answers, operations wait until their deadlines.
//
// The client waits for a Welcome from a slow server just as for a slow reply: operations end by their deadlines, and
// the transport notices when the server is gone.
//
// Time of the next attempt (docs/operations.md describes it for users):
// * At once, after the loss of a connection over which a reply had arrived.
// * Otherwise after a pause that doubles from min_backoff_ms to max_backoff_ms. Each pause is shortened at random by up
//   to a half, so that many clients of one server do not reconnect together.
// * Only while an operation waits: an idle client makes no attempts.
// * refused(): the last attempt was refused, or not answered at all. Until the next one is due operations do not wait,
//   unless the user wants it (ClientOptions::wait_for_server) and the reason may pass.
#ifndef FARLOOK_CLIENT_CONNECTION_LINK_H_
#define FARLOOK_CLIENT_CONNECTION_LINK_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/connection/dialer.h"
#include "client/connection/directory_reader.h"
#include "client/connection/greeting.h"
#include "client/op/last_time.h"
#include "farlook/options.h"
#include "kv/layout/hash.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The endpoint outlives it.
class Link {
 public:
  enum class State : uint8_t {
    kDown,      // no connection
    kDialling,  // the transport connects
    kGreeting,  // connected, waiting for the Welcome
    kLoading,   // welcome; the directory is being read
    kReady,
  };

  // `address`: one, or several separated by commas.
  Link(rdma::Endpoint* endpoint, absl::string_view address, const ClientOptions& options, LastTime* time,
       uint64_t random_seed);

  State state() const { return state_; }
  bool ready() const { return state_ == State::kReady; }
  // Null when kDown.
  rdma::Connection* connection() const { return dialer_.connection(); }

  // ---- Steps. After an error call Failed() with it.

  // Begins an attempt. `session` is to be resumed, or 0. REQUIRES kDown.
  absl::Status Dial(uint64_t session, int64_t now_ns);
  // Returns when DialBeside() is due: not at all, unless kDialling.
  int64_t beside_due_ns() const { return dialer_.beside_due_ns(); }
  // Tries the next address of this round beside those that do not answer. Returns whether there is one. REQUIRES
  // kDialling.
  bool DialBeside(int64_t now_ns) { return dialer_.DialBeside(now_ns); }
  // Returns whether the connection is of an attempt beside connection(); then it is connection() from now on.
  bool TakeUp(const rdma::Connection* connection) { return dialer_.TakeUp(connection); }
  // After an error in kDialling: returns whether others are under way, so that it changes nothing else. Otherwise call
  // Failed().
  bool FailedBeside(const absl::Status& why, int64_t now_ns);
  // Ends the attempts beside connection().
  void StopBeside() { dialer_.StopBeside(); }
  // Handles kConnected: reads the server's data. incarnation() is known from here on.
  absl::Status OnConnected();
  // Sends Hello, and begins to read the directory if it is not known. REQUIRES that OnConnected() was the last step.
  absl::Status Greet(const kv::Hello& hello, int64_t now_ns);
  // Handles a message that arrived in kGreeting. The server's refusal is an error.
  absl::Status OnFirstMessage(absl::string_view message, int64_t now_ns);
  // Handles a completed READ of the directory. Returns true if it was the last, and the directory is up to date; false
  // if Pump() posts the next.
  absl::StatusOr<bool> OnDirectoryRead();
  // Posts messages that found no room, and the directory's next READ; rings.
  void Pump();

  // Behaves from now on as with ClientOptions::wait_for_server.
  void WaitForServer() { wait_for_server_ = true; }

  // ---- Ends of connections.

  // The attempt failed. Destroys the connection.
  void Failed(absl::Status why, int64_t now_ns);
  // A working connection broke. Destroys it: afterwards every posted buffer is free.
  void Lost(int64_t now_ns);
  // The server has replied over this connection: if it breaks, try again at once.
  void Proven() { backoff_ms_ = 0; }
  // Makes the next attempt at once, at this address of the group, if this client can use it.
  void GoTo(absl::string_view address);

  // Marks the server as one of a group, or of several addresses: another server may resume the session.
  void SetInGroup() { is_group_ = true; }
  // Adds the group's servers, the primary first, as reported by others. When kDown, the primary is tried next.
  void LearnMembers(const std::vector<std::string>& members);
  bool in_group() const { return is_group_ || dialer_.addresses() > 1; }

  // Returns whether the server itself refused the last attempt.
  bool turned_away() const { return may_pass_.has_value(); }
  // Returns why the last attempt failed, or OK. Also OK if operations wait for the next attempt.
  const absl::Status& refused() const { return refused_; }
  // Returns when the next attempt may be made. REQUIRES kDown.
  int64_t due_ns() const { return due_ns_; }

  // ---- Once connected.

  uint64_t incarnation() const { return greeting_.accept().incarnation; }
  const kv::ServerRange& table() const { return greeting_.table(); }  // valid when the server has sent it
  const kv::Welcome& welcome() const { return welcome_; }             // valid from kLoading on
  std::vector<std::string> members() const;                           // of the Welcome
  const std::string& reached() const { return reached_; }  // the address of the last that was ready; or empty
  int64_t hello_ns() const { return hello_ns_; }
  int64_t welcome_ns() const { return welcome_ns_; }  // arrival of the Welcome
  DirectoryReader* directory() { return &directory_; }
  const DirectoryReader* directory() const { return &directory_; }
  const kv::Hasher* hasher() const { return &*hasher_; }  // valid from kReady on; its address does not change

  // Returns a connection's status, with the server's text if it refused.
  absl::Status Explain(const absl::Status& status);

 private:
  void Close(int64_t now_ns);
  bool MayPass(const absl::Status& why) const;
  absl::Status LoadDirectory();
  absl::Status Turned(kv::RefusalCode code, absl::string_view text);
  absl::Status CheckDirectory();

  std::string reached_;
  bool is_group_ = false;
  const ClientOptions options_;
  bool wait_for_server_;
  std::minstd_rand random_;

  DirectoryReader directory_;
  std::optional<kv::Hasher> hasher_;
  Dialer dialer_;
  State state_ = State::kDown;
  Greeting greeting_;
  kv::Welcome welcome_;
  int64_t hello_ns_ = 0;
  int64_t welcome_ns_ = 0;
  absl::Status refused_;
  std::optional<bool> may_pass_;  // set if the server refused this attempt: whether the reason may pass
  int64_t retry_after_ms_ = 0;    // last request of the server
  int64_t backoff_ms_ = 0;        // the next pause; 0: none
  int64_t due_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTION_LINK_H_
