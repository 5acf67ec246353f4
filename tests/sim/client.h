// A client of a simulated run, polled by the scheduler: the product's ClientCore, or in a cluster the cores of all
// groups, and the operations of its user.
#ifndef FARLOOK_TESTS_SIM_CLIENT_H_
#define FARLOOK_TESTS_SIM_CLIENT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/core/core.h"
#include "client/core/cores.h"
#include "client/op/operation.h"
#include "farlook/stats.h"
#include "rdma/sim/network.h"
#include "tests/history/history.h"
#include "tests/history/outcome.h"
#include "tests/sim/world.h"

namespace farlook::sim {

// Returns whether the operation makes a value, or a counter, that names its write.
inline bool Makes(history::Type type) {
  return history::Writes(type) && type != history::Type::kDelete && type != history::Type::kDeleteCounter &&
         type != history::Type::kFetchAdd;
}

class SimClient {
 public:
  SimClient(World* world, int number, int server, std::string address);
  ~SimClient() { Kill(); }

  rdma::sim::Party party() const { return number_; }
  int server() const { return server_; }
  rdma::sim::SimClock& clock() { return clock_; }
  bool alive() const { return cores_ != nullptr; }
  bool ending() const { return ending_; }
  bool idle() const { return !alive() || (!busy_ && waiting_.empty() && cores_->in_flight() == 0); }
  // Returns whether it is within a call in which others continue: it can be stopped, but not killed.
  bool busy() const { return busy_; }
  // Returns whether a write has been answered on this connection.
  bool confirmed() const { return confirmed_; }
  void Welcomed() {
    confirmed_ = false;
    welcomed_ns_ = world_->now_ns();
  }
  bool ready() const { return alive() && cores_->home().ready(); }
  bool read_only() const { return read_only_; }

  void Start();
  // Sends a goodbye if connected, then ends the client. Operations under way never end. REQUIRES !busy().
  void Kill();
  // The same without a goodbye.
  void Crash();
  void Stop(int64_t ns);
  void JumpClock(int64_t ns) {
    clock_.offset_ns += ns;
    stopped_ns_ += ns;
    jumps_.emplace_back(world_->now_ns(), ns);
  }
  void Wake() { WakeAfter(world_->random.Between(0, world_->random.OneIn(8) ? 5'000 : 200)); }

  // Reads every key, each until there is an answer.
  void ReadAll();
  bool has_read_all() const { return next_read_ >= reads() && idle(); }

  const ClientStats& stats() const { return total_; }
  uint64_t long_found() const { return long_found_; }
  uint64_t ended_at_once() const { return ended_at_once_; }
  uint64_t read_at_once() const { return read_at_once_; }
  std::string State();  // for a trace
  // Called once for each operation that begins.
  std::function<void()> on_begin;

 private:
  struct Slot {
    client::Operation operation;
    std::string value, found;
    std::array<std::unique_ptr<char[]>, 2> buffers;  // kBufferBytes each, for gets into the caller's memory
    int key = 0;
    size_t place = 0;  // in the key's history
    int64_t timeout_ns = 0;
    int64_t due_ns = 0;          // by this client's clock
    int64_t stopped_ns = 0;      // how long the client had been stopped when the operation began
    int64_t clock_known_ns = 0;  // since when at least it knew the server's clock as it did when it began
    bool free = true;
    bool must_answer = false;
  };

  void WakeAfter(int64_t ns);
  client::ClientCore* MakeCore(const std::string& address);
  void Join();
  void Spread(const kv::ClusterMap& map);
  void Poll();
  void AddStats();
  // Number of gets of ReadAll(): each key as a value, then as a counter.
  int reads() const { return 2 * world_->plan.keys; }

  // client_operations.cc
  void BeginAny();
  bool OnlyReads() const;
  // An operation to begin.
  struct Ask {
    history::Type type;
    bool exists = false;  // a kGet that only checks whether the key exists
    // kTouch, kPersist or kGetAndTouch, which the history records as a kGet.
    client::Kind touch = client::Kind::kGet;
  };
  Ask DrawOfValue();
  Ask DrawOfCounter(bool also_value);
  void Lend(Ask ask, int key, size_t place, client::Operation* operation);
  uint32_t DrawBytes();
  int FillingTurn() const;  // below kFillingTurns
  Slot* FreeSlot();
  void Draw(Ask* ask, int* key);
  Slot* Prepare(Ask ask, int key, bool must_answer);
  void Begin(Ask ask, int key, bool must_answer);
  int Call();  // returns the number of operations
  void EndCalls();
  void AskCounter(Slot* slot, uint64_t write, history::Operation* record);
  int64_t ClockKnownSince() const;
  int64_t ClocksDiffer(const Slot& slot, int64_t timeout_ns) const;
  void SetUntil(const Slot& slot, history::Operation* record) const;
  void CheckSession(const client::Operation& operation);
  void Ended(Slot* slot);
  void Found(const Slot& slot, history::Operation* record);
  void FoundCounter(const Slot& slot, history::Operation* record);
  bool CheckWrite(int key, uint64_t write, absl::string_view what);

  World* const world_;
  const int number_;
  const int server_;
  const std::string address_;
  const bool read_only_;
  rdma::sim::SimClock clock_;
  ClientOptions options_;
  std::unique_ptr<client::Cores> cores_;
  std::vector<std::unique_ptr<client::ClientCore>> own_;  // the first one is the core that it began with
  // In a cluster, the client requests the map, and begins when it has connected to all groups.
  bool joined_ = true;
  std::optional<client::Pages> map_;
  client::Operation question_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> waiting_;      // what a call waits for
  std::vector<uint64_t> versions_;  // last seen, by key
  std::vector<int64_t> numbers_;    // of counters, likewise
  ClientStats total_;
  int64_t stopped_until_ns_ = 0;
  int64_t stopped_ns_ = 0;   // in all
  int64_t wake_ns_ = 0;      // when a Poll() is scheduled, 0: it is not
  int64_t welcomed_ns_ = 0;  // time of the connect
  int64_t answered_ns_ = 0;  // when the server last answered a request, as far as operations show
  std::vector<std::pair<int64_t, int64_t>> jumps_;  // of the client's clock: when, and by how much
  uint64_t life_ = 0;
  int writes_under_way_ = 0;
  uint64_t long_found_ = 0;     // values longer than a page
  uint64_t ended_at_once_ = 0;  // when the call that began them returned; on one host
  uint64_t read_at_once_ = 0;   // likewise, between two
  uint64_t places_ = 0;         // in the order of what it did
  bool busy_ = false;
  bool ending_ = false;
  bool confirmed_ = false;
  int next_read_ = 1 << 30;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_CLIENT_H_
