// The state that the processes of a host share in a test: a log of each client's requests and answers, in memory that
// all of them map. Operations that a process had begun when it was killed stay in it, with an unknown outcome. Another
// host has a separate log, which is added at the end.
#ifndef FARLOOK_TESTS_LINEARIZABLE_BOARD_H_
#define FARLOOK_TESTS_LINEARIZABLE_BOARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/history/history.h"

namespace farlook {

// Thread safety: each lane belongs to one process; all else is atomic, or read when the processes have ended.
class Board {
 public:
  static constexpr int kKeys = 6;
  static constexpr int kLanes = 32;  // one for each process that a test starts on a host
  static constexpr int kHosts = 3;

  struct Entry {
    history::Operation operation;
    int key;
  };

  // `host`: the number of this host, from 0; hosts number their writes separately.
  explicit Board(int host = 0);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Returns an unused entry, or null if there have been enough. The operation counts as begun from now on.
  Entry* Begin(int lane, int key, const history::Operation& operation);
  // Records the outcome. A process that is killed within the call leaves it unknown.
  static void End(Entry* entry, const history::Operation& operation);
  // Returns the number of a new write to a key; 0: there have been enough.
  uint64_t NewWrite(int key);
  // Returns whether that is the number of a write to this key, of any host.
  static bool IsOf(uint64_t write, int key);
  static int HostOf(uint64_t write) { return static_cast<int>(write / kKeys % kHosts); }
  static int HostOfClient(int client) { return client / kLanes; }
  // Keeps the first.
  void Violate(const std::string& what);

  // After this no process begins an operation.
  void Stop() { shared_->stop = true; }
  bool stopped() const { return shared_->stop; }
  std::string violation() const;

  // Operations, so far.
  size_t begun() const;
  // By key, of all lanes together.
  std::vector<history::KeyHistory> Histories() const;

  // Writes the log of a host to a file. False: it could not be written, or is not a log.
  bool Write(const std::string& path) const;
  // Adds the log of that host. Its times are of its own clock: `earliest` and `latest` return the two times of this
  // host between which a time of the other's lies. REQUIRES: no process begins operations any more.
  bool Merge(const std::string& path, int host, const std::function<int64_t(int64_t)>& earliest,
             const std::function<int64_t(int64_t)>& latest);

 private:
  static constexpr uint32_t kEntries = 12'000;               // of a lane
  static constexpr uint64_t kMaxWrites = uint64_t{1} << 17;  // the most that tests/history/values.h can number
  struct Lane {
    std::atomic<uint32_t> begun;
    std::array<Entry, kEntries> entries;
  };
  struct Shared {
    std::atomic<bool> stop;
    std::atomic<uint64_t> writes;
    std::atomic<bool> violated;
    std::array<char, 500> violation;
    std::array<Lane, kLanes> lanes;
  };

  const uint64_t host_;
  Shared* const shared_;       // zeros at first
  std::vector<Entry> merged_;  // of other hosts, in the time of this one
};

// The time of one clock for all processes of a host.
int64_t HostNowNs();

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_BOARD_H_
