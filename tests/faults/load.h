// For tests: a client that works during a fault, and checks the promises of the statuses that it gets.
#ifndef FARLOOK_TESTS_FAULTS_LOAD_H_
#define FARLOOK_TESTS_FAULTS_LOAD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook {

// Gets, puts, inserts and deletes of keys that no other client uses, 16 in flight, never two of one key. Errors fail
// the test: a get that contradicts the writes' statuses, an insert that finds itself done already, a status that a
// fault does not explain.
//
// The effect of an acknowledged write is known exactly: a put that is done twice shows in the key's version.
// UNAVAILABLE means that the write was not done; after UNKNOWN and DEADLINE_EXCEEDED it was, or not, and its key is
// left alone.
class Load {
 public:
  // `name` sets the keys of this load apart.
  Load(Client* client, std::string name, int64_t timeout_ms);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Works for as long as `more` returns true, and then until all operations have ended.
  void Run(absl::FunctionRef<bool()> more);

  // Expects that `observer` finds each key as the statuses said. REQUIRES nothing in flight.
  void Check(Client* observer);

  // Operations that ended with this status; without a status, all.
  uint64_t ended(absl::StatusCode code) const;
  uint64_t ended() const;
  // The longest that any operation took.
  double longest_s() const { return static_cast<double>(longest_ns_) * 1e-9; }

 private:
  static constexpr int64_t kAbsent = -1;
  struct State {
    int64_t sequence = kAbsent;
    uint64_t version = 0;
  };
  struct Key {
    State state;          // as of the last write whose outcome is known
    int64_t attempt = 0;  // the result of the write under way, or of the doubtful one; kAbsent: a delete
    bool busy = false;    // an operation is in flight
    bool doubtful = false;
  };
  struct Slot {
    std::unique_ptr<AsyncOperation> operation;
    const GetOperation* get = nullptr;  // `operation`, if it is one
    bool deletes = false;
    int key = 0;
    int64_t begun_ns = 0;
    std::string name;
  };

  std::string Name(int key) const;
  void Start(Slot* slot);
  void End(Slot* slot);
  void OnGet(const Slot& slot, const Key& key);
  void OnWrite(const Slot& slot, Key* key);
  void ForgetOldIncarnation();

  Client* const client_;
  const std::string name_;
  const int64_t timeout_ms_;
  uint64_t incarnation_;
  std::minstd_rand random_{1};
  int64_t sequence_ = 0;
  std::deque<Key> keys_;
  std::vector<Slot> slots_;
  std::map<absl::StatusCode, uint64_t> ended_;
  int64_t longest_ns_ = 0;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_LOAD_H_
