// A small server for tests of the client: a table and sessions, without a transport.
#ifndef FARLOOK_CLIENT_TESTING_MINI_SERVER_H_
#define FARLOOK_CLIENT_TESTING_MINI_SERVER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"

namespace farlook::client {

// Thread safety: one thread, except readers of region().
class MiniServer {
 public:
  static constexpr uint64_t kRegionBytes = 32 << 20;

  // Uses `region`, which must be zero and outlive it; allocates memory if that is empty.
  explicit MiniServer(uint64_t incarnation, absl::Span<char> region = {});
  ~MiniServer();

  absl::Span<char> region() { return region_; }
  kv::Table& table() { return *table_; }

  // Handles a connection request with this ConnectData; returns the accept's data. `range` is the transport's range for
  // region().
  absl::StatusOr<std::string> Accept(absl::string_view connect, const kv::ServerRange& range,
                                     const kv::ServerRange& cells = {});
  // Returns the reply to a message; empty: none. The first message of a connection, whose session is 0, is a Hello,
  // which makes or resumes a session. A repeated request gets the same reply again. `pull` READs the memory of a
  // ValueSource; an empty result means failure.
  using Pull = std::function<std::string(const kv::ValueSource&, uint32_t bytes)>;
  std::string Answer(uint64_t* session, absl::string_view message, const Pull& pull);

  // Checks that the messages a client posts, in order, have numbers and contents as in the protocol.
  void Watch(uint64_t session, absl::string_view message);

  void ForgetSessions() { sessions_.clear(); }
  size_t sessions() const { return sessions_.size(); }

  // Changes the table without the protocol.
  kv::WriteResult Put(absl::string_view key, absl::string_view value);
  kv::WriteResult Delete(absl::string_view key);

  // Counters: each gets its own cell, which is never used again.
  absl::Span<char> cells() { return absl::MakeSpan(cells_); }
  // Returns the counter's value. REQUIRES there is one.
  int64_t* Cell(absl::string_view key);
  // Deletes a counter without the protocol: the cell is poisoned.
  void DeleteCounter(absl::string_view key);
  bool offer_cells = false;            // to future clients
  uint32_t atomics = 1024;             // granted with them
  std::vector<uint64_t> acknowledged;  // sequences of notices

  // Not empty: clients must prove that they know it, whatever their user. The flags simulate a false server: it does
  // not challenge, or proves nothing, or something else.
  std::string secret;
  bool challenges = true;
  bool proves = true;
  std::string user;  // of the last Hello

  kv::Refusal refusal;       // with a text: the reply to Hellos
  uint32_t figures_ms = 0;   // in Welcomes
  uint32_t gets = 0;         // allowed in a message by Welcomes
  uint32_t puts = 0;         // likewise
  uint64_t history = 0;      // of its group's table
  uint64_t group_epoch = 0;  // not 0: it is the primary of a group, whose other members have these addresses
  uint32_t lease_us = 150'000;
  std::string backups;
  std::string primary = "fake://";  // address of the group's primary
  bool took_over = false;           // from a server that had touched keys: it knows only their versions
  std::string cluster, map;         // not empty: the group's cluster, and its map
  uint64_t map_left = 0;            // lines of the map that replies report as left out
  kv::SlotWords slots = {};         // of the cluster, in Welcomes
  kv::SlotSet moved;                // slots whose requests are answered `moved`
  int handover_looks = 1'000;       // number of replies to operators that report a handover in progress
  uint32_t window = 8;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  uint64_t executed = 0;             // requests that were executed, not answered from memory
  uint64_t maps_sent = 0;            // of them
  std::vector<std::string> written;  // "key=value" of the puts among them
  int64_t now_ns = 1;
  uint64_t time_us = 1'000'000;         // on the server's clock
  std::vector<std::string> violations;  // of the protocol, by the client

 private:
  struct Session {
    uint32_t epoch = 1;
    std::map<uint64_t, std::string> posted;   // by number
    std::map<uint64_t, std::string> replies;  // by number
    kv::SlotSet moved;                        // of this connection: slots of which a write was refused
  };

  kv::Code ExecuteCounter(const kv::Request& request, uint64_t hash, std::string* payload);
  std::string Greet(uint64_t* session, absl::string_view message);
  bool IsMoved(const kv::Request& request) const;
  bool Refuses(const kv::Request& request, Session* session) const;
  std::string CheckProof(uint64_t* session, absl::string_view message);
  std::string Execute(const kv::Request& request, bool refused, const Pull& pull);
  std::string AnswerSeveral(uint64_t* session, const kv::Request& request, const Pull& pull);

  const uint64_t incarnation_;
  absl::Span<char> region_;
  const bool owns_region_;
  std::unique_ptr<kv::Table> table_;
  kv::ServerRange range_;
  kv::ServerRange cells_range_;
  std::string hello_;      // of the last connection
  std::string challenge_;  // of the last connection
  alignas(64) std::array<char, 4096> cells_ = {};
  uint64_t next_cell_ = 64;
  uint64_t last_session_ = 1000;
  std::map<uint64_t, Session> sessions_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_TESTING_MINI_SERVER_H_
