// Replies of a group's primary, as its backups know them from records. After a failover, the new primary answers a
// repeated request from here instead of executing it twice.
//
// Invariants:
//   * in a session whose user is known, each write up to the highest number is present with its reply, or counts as
//     unknown: a forgotten reply is never mistaken for a request that was not sent;
//   * a session is remembered or forgotten, never both.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_SESSION_REPLY_CACHE_H_
#define FARLOOK_SERVER_SESSION_REPLY_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/wire/message.h"

namespace farlook::server {

class ReplyCache {
 public:
  struct Reply {
    uint64_t number = 0;
    kv::Code code = kv::Code::kOk;
    uint64_t result = 0;  // see Outcome::result(): a version, or a counter's value
  };
  struct Of {
    uint64_t session = 0;
    bool is_known = false;  // its user is known: no other user may resume it
    std::string user = {};
    uint32_t epoch = 0;              // the last that its client has used
    uint64_t unknown_up_to = 0;      // replies to numbers up to this that are not in `replies` are unknown
    std::deque<Reply> replies = {};  // the last reply to each number, sorted by number
  };

  // Most sessions and outcomes that are remembered, and most forgotten sessions whose ids are remembered. The session
  // with the oldest last record is forgotten first, as a whole.
  explicit ReplyCache(size_t most = size_t{1} << 20, size_t most_forgotten = size_t{1} << 16)
      : most_(most), most_forgotten_(most_forgotten) {}

  // Notes the session's user, and the epoch that its client has used.
  void NoteSession(uint64_t session, absl::string_view user, uint32_t epoch);
  // Notes a reply. A session keeps its last kv::kMaxWindow numbers, as many as any server remembers.
  void Note(uint64_t session, const Reply& reply);
  // The primary had forgotten this session. 0: it had forgotten more sessions than it can name.
  void NoteLost(uint64_t session);

  // Number of outcomes of all sessions.
  size_t size() const { return size_; }
  // The sessions that are remembered; the one with the oldest last record first.
  const std::list<Of>& sessions() const { return sessions_; }
  // The sessions that were forgotten, with their highest numbers, and whether there were more.
  const absl::flat_hash_map<uint64_t, uint64_t>& forgotten() const { return forgotten_; }
  bool forgot_more() const { return forgot_more_; }

 private:
  static constexpr uint64_t kAll = ~uint64_t{0};

  Of& Refresh(uint64_t session);
  void Trim();
  void Forget(uint64_t session, uint64_t highest);

  const size_t most_, most_forgotten_;
  size_t size_ = 0;
  std::list<Of> sessions_;
  absl::flat_hash_map<uint64_t, std::list<Of>::iterator> positions_;
  absl::flat_hash_map<uint64_t, uint64_t> forgotten_;
  bool forgot_more_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_REPLY_CACHE_H_
