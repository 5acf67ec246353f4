#include "rdma/sim/read.h"

#include <algorithm>
#include <cstring>

namespace farlook::rdma::sim {

WordRead::WordRead(const char* from, uint64_t bytes, int64_t start_ns, int64_t end_ns, Random* random)
    : from_(from),
      bytes_(bytes),
      words_((bytes + 7) / 8),
      start_ns_(start_ns),
      end_ns_(end_ns),
      spread_(static_cast<Spread>(random->Below(kSpreads))),
      seed_(random->Next()) {}

void WordRead::Stop(int64_t now_ns, int64_t ns) {
  if (stop_ns_ == 0) stopped_at_ns_ = now_ns;
  stop_ns_ += ns;
}

int64_t WordRead::MomentOf(uint64_t word) const {
  const int64_t length_ns = end_ns_ - start_ns_;
  int64_t moment_ns = start_ns_;
  switch (spread_) {
    case Spread::kUniform:
      moment_ns += static_cast<int64_t>(Mix(seed_ + word) % static_cast<uint64_t>(length_ns + 1));
      break;
    case Spread::kAscending:
      moment_ns += length_ns * static_cast<int64_t>(word) / static_cast<int64_t>(words_);
      break;
    case Spread::kDescending:
      moment_ns += length_ns * static_cast<int64_t>(words_ - 1 - word) / static_cast<int64_t>(words_);
      break;
    case Spread::kBothEnds:
      if (Mix(seed_ + word) & 1) moment_ns = end_ns_;
      break;
    case Spread::kOneLate:
      if (word == seed_ % words_) moment_ns = end_ns_;
      break;
    case Spread::kOneEarly:
      if (word != seed_ % words_) moment_ns = end_ns_;
      break;
    case Spread::kFirstEarly:
      if (word != 0) moment_ns = end_ns_;
      break;
    case Spread::kFirstLate:
      if (word == 0) moment_ns = end_ns_;
      break;
  }
  return stop_ns_ > 0 && moment_ns > stopped_at_ns_ ? moment_ns + stop_ns_ : moment_ns;
}

void WordRead::KeepWords(const char* at, uint64_t bytes, int64_t now_ns) {
  const uint64_t first = at < from_ ? 0 : static_cast<uint64_t>(at - from_) / 8;
  const uint64_t end = std::min(words_, (static_cast<uint64_t>(at + bytes - from_) + 7) / 8);
  for (uint64_t word = first; word < end; ++word) {
    if (MomentOf(word) > now_ns) continue;
    if (is_kept_.empty()) is_kept_.resize(words_);
    if (is_kept_[word]) continue;
    is_kept_[word] = true;
    uint64_t value = 0;
    std::memcpy(&value, from_ + 8 * word, std::min<uint64_t>(8, bytes_ - 8 * word));
    kept_.emplace_back(word, value);
  }
}

void WordRead::Finish(char* to) const {
  std::memcpy(to, from_, bytes_);
  for (const auto& [word, value] : kept_) std::memcpy(to + 8 * word, &value, std::min<uint64_t>(8, bytes_ - 8 * word));
}

}  // namespace farlook::rdma::sim
