// The reader of a simulated group (group_run.h): it knows any configuration that there was, READs words and the table
// of a primary as its lease (kv/read_lease.h, with breaks) lets it, and believes what that proves.
#ifndef FARLOOK_CLUSTER_GROUP_READER_H_
#define FARLOOK_CLUSTER_GROUP_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/read_lease_broken.h"
#include "kv/epoch_word.h"

namespace farlook::cluster {

// What a READ finds at a node.
struct Shown {
  kv::EpochWord word;
  int table = 0;  // the last write that was published in it
};

class GroupReader {
 public:
  // The run that it is part of, which outlives it.
  struct Surroundings {
    std::function<size_t(size_t below)> any;
    std::function<Entry(size_t ago)> record;
    std::function<std::optional<Shown>(uint64_t incarnation)> reach;  // nothing: nobody answers
    int* known;                                                       // the latest write that somebody was told of
  };
  // `is_strict`: it trusts no clock.
  GroupReader(Surroundings surroundings, bool is_strict)
      : surroundings_(std::move(surroundings)), is_strict_(is_strict) {}

  // One of its steps, and what it returned that is stale; empty: nothing.
  std::string Step(absl::Time now);
  int gets() const { return gets_; }

 private:
  // A READ of a word whose completion it has not seen.
  struct Posted {
    uint64_t round = 0;
    size_t member = 0;
    std::optional<kv::EpochWord> word;  // as it was when it was read
  };

  size_t Any(size_t below) { return surroundings_.any(below); }
  void Begin(const Configuration& configuration);
  std::string End();
  void Forget();
  void BeginRound();
  void ReadWord();
  void ReadTable();
  bool Believes() const { return is_strict_ ? lease_->BelievesStrictly(noted_) : lease_->Believes(answered_ns_); }

  const Surroundings surroundings_;
  const bool is_strict_;
  int64_t now_ns_ = 0;
  std::optional<Configuration> configuration_;  // that it believes in
  std::optional<kv::ReadLease> lease_;
  std::vector<Posted> posted_;
  std::optional<int> answer_;
  int64_t answered_ns_ = 0;
  uint64_t noted_ = 0;  // the round when it began
  int floor_ = 0;
  int gets_ = 0;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_GROUP_READER_H_
