// The way to the server: one connection at a time, from dialling to where operations can run, and when to try again.
//
//     kDown -Dial-> kDialling -OnConnected, Greet-> kGreeting -Welcome-> kLoading -directory read-> kReady
//                                           [Challenge -> Proof]
//       ^                                                                                             |
//       +------------------------ Failed(), or Lost() where it had come further -----------------------+
//
// The directory is READ while the server answers the Hello: the accept told where. A server that asks who the client is
// tells it with the Welcome, and there proves itself; a client that has a secret takes no other over the network. Of a
// server whose directory is known (the same incarnation) nothing is READ, and kGreeting leads to kReady.
//
// Of a group (docs/cluster.md) there are several addresses: those that the user gives, and those that the primary tells
// with its Welcome, if they are of the same transport; of these a number, as any server may tell them. Each attempt is
// made at the next one, or where a backup says that the primary is; between rounds of them is the pause. While nobody
// of the group answers operations wait, until their deadlines.
//
// A server that took the connection and is slow to say Welcome is waited for, as one that is slow to answer a request:
// operations end by their deadlines, and the transport notices when it is gone.
//
// When to try again (docs/operations.md tells users):
//   * A connection that broke after it had given an answer: at once.
//   * Otherwise after a pause that doubles from min_backoff_ms to max_backoff_ms, each shortened by up to a half at
//     random so that many clients of one server do not come together.
//   * Only while an operation waits: an idle client makes no attempts.
//   * refused(): the last attempt was answered with no, or not at all. Until the next one is due nobody needs to wait,
//     unless the user wants that (ClientOptions::wait_for_server) and the reason may pass.
#ifndef FARLOOK_CLIENT_LINK_H_
#define FARLOOK_CLIENT_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/directory_reader.h"
#include "client/greeting.h"
#include "client/last_time.h"
#include "farlook/options.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The endpoint outlives it.
class Link {
 public:
  enum class State : uint8_t {
    kDown,      // no connection
    kDialling,  // the transport connects
    kGreeting,  // connected; the Welcome is to come
    kLoading,   // welcome; the directory is being read
    kReady,
  };

  // `address`: one, or several separated by commas.
  Link(rdma::Endpoint* endpoint, absl::string_view address, const ClientOptions& options, LastTime* time,
       uint64_t random_seed);

  State state() const { return state_; }
  bool ready() const { return state_ == State::kReady; }
  // Null when kDown.
  rdma::Connection* connection() const { return connection_.get(); }

  // ---- Steps. An error: call Failed() with it.

  // Begins an attempt. `session` is the one that is to be resumed, or 0. REQUIRES kDown.
  absl::Status Dial(uint64_t session);
  // For the completion kConnected: reads what the server said with it. incarnation() is known from here on.
  absl::Status OnConnected();
  // Says Hello, and begins to read the directory if it is not known. REQUIRES that OnConnected() was the last step.
  absl::Status Greet(const kv::Hello& hello, int64_t now_ns);
  // A message that came in kGreeting. The server's refusal is an error.
  absl::Status OnFirstMessage(absl::string_view message, int64_t now_ns);
  // A READ of the directory completed. True: that was the last one, and the directory is known as it is now. False:
  // Pump() posts the next.
  absl::StatusOr<bool> OnDirectoryRead();
  // Posts what found no room, and the directory's next READ; rings.
  void Pump();

  // From now on as with ClientOptions::wait_for_server.
  void WaitForServer() { wait_for_server_ = true; }

  // ---- Ends.

  // The attempt failed. Destroys the connection.
  void Failed(absl::Status why, int64_t now_ns);
  // A connection that had been of use broke. Destroys it: every posted buffer is free then.
  void Lost(int64_t now_ns);
  // The server answered something over this connection: if it breaks, try again at once.
  void Proven() { backoff_ms_ = 0; }
  // The next attempt is made at once, at this address of the group's, if it is one for this client.
  void GoTo(absl::string_view address);

  // Whether the server is a group's, or there are several addresses: another one may go on with the session.
  void SetInGroup() { is_group_ = true; }
  // Its servers, the primary first, as others say: the next attempt is made there.
  void LearnMembers(const std::vector<std::string>& members);
  bool in_group() const { return is_group_ || addresses_.size() > 1; }

  // Whether it was the server that refused the last attempt, in its own words.
  bool turned_away() const { return may_pass_.has_value(); }
  // Why the last attempt failed, or OK. Also OK where that is to be waited out.
  const absl::Status& refused() const { return refused_; }
  // When the next attempt may be made. REQUIRES kDown.
  int64_t due_ns() const { return due_ns_; }

  // ---- Once connected.

  uint64_t incarnation() const { return greeting_.accept().incarnation; }
  const kv::ServerRange& table() const { return greeting_.table(); }  // from where the server has told it
  const kv::Welcome& welcome() const { return welcome_; }             // from kLoading on
  std::vector<std::string> members() const;                           // of the Welcome
  const std::string& reached() const { return reached_; }  // the address of the last that was ready; empty: none was
  int64_t hello_ns() const { return hello_ns_; }
  int64_t welcome_ns() const { return welcome_ns_; }  // when it came
  DirectoryReader* directory() { return &directory_; }
  const DirectoryReader* directory() const { return &directory_; }
  const kv::Hasher* hasher() const { return &*hasher_; }  // from kReady on; its address stays

  // What a connection's status says, in the server's words where it refused.
  absl::Status Explain(const absl::Status& status);

 private:
  void Close(int64_t now_ns);
  absl::Status LoadDirectory();
  absl::Status Turned(kv::RefusalCode code, absl::string_view text);
  std::optional<size_t> Learn(absl::string_view address);
  absl::Status CheckDirectory();

  rdma::Endpoint* const endpoint_;
  std::vector<std::string> addresses_;  // one at least
  size_t next_ = 0;                     // the index of the one to be tried
  size_t given_ = 0;                    // so many of them are the user's; they come first
  size_t forgotten_ = 0;                // of those that were learnt, the last that was replaced
  size_t failures_ = 0;                 // of attempts of this round
  size_t round_ = 0;                    // after so many is a pause: the addresses that there were when it began
  std::optional<size_t> named_;         // where a backup says that the primary is
  std::string reached_;
  bool is_group_ = false;
  const ClientOptions options_;
  bool wait_for_server_;
  std::minstd_rand random_;

  DirectoryReader directory_;
  std::optional<kv::Hasher> hasher_;
  std::unique_ptr<rdma::Connection> connection_;
  State state_ = State::kDown;
  Greeting greeting_;
  kv::Welcome welcome_;
  int64_t hello_ns_ = 0;
  int64_t welcome_ns_ = 0;
  absl::Status refused_;
  std::optional<bool> may_pass_;  // whether the reason passes for which the server refused this attempt, if it did
  int64_t retry_after_ms_ = 0;    // what the server asked for, last
  int64_t backoff_ms_ = 0;        // the next pause; 0: none
  int64_t due_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LINK_H_
