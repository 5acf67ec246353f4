// A storm: processes of this host whose clients share a board, and the check of sums at its end.
#ifndef FARLOOK_TESTS_COUNTERS_STORM_RUN_H_
#define FARLOOK_TESTS_COUNTERS_STORM_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/counters/storm.h"

namespace farlook {

// Thread safety: one thread.
class StormRun {
 public:
  static constexpr int kThreads = 2;  // of each process, with a client each

  // One of `hosts` simultaneous runs, each on a host with its own number.
  explicit StormRun(uint32_t host = 0, uint32_t hosts = 1);
  ~StormRun();
  StormRun(const StormRun&) = delete;
  StormRun& operator=(const StormRun&) = delete;

  void Start(const std::string& address, int processes);
  // Runs until this much was done, or the test fails: speeds differ between machines.
  struct Work {
    uint64_t adds;
    uint64_t deletes;
  };
  void Await(const Work& work);
  // The same in parts, between which a process is killed: the share of one of two hosts.
  void AwaitWithKills();
  // Disturbs a random one: kills it, and starts another; or stops it for `stop_ms`.
  void Kill();
  void StopFor(int64_t stop_ms);
  // Ends all. False: one of them failed.
  bool Join();

  // The other host's run, after its end.
  bool Write(const std::string& path) const;
  bool Merge(const std::string& path);

  // Deletes the remaining counters, and compares the sums of adds with the counters' values. Failures of the test
  // describe errors. REQUIRES Join(). Only adds of disturbed processes may be missing.
  void ExpectExactSums(const std::string& address);

  StormBoard* board() const { return board_; }

 private:
  pid_t Fork();

  StormBoard* const board_;
  const uint32_t seed_;
  uint32_t forks_ = 0;
  uint64_t disturbed_ = 0;  // threads
  std::string address_;
  std::vector<pid_t> children_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_COUNTERS_STORM_RUN_H_
