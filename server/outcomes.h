// What the primary of a group told its clients, as its backups know it from records: so that who comes after it answers
// a request that is sent again, and does not carry it out again.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_OUTCOMES_H_
#define FARLOOK_SERVER_OUTCOMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kv/limits.h"
#include "kv/message.h"

namespace farlook::server {

class Outcomes {
 public:
  struct Told {
    uint64_t number = 0;
    kv::Code code = kv::Code::kOk;
    uint64_t version = 0;
  };
  struct Of {
    uint64_t session = 0;
    std::deque<Told> told = {};  // as they were noted; a number is there once, with what it was told last
  };

  // At most so many are remembered. Sessions that were not heard of for longest are forgotten first, as a whole.
  explicit Outcomes(size_t most = size_t{1} << 20) : most_(most) {}

  // Of a session the last kv::kMaxWindow are kept, as many as any server remembers.
  void Note(uint64_t session, const Told& told);

  size_t size() const { return size_; }
  // Those that are remembered; the one that was not heard of for longest first.
  const std::list<Of>& sessions() const { return sessions_; }
  // And those that were forgotten.
  const std::vector<uint64_t>& forgotten() const { return forgotten_; }

 private:
  const size_t most_;
  size_t size_ = 0;
  std::list<Of> sessions_;
  absl::flat_hash_map<uint64_t, std::list<Of>::iterator> places_;
  std::vector<uint64_t> forgotten_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_OUTCOMES_H_
