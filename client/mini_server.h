// A server small enough to be read at a glance, for tests of the client: a table and sessions, without a transport.
#ifndef FARLOOK_CLIENT_MINI_SERVER_H_
#define FARLOOK_CLIENT_MINI_SERVER_H_

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
#include "kv/cluster_map.h"
#include "kv/handshake.h"
#include "kv/message.h"
#include "kv/table.h"

namespace farlook::client {

// Thread safety: one thread, but readers of region().
class MiniServer {
 public:
  static constexpr uint64_t kRegionBytes = 32 << 20;

  // In `region`, which must be zero and outlive it; in memory of its own where that is empty.
  explicit MiniServer(uint64_t incarnation, absl::Span<char> region = {});
  ~MiniServer();

  absl::Span<char> region() { return region_; }
  kv::Table& table() { return *table_; }

  // A connection comes with this ConnectData: what to accept it with. `range` is what the transport made of region().
  absl::StatusOr<std::string> Accept(absl::string_view connect, const kv::ServerRange& range,
                                     const kv::ServerRange& cells = {});
  // Answers a message; an empty answer is none. The first of a connection, whose session is 0, is a Hello, which makes
  // a session or resumes one. A request that was answered before gets the same answer again. `pull` READs what a
  // ValueSource names; an empty result means that it could not.
  using Pull = std::function<std::string(const kv::ValueSource&, uint32_t bytes)>;
  std::string Answer(uint64_t* session, absl::string_view message, const Pull& pull);

  // Watches what a client posts, in its order: numbers and contents are as the protocol wants them.
  void Watch(uint64_t session, absl::string_view message);

  void ForgetSessions() { sessions_.clear(); }
  size_t sessions() const { return sessions_.size(); }

  // Puts past the protocol.
  kv::WriteResult Put(absl::string_view key, absl::string_view value);
  kv::WriteResult Delete(absl::string_view key);

  // Counters: each gets a cell of its own, which is never used again.
  absl::Span<char> cells() { return absl::MakeSpan(cells_); }
  // What the counter holds. REQUIRES there is one.
  int64_t* Cell(absl::string_view key);
  // Deletes a counter past the protocol: the cell is poisoned.
  void DeleteCounter(absl::string_view key);
  bool offer_cells = false;            // to clients that come
  uint32_t atomics = 1024;             // granted with them
  std::vector<uint64_t> acknowledged;  // sequences of notices

  // Not empty: clients must prove that they know it, whoever they are. What a server that is not the right one does
  // wrong: it does not challenge, or proves nothing, or something else.
  std::string secret;
  bool challenges = true;
  bool proves = true;
  std::string user;  // that the last Hello said

  kv::Refusal refusal;       // with a text: what Hellos get
  uint32_t figures_ms = 0;   // that Welcomes ask for
  uint32_t gets = 0;         // that Welcomes allow in a message
  uint32_t puts = 0;         // likewise
  uint64_t group_epoch = 0;  // not 0: it is the primary of a group, whose other members have these addresses
  uint32_t lease_us = 150'000;
  std::string backups;
  std::string primary = "fake://";  // of the group: its address
  bool took_over = false;           // from one that had touched keys: of that it knows the version alone
  std::string cluster, map;         // not empty: the group is of this cluster, and that is its map
  uint64_t map_left = 0;            // lines of the map that answers say to have no room for
  kv::SlotWords slots = {};         // of the cluster, that Welcomes name
  kv::SlotSet moved;                // whose requests are answered so
  uint32_t window = 8;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  uint64_t executed = 0;             // requests that were carried out, not answered from memory
  uint64_t maps_told = 0;            // of them
  std::vector<std::string> written;  // "key=value" of the puts among them
  int64_t now_ns = 1;
  uint64_t time_us = 1'000'000;         // of the server's clock
  std::vector<std::string> violations;  // of the protocol, by the client

 private:
  struct Session {
    uint32_t epoch = 1;
    std::map<uint64_t, std::string> posted;   // by number
    std::map<uint64_t, std::string> replies;  // likewise
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
  std::string challenge_;  // likewise
  alignas(64) std::array<char, 4096> cells_ = {};
  uint64_t next_cell_ = 64;
  uint64_t last_session_ = 1000;
  std::map<uint64_t, Session> sessions_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_MINI_SERVER_H_
