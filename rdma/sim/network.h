// A simulated network: any number of servers and clients in one thread and in virtual time.
//
// Addresses are "sim://name". A party (process) is an id; its endpoints and listeners are made with it. Nothing moves
// unless the Scheduler runs; an endpoint's wake function notifies its party that there is something to poll.
//
// Simulated, within what rdma/transport.h allows:
//   * The words of a READ are fetched one by one in random order, while others store (BeforeStore()). The same holds for
//     READs at once, on one host: the call runs other parties meanwhile, so its caller must not be entered again, or
//     destroyed, before it returns.
//   * A connection breaks at random. From some moment on, everything under way in one direction is lost, so an atomic's
//     completion may be lost before or after its effect. Each side notices it at a moment of its own.
//   * The loss of a peer is noticed late. Until then the other side goes on, and messages sent before still arrive.
//   * Queues are short, acknowledgements slow, requests to connect and their answers get lost, Allocate() fails.
#ifndef FARLOOK_RDMA_SIM_NETWORK_H_
#define FARLOOK_RDMA_SIM_NETWORK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/clock.h"
#include "rdma/sim/options.h"
#include "rdma/sim/read.h"
#include "rdma/sim/scheduler.h"
#include "rdma/transport.h"

namespace farlook::rdma::sim {

class SimEndpoint;
class SimListener;
class Wire;

using Party = int;

// Memory that peers may READ.
struct Region {
  char* base = nullptr;
  uint64_t bytes = 0;
  Access access = Access::kRemoteRead;
  Party party = 0;                        // its owner
  const SimEndpoint* endpoint = nullptr;  // owner of a client's buffer: only peers of its connections may READ it
  RemoteRange remote;
};

// Thread safety: one thread. Outlives all that it makes.
class Network {
 public:
  Network(Scheduler* scheduler, const NetworkOptions& network_options)
      : scheduler_(scheduler), options(network_options) {}

  Scheduler& scheduler() { return *scheduler_; }
  Random& random() { return scheduler_->random(); }
  int64_t now_ns() const { return scheduler_->now_ns(); }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(absl::string_view address, Party party,
                                                   std::function<void()> wake = {});
  std::unique_ptr<Endpoint> CreateEndpoint(Party party, std::function<void()> wake = {}, int side = kClient);

  // Stops a party for a while. READs and atomics that its own CPU executes (Capabilities::local), and READs that it
  // serves (served_reads), stop with it; a device goes on.
  void Stop(Party party, int64_t ns);

  // A party dies: its connections end, in an order that is the same in each run. It is destroyed next.
  void Kill(Party party);

  // To be called before each store to offered memory: READs keep the values that they fetched before.
  void BeforeStore(const void* at, uint64_t bytes = 8) {
    for (const auto& [read, reader] : reads_) read->Keep(static_cast<const char*>(at), bytes, scheduler_->now_ns());
  }
  // Returns whether one of the last READs was of this word: a moment at which the order of stores may matter.
  bool RecentlyRead(const void* at) const {
    for (const auto& [from, bytes] : recent_) {
      if (static_cast<uint64_t>(static_cast<const char*>(at) - from) < bytes) return true;
    }
    return false;
  }

  // Called when a side ends a connection that no fault has touched, while both sides are connected.
  std::function<void(Party, bool is_server, Party peer)> on_healthy_end;
  // Copies memory that is Mapped() for this client: other parties go on meanwhile, but the client does not.
  void ReadMapped(Party reader, char* to, const char* from, uint64_t bytes);
  // Called when a client is connected, with the server's private data of the accept; and with the server's first
  // message.
  std::function<void(Party client, absl::string_view accept)> on_accept;
  std::function<void(Party client, absl::string_view message)> on_first_message;
  // Receives one line for each event; no text is built while it is empty.
  std::function<void(const std::string&)> trace;

  // ---- For the parts of the simulation itself.

  SimListener* FindListener(absl::string_view name);
  void Register(absl::string_view name, SimListener* listener);
  void Unregister(SimListener* listener);

  const RemoteRange& Offer(const Region& region);
  const Region* FindRegion(uint32_t rkey) const;
  void Withdraw(uint32_t rkey);

  void Add(const std::shared_ptr<Wire>& wire) { wires_.push_back(wire); }
  // `reader`: the party whose CPU fetches the words, if a CPU does.
  void Begin(WordRead* read, Party reader) {
    reads_.emplace_back(read, reader);
    LookedAt(read->from(), read->bytes());
  }
  void LookedAt(const char* from, uint64_t bytes) { recent_[next_recent_++ % recent_.size()] = {from, bytes}; }
  void End(WordRead* read);
  // Returns the time until which a party is stopped.
  int64_t stopped_until_ns(Party party) const {
    const auto found = stopped_until_ns_.find(party);
    return found == stopped_until_ns_.end() ? 0 : found->second;
  }

  // Draws whether that fault happens there now.
  bool Happens(NetworkFault fault, int side);
  // Draws a one-way delay; much longer if the fault happens.
  int64_t DrawDelay();
  int64_t DrawDelay(NetworkFault slow, int side);
  // Draws the time for which a side that reads at once is stopped at one place: mostly 0.
  int64_t DrawPause(int side);
  // Draws the time until that side notices the loss of its peer.
  int64_t DrawNotice(int side);
  // Notes that a queue was found full: of SENDs and READs, or of receives.
  void FoundFull(size_t site) { occurred |= uint64_t{1} << site; }

 private:
  Scheduler* const scheduler_;

 public:
  NetworkOptions options;  // may change at any time; capabilities only before the first connection
  // Bits of the faults that have happened, by SiteOf(); then of full queues, by kFullSends and kFullReceives + side.
  uint64_t occurred = 0;
  static constexpr size_t kFullSends = kNetworkSites, kFullReceives = kNetworkSites + 1;

 private:
  std::map<std::string, SimListener*> listeners_;
  std::map<uint32_t, Region> regions_;
  std::vector<std::weak_ptr<Wire>> wires_;  // by age
  std::map<Party, int64_t> stopped_until_ns_;
  uint32_t last_rkey_ = 100;
  std::vector<std::pair<WordRead*, Party>> reads_;
  std::array<std::pair<const char*, uint64_t>, 32> recent_{};
  size_t next_recent_ = 0;
};

// Virtual time as one party's clock shows it. It never goes back.
class SimClock : public Clock {
 public:
  explicit SimClock(const Scheduler* scheduler) : scheduler_(scheduler) {}
  int64_t NowNs() const override { return At(scheduler_->now_ns()); }
  // Returns what it will show at a moment, if it does not jump before.
  int64_t At(int64_t true_ns) const { return true_ns + offset_ns + true_ns / 1'000 * drift_per_mille; }
  int64_t offset_ns = 0;        // may grow: the clock jumps
  int64_t drift_per_mille = 0;  // set before use

 private:
  const Scheduler* const scheduler_;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_NETWORK_H_
