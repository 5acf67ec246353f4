#include "tests/sim/keys.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "kv/layout/hash.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"

namespace farlook::sim {
namespace {

constexpr uint32_t kCandidates = 400'000;

std::string Candidate(uint32_t number) {
  std::string key = absl::StrCat(number);
  if (number % 5 == 0) key.append(number / 5 % 70, 'k');  // several lengths, also beyond the keys that hash alike
  return key;
}

// Candidates by place: the step of the position (one of the first segments each), then the bucket.
struct Pool {
  std::vector<std::vector<uint32_t>> places;
  std::vector<std::pair<uint32_t, uint32_t>> twins;  // in one place and with one fingerprint

  Pool() : places(8 * kv::kMainBuckets) {
    const kv::Hasher hasher(kHashSeed);
    std::vector<std::vector<uint16_t>> fingerprints(places.size());
    for (uint32_t i = 0; i < kCandidates; ++i) {
      const uint64_t hash = hasher(Candidate(i));
      const size_t place = (kv::PositionOf(hash) >> 61) * kv::kMainBuckets + kv::BucketOf(hash);
      const uint16_t fingerprint = kv::FingerprintOf(hash);
      auto& seen = fingerprints[place];
      if (const auto twin = std::find(seen.begin(), seen.end(), fingerprint); twin != seen.end()) {
        twins.emplace_back(places[place][static_cast<size_t>(twin - seen.begin())], i);
      }
      places[place].push_back(i);
      seen.push_back(fingerprint);
    }
  }
};

}  // namespace

std::vector<std::string> DrawKeys(int count, bool crowded, rdma::sim::Random* random) {
  static const Pool* const pool = new Pool;
  static const kv::Hasher hasher(kHashSeed);
  const auto size = static_cast<size_t>(count);
  std::vector<std::string> keys;
  std::set<std::string> taken;
  const auto add = [&](std::string key) {
    if (keys.size() < size && taken.insert(key).second) keys.push_back(std::move(key));
  };
  const auto& [first, second] = pool->twins[random->Below(pool->twins.size())];
  add(Candidate(first));
  add(Candidate(second));
  add(absl::StrCat(Candidate(first), "7"));  // begins like the first
  // Up to three places, of different segments at first.
  for (size_t n = 0; crowded && n < 3; ++n) {
    const uint64_t hash = hasher(Candidate(n == 0 ? first : pool->twins[random->Below(pool->twins.size())].first));
    const auto& place = pool->places[(kv::PositionOf(hash) >> 61) * kv::kMainBuckets + kv::BucketOf(hash)];
    for (const uint32_t number : place) add(Candidate(number));
  }
  while (keys.size() < size) {
    const std::string& like = keys[random->Below(keys.size())];
    add(random->OneIn(2) && like.size() < 100 ? absl::StrCat(like, random->Below(10))
                                              : Candidate(static_cast<uint32_t>(random->Below(kCandidates))));
  }
  return keys;
}

}  // namespace farlook::sim
