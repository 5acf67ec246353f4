// Which connections an endpoint has, how what arrives finds its connection, and which of them the next Poll() is to
// look at. The endpoint and its connections share it; it calls neither.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_TABLE_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace farlook::rdma::verbs {

class VerbsConnection;

// Thread safety: none.
struct ConnectionTable {
  // A message that the user has until the next Poll().
  struct Delivered {
    uint32_t slot;
    VerbsConnection* connection;  // null: it has no queue pair any more
  };

  // A message that is kept from the user until its connection receives again. It holds one of the buffers that the peer
  // was granted, so of each connection there is at most a window.
  struct Kept {
    uint32_t slot;
    VerbsConnection* connection;
    absl::Span<const char> message;
  };

  // A new connection, and the tag that names it from now on; and its end.
  uint32_t Add(VerbsConnection* connection);
  void Remove(VerbsConnection* connection);
  // The queue pair with this number is made, and is to be destroyed: then the slots of its messages that the user still
  // has.
  void Enter(uint32_t pair_number, VerbsConnection* connection) { by_pair[pair_number] = connection; }
  std::vector<uint32_t> Leave(uint32_t pair_number, const VerbsConnection* connection);

  // Null: it is gone. REQUIRES that Add() once returned the tag.
  VerbsConnection* WithTag(uint64_t tag) const { return by_tag[tag]; }
  // Null: there is none.
  VerbsConnection* WithPair(uint32_t pair_number) const {
    const auto found = by_pair.find(pair_number);
    return found != by_pair.end() ? found->second : nullptr;
  }

  // Something waits to be sent: Advance() is due.
  void List(VerbsConnection* connection);
  // It is to be told to the user as connected, or as ended: Announce() or End() is due.
  void Attend(VerbsConnection* connection);
  // Its requests were flushed, which something else is the cause of: BreakAsFlushed() is due, by this Poll(), once the
  // connection manager's events were looked at, which may tell the cause. It is attended, too.
  void Suspect(VerbsConnection* connection);
  // A connection receives again of which messages are kept.
  void Resume() { resumed = due = true; }

  // Whether the next Poll() has nothing to do but to look for completions, as far as this table knows.
  bool quiet() const { return !due && !armed && delivered.empty(); }

  uint64_t polls = 0;                    // how many Poll() there were
  bool due = false;                      // one may be listed or attended, or receive again: Poll() looks
  bool armed = false;                    // Poll() has not looked since a sleep began
  bool room_returned = false;            // there is room again after a post was refused: a sleeper is to wake up
  std::vector<VerbsConnection*> by_tag;  // null: free
  absl::flat_hash_map<uint32_t, VerbsConnection*> by_pair;
  std::vector<VerbsConnection*> listed;
  std::vector<VerbsConnection*> attended;
  std::vector<VerbsConnection*> suspects;
  std::vector<Delivered> delivered;
  std::vector<Kept> kept;  // the oldest first
  bool resumed = false;    // of some of those the connection may receive again: Resume()
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_TABLE_H_
