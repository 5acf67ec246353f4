// What the processes of a test share: a log of what each of their clients asked and was told, in memory that all of
// them map. What a process had begun when it was killed stays in it, with an unknown outcome.
#ifndef FARLOOK_TESTS_LINEARIZABLE_BOARD_H_
#define FARLOOK_TESTS_LINEARIZABLE_BOARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/history/history.h"

namespace farlook {

// Thread safety: each lane belongs to one process; all else is atomic, or read when the processes have ended.
class Board {
 public:
  static constexpr int kKeys = 6;
  static constexpr int kLanes = 32;  // one for each process that a test starts

  struct Entry {
    history::Operation operation;
    int key;
  };

  Board();
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // An entry that nobody uses yet, or null: that is enough of them. The operation counts as begun from now on.
  Entry* Begin(int lane, int key, const history::Operation& operation);
  // What became of it. A process that is killed within leaves it as unknown as it was.
  static void End(Entry* entry, const history::Operation& operation);
  // The number of a new write to a key; 0: that is enough of them.
  uint64_t NewWrite(int key);
  // Whether that is a write to this key.
  bool IsOf(uint64_t write, int key) const;
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

 private:
  static constexpr uint32_t kEntries = 6'000;  // of a lane
  static constexpr uint64_t kMaxWrites = uint64_t{1} << 16;
  struct Lane {
    std::atomic<uint32_t> begun;
    std::array<Entry, kEntries> entries;
  };
  struct Shared {
    std::atomic<bool> stop;
    std::atomic<uint64_t> writes;
    std::array<std::atomic<int8_t>, kMaxWrites> key_of;  // plus 1, by write
    std::atomic<bool> violated;
    std::array<char, 500> violation;
    std::array<Lane, kLanes> lanes;
  };

  Shared* const shared_;  // zeros at first
};

// Of one clock for all processes of a host.
int64_t HostNowNs();

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_BOARD_H_
