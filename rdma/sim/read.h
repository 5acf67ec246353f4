// A READ under way: every word of it is fetched at its own moment between start and end.
//
// The words are taken from memory when the READ ends, since most do not change. Before a store to a word that has been
// fetched already, Keep() saves its value. The result is as if each word had been fetched at its own moment.
#ifndef FARLOOK_RDMA_SIM_READ_H_
#define FARLOOK_RDMA_SIM_READ_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "rdma/sim/random.h"

namespace farlook::rdma::sim {

class WordRead {
 public:
  // The order and the spread of the moments.
  enum class Spread : uint8_t {
    kUniform,
    kAscending,
    kDescending,
    kBothEnds,  // each word at the start or at the end
    kOneLate,   // all at the start except one at the end
    kOneEarly,
    kFirstEarly,  // the first word at the start, all others at the end
    kFirstLate,
  };
  static constexpr uint64_t kSpreads = 8;

  WordRead(const char* from, uint64_t bytes, int64_t start_ns, int64_t end_ns, Random* random);

  int64_t end_ns() const { return end_ns_ + stop_ns_; }
  // The reader itself stops now: remaining words are fetched later by that time.
  void Stop(int64_t now_ns, int64_t ns);

  // To be called before these bytes are stored.
  void Keep(const char* at, uint64_t bytes, int64_t now_ns) {
    if (at < from_ + bytes_ && from_ < at + bytes) KeepWords(at, bytes, now_ns);
  }

  // Copies the fetched words to `to`.
  void Finish(char* to) const;

  const char* from() const { return from_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void KeepWords(const char* at, uint64_t bytes, int64_t now_ns);
  int64_t MomentOf(uint64_t word) const;

  const char* const from_;
  const uint64_t bytes_;
  const uint64_t words_;
  const int64_t start_ns_;
  const int64_t end_ns_;
  const Spread spread_;
  const uint64_t seed_;
  int64_t stopped_at_ns_ = 0;
  int64_t stop_ns_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> kept_;  // word, value when it was fetched
  std::vector<bool> is_kept_;                        // by word; allocated when the first is kept
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_READ_H_
