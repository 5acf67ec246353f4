#include "bench/ycsb/key_chooser.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/common/zipfian.h"

namespace farlook::bench {
namespace {

struct NamedDistribution {
  absl::string_view name;
  Distribution distribution;
};

constexpr NamedDistribution kDistributions[] = {
    {"uniform", Distribution::kUniform},
    {"zipfian", Distribution::kZipfian},
    {"latest", Distribution::kLatest},
};

// Implements a chooser's Clone() by copying.
template <class Derived>
class Cloneable : public KeyChooser {
 public:
  std::unique_ptr<KeyChooser> Clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

class UniformChooser : public Cloneable<UniformChooser> {
 public:
  explicit UniformChooser(const KeySpace& space) : first_(space.first), count_(static_cast<uint64_t>(space.count)) {}
  int64_t Next(Random* random) override { return first_ + static_cast<int64_t>(random->Below(count_)); }

 private:
  int64_t first_;
  uint64_t count_;
};

class ZipfianChooser : public Cloneable<ZipfianChooser> {
 public:
  ZipfianChooser(const KeySpace& space, const AcknowledgedCounter* inserted)
      // The end is inclusive in YCSB too: one key more than can exist, drawn again if selected.
      : zipfian_(space.first, space.first + space.count + space.expected_new_keys), inserted_(inserted) {}

  int64_t Next(Random* random) override {
    // Terminates: the present keys have a positive share of every draw.
    while (true) {
      const int64_t key = zipfian_.Next(random);
      if (key <= inserted_->last()) return key;
    }
  }

 private:
  ScrambledZipfianGenerator zipfian_;
  const AcknowledgedCounter* inserted_;
};

// The newest record is the most frequent one.
class LatestChooser : public Cloneable<LatestChooser> {
 public:
  explicit LatestChooser(const AcknowledgedCounter* inserted)
      : zipfian_(0, std::max<int64_t>(0, inserted->last() - 1)), inserted_(inserted) {}

  int64_t Next(Random* random) override {
    const int64_t last = inserted_->last();
    // eta stays that of the first number of items (see zipfian.h), so a table that grew from nearly nothing can draw
    // beyond its beginning. YCSB would ask for a negative record.
    return last < 1 ? 0 : std::max<int64_t>(0, last - zipfian_.Next(random, last));
  }

 private:
  ZipfianGenerator zipfian_;
  const AcknowledgedCounter* inserted_;
};

}  // namespace

absl::StatusOr<Distribution> ParseDistribution(absl::string_view name) {
  std::string names;
  for (const NamedDistribution& entry : kDistributions) {
    if (entry.name == name) return entry.distribution;
    absl::StrAppend(&names, names.empty() ? "" : ", ", entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown distribution \"", name, "\"; there are: ", names));
}

absl::string_view DistributionName(Distribution distribution) {
  for (const NamedDistribution& entry : kDistributions) {
    if (entry.distribution == distribution) return entry.name;
  }
  return "?";
}

std::unique_ptr<KeyChooser> NewKeyChooser(Distribution distribution, const KeySpace& space,
                                          const AcknowledgedCounter* inserted) {
  switch (distribution) {
    case Distribution::kUniform:
      break;
    case Distribution::kZipfian:
      return std::make_unique<ZipfianChooser>(space, inserted);
    case Distribution::kLatest:
      return std::make_unique<LatestChooser>(inserted);
  }
  return std::make_unique<UniformChooser>(space);
}

}  // namespace farlook::bench
