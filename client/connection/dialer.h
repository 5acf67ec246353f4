// Connects to one of the addresses of a group, or to the only address of a lone server.
//
//     round: each address once, in turn          attempt: one address, or several beside each other
//
// A round begins at the present address, or at the primary's as named by a backup. Within an attempt, while no address
// answers, the next of the round is tried beside the others, each kBesideNs later. The first that connects is used, and
// the others are closed.
//
// The addresses are the user's, and those that servers report, if they use the same transport. The latter are bounded,
// as any server may report any.
#ifndef FARLOOK_CLIENT_CONNECTION_DIALER_H_
#define FARLOOK_CLIENT_CONNECTION_DIALER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farlook/options.h"
#include "rdma/transport.h"

namespace farlook::client {

// Splits a list at its commas, except those within a path.
std::vector<std::string> SplitAddresses(absl::string_view text);

// Thread safety: one thread. Endpoint and options outlive it.
class Dialer {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  // `addresses`: one, or several separated by commas.
  Dialer(rdma::Endpoint* endpoint, absl::string_view addresses, const ClientOptions* options);

  // The present connection; null when there is none. While several addresses are tried, that of the oldest attempt.
  rdma::Connection* connection() const { return connection_.get(); }
  // The address of connection(), or the next to be tried.
  const std::string& address() const { return addresses_[next_]; }
  size_t addresses() const { return addresses_.size(); }

  // Begins an attempt. `session` is to be resumed, or 0. `beside`: other addresses may be tried beside this one.
  // REQUIRES that connection() is null.
  absl::Status Dial(uint64_t session, bool beside, int64_t now_ns);
  // Returns when DialBeside() is due; kNever: not at all.
  int64_t beside_due_ns() const { return due_ns_; }
  // Tries the next address of the round beside the others. Returns whether there is one.
  bool DialBeside(int64_t now_ns);
  // Returns whether the connection is of an attempt beside connection(); then it is connection() from now on.
  bool TakeUp(const rdma::Connection* connection);
  // After connection() failed: makes the oldest of the others connection(). Returns whether there is one.
  bool ContinueBeside(int64_t now_ns);
  // Counts the attempts beside connection() as failed, and closes them.
  void StopBeside();
  // connection() is connected: closes the others.
  void OnConnected() { CloseOthers(); }
  // The server at connection() is used: a later failure begins a new round.
  void OnReady() { failures_ = 0; }
  // Destroys all connections.
  void Close();
  // After a failed attempt of a group: chooses the next address. Returns whether the round has more addresses.
  bool Advance();

  // Returns the index of an address, which may be new; nothing if this client cannot use it.
  std::optional<size_t> Learn(absl::string_view address);
  // Makes this the next address, if this client can use it.
  void GoTo(absl::string_view address);
  // The group's primary, as a backup names it: it is tried next.
  void SetPrimary(absl::string_view address) { primary_ = Learn(address); }

 private:
  static constexpr int64_t kBesideNs = 50'000'000;
  static constexpr size_t kMostLearned = 16;  // addresses that servers report

  struct Attempt {
    std::unique_ptr<rdma::Connection> connection;
    size_t address = 0;  // its index
  };

  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(size_t address);
  bool IsInUse(size_t address) const;
  std::optional<size_t> NextBeside() const;
  void CountFailures(size_t failures);
  void CloseOthers();

  rdma::Endpoint* const endpoint_;
  const ClientOptions* const options_;
  std::vector<std::string> addresses_;  // at least one; the user's come first
  const size_t given_;                  // number of the user's
  size_t forgotten_ = 0;                // number among the learned of the one that was replaced last
  size_t next_ = 0;                     // index of connection_'s address, or of the next to be tried
  size_t last_ = 0;                     // index of the address that was tried last
  std::optional<size_t> primary_;       // index of the primary's address
  size_t failures_ = 0;                 // failed attempts of this round
  size_t round_ = 0;                    // number of addresses when the round had its first failure
  uint64_t session_ = 0;                // to be resumed
  int64_t due_ns_ = kNever;
  std::unique_ptr<rdma::Connection> connection_;
  std::vector<Attempt> others_;  // beside connection_, the oldest first
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTION_DIALER_H_
