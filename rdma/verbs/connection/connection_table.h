// The connections of an endpoint: it maps completions to connections, and lists those that need the next Poll(). Shared
// by the endpoint and its connections; it calls neither.
#ifndef FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_TABLE_H_
#define FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_TABLE_H_

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

  // A message that is kept until its connection receives again. It holds one of the buffers that the peer was granted,
  // so for each connection there is at most a window.
  struct Kept {
    uint32_t slot;
    VerbsConnection* connection;
    absl::Span<const char> message;
  };

  // Add() enters a new connection and returns the tag that names it; Remove() removes it.
  uint32_t Add(VerbsConnection* connection);
  void Remove(VerbsConnection* connection);
  // Enter() is called after the queue pair with this number was created, Leave() before it is destroyed. Leave()
  // returns the slots of its messages that the user still has.
  void Enter(uint32_t pair_number, VerbsConnection* connection) { by_pair[pair_number] = connection; }
  std::vector<uint32_t> Leave(uint32_t pair_number, const VerbsConnection* connection);

  // Returns null if it was removed. REQUIRES that Add() once returned the tag.
  VerbsConnection* WithTag(uint64_t tag) const { return by_tag[tag]; }
  // Returns null if there is none.
  VerbsConnection* WithPair(uint32_t pair_number) const {
    const auto found = by_pair.find(pair_number);
    return found != by_pair.end() ? found->second : nullptr;
  }

  // Requests wait to be sent: Advance() is due.
  void List(VerbsConnection* connection);
  // The user must be notified of its beginning or its end: Announce() or End() is due.
  void Attend(VerbsConnection* connection);
  // Its requests were flushed by some other cause. BreakAsFlushed() is due, in this Poll(), after the connection
  // manager's events, which may contain the cause. It is attended, too.
  void Suspect(VerbsConnection* connection);
  // A connection with kept messages receives again.
  void Resume() { resumed = due = true; }

  // Returns whether the next Poll() only has to poll for completions, as far as this table knows.
  bool quiet() const { return !due && !armed && delivered.empty(); }

  uint64_t polls = 0;                    // number of Poll() calls
  bool due = false;                      // one may be listed or attended, or receive again: Poll() checks
  bool armed = false;                    // no Poll() since a sleep began
  bool room_returned = false;            // there is room again after a post was refused: a sleeper must wake up
  std::vector<VerbsConnection*> by_tag;  // null: free
  absl::flat_hash_map<uint32_t, VerbsConnection*> by_pair;
  std::vector<VerbsConnection*> listed;
  std::vector<VerbsConnection*> attended;
  std::vector<VerbsConnection*> suspects;
  std::vector<Delivered> delivered;
  std::vector<Kept> kept;  // the oldest first
  bool resumed = false;    // connections of some of them may receive again: Resume()
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_CONNECTION_CONNECTION_TABLE_H_
