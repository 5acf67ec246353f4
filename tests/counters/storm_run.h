// A storm: processes of this host whose clients share a board, and the reckoning at its end.
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

  // Of `hosts` at once, each with a number of its own, each has a StormRun.
  explicit StormRun(uint32_t host = 0, uint32_t hosts = 1);
  ~StormRun();
  StormRun(const StormRun&) = delete;
  StormRun& operator=(const StormRun&) = delete;

  void Start(const std::string& address, int processes);
  // Until so much was done, or the test fails: what is fast in one place is slow in another.
  struct Work {
    uint64_t adds;
    uint64_t deletes;
  };
  void Await(const Work& work);
  // The same in parts, between which a process is killed: the share of one of two hosts.
  void AwaitWithKills();
  // Disturbs one of them, by chance: kills it, and starts another; or stops it for `stop_ms`.
  void Kill();
  void StopFor(int64_t stop_ms);
  // Ends all. False: one of them failed.
  bool Join();

  // The other host's run, after its end.
  bool Write(const std::string& path) const;
  bool Merge(const std::string& path);

  // Deletes what is left, and compares what was added with what the counters held. Failures of the test say what is
  // wrong. REQUIRES Join(). What was disturbed may be missing; nothing else.
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
