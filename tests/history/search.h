// One search for an order of a key's operations that explains all answers. See check.h.
#ifndef FARLOOK_TESTS_HISTORY_SEARCH_H_
#define FARLOOK_TESTS_HISTORY_SEARCH_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/history/check.h"
#include "tests/history/history.h"
#include "tests/history/state.h"

namespace farlook::history {

// An operation, and the moments between which it took effect.
struct Timed {
  const Operation* operation;
  int64_t begin_ns, end_ns;  // the end of an operation that may take effect at any later time: never
};

// Sorted by begin, and those of one client in the order of their begins: none has an earlier begin than a predecessor
// of its client.
std::vector<Timed> InOrder(const KeyHistory& history);

// The version of the key's value at the operation, if the answer has it; otherwise 0.
uint64_t VersionMet(const Operation& operation);

class Search {
 public:
  Search(const KeyHistory& history, uint64_t max_steps) : history_(history), max_steps_(max_steps) {}

  CheckResult Run();

 private:
  // A place from which the search continues: the entries that may be next there, and those placed on the way to it.
  struct Frame {
    // By index of the entry; from the number of entries on, by index of a bridge. The best is the last.
    std::vector<uint32_t> choices;
    std::vector<uint32_t> placed;
    std::vector<std::vector<uint32_t>> bridges;
    State state;
    uint32_t bound;
  };
  // An operation that has effects, or an answer to explain.
  struct Entry {
    const Operation* operation;
    int64_t begin_ns;
    int64_t end_ns;        // of what may take effect at any later time: never
    bool optional;         // it may never have taken effect
    bool reads;            // never changes the key
    State writes;          // state afterwards, if it makes the key a value, or absent
    uint32_t found = 0;    // state that it must meet, 0 if it does not say
    uint32_t needs = 0;    // the same, also where only the version says so
    uint32_t loose = 0;    // index of the version that it met, where that is not known to be any write's
    uint32_t client = 0;   // index
    uint32_t session = 0;  // index; 0: concurrent ones are in any order
    uint32_t later = 0;    // links of the entries not yet placed, in order of begin
    uint32_t earlier = 0;
    State expires = kAbsent;  // of a kExpire: which value ends
    bool alike = false;       // optional, and nothing tells it from others of its type that have begun
  };
  // A version that a client received, of a write whose own outcome is unknown.
  struct Loose {
    uint32_t left = 0;    // of those that certainly met it, not yet placed
    uint32_t placed = 0;  // of all that saw it
  };
  // Operations of a type and session that were tried as the next one.
  struct Tried {
    Type type;
    uint32_t session;
    int64_t until_ns;
  };

  bool PrepareWrites(const std::vector<Timed>& order, std::string* why);
  bool PrepareVersions(std::string* why);
  void PrepareEntries(const std::vector<Timed>& order);
  Entry EntryOf(const Timed& timed) const;
  template <typename Visit>
  void ForEachNext(Visit visit);
  bool HasVersion(const Entry& entry, State state) const;
  // Returns whether the entry would be the first to bind the version of the key's value.
  bool Binds(const Entry& entry) const { return entry.loose != 0 && bound_ == 0; }
  // Returns whether an operation of unknown outcome happens now or never. Both only while ForEachNext() visits the
  // entry.
  bool IsTooLateForSome(const Entry& entry) const { return entry.begin_ns > soonest_until_ns_; }
  bool MayBeOverwritten(const Entry& entry, State state) const;
  bool Fits(const Entry& entry, State state) const;
  bool FitsCounter(const Entry& entry, State state) const;
  State After(const Entry& entry, State state) const;
  // Returns whether the entry is an add of unknown outcome that no client saw.
  static bool IsUnknownAdd(const Entry& entry) { return entry.optional && entry.operation->type == Type::kFetchAdd; }
  void ChoicesAt(State state, Frame* frame);
  void AddBridges(State state, Frame* frame);
  void PlaceReads(State state, std::vector<uint32_t>* placed);
  bool Explore(std::string* why);
  std::string Stuck() const;
  // Returns a write's version, if any client received it.
  uint64_t VersionWritten(uint32_t i) const {
    const uint64_t version = version_of_[entries_[i].writes];
    return version != 0 ? version : ~0ull;
  }
  void Place(uint32_t i);
  void Unplace(uint32_t i);
  void Count(uint32_t i, bool placed);
  uint32_t StateOf(uint64_t write) const {
    const auto found = states_.find(write);
    return found == states_.end() ? ~0u : found->second;
  }

  const KeyHistory& history_;
  const uint64_t max_steps_;
  uint64_t steps_ = 0;
  std::vector<Entry> entries_;  // [0] is head and tail of the list
  std::unordered_map<uint64_t, uint32_t> states_;
  std::vector<uint64_t> version_of_;                 // by state; 0: no client received it
  std::unordered_map<uint64_t, uint32_t> versions_;  // states by their version, where it is known
  // Number of entries that must still see each state: none may overwrite it before. It never returns.
  std::vector<uint32_t> needed_;
  std::vector<Loose> loose_;           // [0] is none
  uint32_t bound_ = 0;                 // which of them the key's present value was found to have
  std::vector<uint64_t> first_ended_;  // by client: the earliest end, in its own order, among entries not placed
  int64_t soonest_until_ns_ = kNever;  // among visited entries that are not placed and may be
  std::vector<bool> held_up_;          // by session: a write that certainly took effect is not placed
  // One element for each placed entry, in the order of placing: the latest begin; and by session the latest write.
  std::vector<int64_t> latest_begin_ns_;
  std::vector<std::vector<uint64_t>> latest_write_;
  size_t required_ = 0;  // not placed, and not optional

  // The set of placed entries, as a hash: the XOR of random numbers, one for each. The memory holds 128 bits.
  static uint64_t Scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t placed_a_ = 0, placed_b_ = 0;
  uint32_t most_placed_ = 0, placed_ = 0;
  bool all_tried_ = true;        // no set of unknown adds was left out
  State stuck_state_ = kAbsent;  // where the longest attempt ended, and before which entry
  const Operation* stuck_ = nullptr;
};

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_SEARCH_H_
