// What the primary of a group told its clients, as its backups know it from records: so that who comes after it answers
// a request that is sent again, and does not carry it out again.
//
// Invariants:
//   * of a session whose user is known, each write up to the highest number is there with what it was told, or counts as
//     unknown: nothing that was forgotten passes for what was never asked;
//   * a session is remembered or forgotten, never both.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_OUTCOMES_H_
#define FARLOOK_SERVER_OUTCOMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "kv/limits.h"
#include "kv/message.h"

namespace farlook::server {

class Outcomes {
 public:
  struct Told {
    uint64_t number = 0;
    kv::Code code = kv::Code::kOk;
    uint64_t told = 0;  // as of Outcome: a version, or a counter's value
  };
  struct Of {
    uint64_t session = 0;
    bool is_known = false;  // whose it is: nobody goes on with another
    std::string user = {};
    uint32_t epoch = 0;          // that its client has shown to know
    uint64_t unknown_up_to = 0;  // numbers up to this that are not in `told` may have been told something
    std::deque<Told> told = {};  // by number; each once, with what it was told last
  };

  // At most so many sessions and outcomes are remembered. Sessions that were not heard of for longest are forgotten
  // first, as a whole; of so many it is remembered that they were.
  explicit Outcomes(size_t most = size_t{1} << 20, size_t most_forgotten = size_t{1} << 16)
      : most_(most), most_forgotten_(most_forgotten) {}

  // Whose the session is, and the epoch that its client has shown to know.
  void NoteSession(uint64_t session, absl::string_view user, uint32_t epoch);
  // Of a session the last kv::kMaxWindow numbers are kept, as many as any server remembers.
  void Note(uint64_t session, const Told& told);
  // The primary had forgotten it; 0: it had forgotten more than it knows.
  void NoteLost(uint64_t session);

  // Of all sessions.
  size_t size() const { return size_; }
  // Those that are remembered; the one that was not heard of for longest first.
  const std::list<Of>& sessions() const { return sessions_; }
  // Those that were forgotten, with their highest numbers; and whether there were more.
  const absl::flat_hash_map<uint64_t, uint64_t>& forgotten() const { return forgotten_; }
  bool forgot_more() const { return forgot_more_; }

 private:
  static constexpr uint64_t kAll = ~uint64_t{0};

  Of& Heard(uint64_t session);
  void Trim();
  void Forget(uint64_t session, uint64_t highest);

  const size_t most_, most_forgotten_;
  size_t size_ = 0;
  std::list<Of> sessions_;
  absl::flat_hash_map<uint64_t, std::list<Of>::iterator> places_;
  absl::flat_hash_map<uint64_t, uint64_t> forgotten_;
  bool forgot_more_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_OUTCOMES_H_
