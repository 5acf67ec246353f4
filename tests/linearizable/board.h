// What the processes of a host share in a test: a log of what each of their clients asked and was told, in memory that
// all of them map. What a process had begun when it was killed stays in it, with an unknown outcome. Another host has a
// log of its own, which is added at the end.
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

  // Of the host of that number, from 0: hosts number their writes apart.
  explicit Board(int host = 0);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // An entry that nobody uses yet, or null: that is enough of them. The operation counts as begun from now on.
  Entry* Begin(int lane, int key, const history::Operation& operation);
  // What became of it. A process that is killed within leaves it as unknown as it was.
  static void End(Entry* entry, const history::Operation& operation);
  // The number of a new write to a key; 0: that is enough of them.
  uint64_t NewWrite(int key);
  // Whether that is the number of a write to this key, of any host.
  static bool IsOf(uint64_t write, int key);
  static int HostOf(uint64_t write) { return static_cast<int>(write / kKeys % kHosts); }
  static int HostOfClient(int client) { return client / kLanes; }
  // Keeps the first.
  void Violate(const std::string& what);

  // Nobody begins anything any more.
  void Stop() { shared_->stop = true; }
  bool stopped() const { return shared_->stop; }
  std::string violation() const;

  // Operations, so far.
  size_t begun() const;
  // By key, of all lanes together.
  std::vector<history::KeyHistory> Histories() const;

  // What a host wrote down, as a file. False: it could not be written, or is not one.
  bool Write(const std::string& path) const;
  // Adds what the host of that number wrote. Its times are of its own clock: `earliest` and `latest` tell within which
  // two of this host's a time of the other's lies. REQUIRES: nobody begins anything any more.
  bool Merge(const std::string& path, int host, const std::function<int64_t(int64_t)>& earliest,
             const std::function<int64_t(int64_t)>& latest);

 private:
  static constexpr uint32_t kEntries = 12'000;               // of a lane
  static constexpr uint64_t kMaxWrites = uint64_t{1} << 17;  // what tests/history/values.h can number
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
  std::vector<Entry> merged_;  // of other hosts, in this one's time
};

// Of one clock for all processes of a host.
int64_t HostNowNs();

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_BOARD_H_
