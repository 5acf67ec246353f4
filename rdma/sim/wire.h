// Both ends of one connection, and all that is under way between them.
#ifndef FARLOOK_RDMA_SIM_WIRE_H_
#define FARLOOK_RDMA_SIM_WIRE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/sim/network.h"
#include "rdma/sim/read.h"

namespace farlook::rdma::sim {

class SimConnection;
class SimEndpoint;

// A work request.
struct Work {
  Opcode opcode = Opcode::kRead;  // or kReceive: a SEND
  uint64_t wr_id = 0;
  std::vector<Sge> to;
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t bytes = 0;
  uint64_t* old_value = nullptr;
  uint64_t operand = 0, expected = 0;
  std::string message;

  bool started = false;
  bool effected = false;  // an atomic that took effect, though its completion may be lost
  bool done = false;
  WcStatus status = WcStatus::kSuccess;
  std::unique_ptr<WordRead> read;
  bool inside = false;  // an atomic of a client that was stopped in the middle of it: see Wire::quiescent()
};

// Thread safety: one thread. Invariants: work requests other than SENDs complete in the order in which they were
// posted; messages of one side arrive in order or, from some message on, not at all.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum class State : uint8_t { kConnecting, kUp, kDown };
  static constexpr int kClient = sim::kClient, kServer = sim::kServer;

  struct Side {
    Party party = 0;
    SimEndpoint* endpoint = nullptr;
    SimConnection* connection = nullptr;  // null once it is destroyed
    State state = State::kConnecting;
    absl::Status status;
    std::deque<std::shared_ptr<Work>> posted;   // not rung
    std::deque<std::shared_ptr<Work>> running;  // rung; not SENDs
    uint32_t sends = 0;                         // rung and not acknowledged
    uint32_t reading = 0;                       // of running, started
    int64_t last_arrival_ns = 0;                // of the messages of this side
    bool cut = false;                           // messages of this side no longer arrive
    std::deque<std::string> stalled;            // arrived here, found no receive
    uint32_t receives = 0;
  };

  explicit Wire(Network* network) : network_(network) {}

  Network& network() { return *network_; }
  Side& side(int i) { return sides_[static_cast<size_t>(i)]; }
  std::string welcome;            // as it arrived at the client
  std::vector<uint32_t> granted;  // to the client

  // Returns whether work may be posted, and there is room for it.
  bool HasRoom(int i);
  void Ring(int i);
  // Returns side `i`'s mapping of that memory; null if it has none.
  const char* Mapped(int i, uint64_t remote_address, uint64_t bytes, uint32_t rkey);
  // Ends one side: posted work is flushed, then kDisconnected is delivered. The other side notices it later.
  void End(int i, absl::Status status);
  // Side `i` itself ends the connection.
  void Leave(int i, absl::Status status);
  // Side `i` dies.
  void Die(int i);
  // The connection breaks by a fault of the network.
  void Break();
  // A receive of side `i` is free again.
  void Received(int i);
  // Returns whether no atomic of the client can take effect any more after the server's side has ended.
  bool quiescent() const { return inside_ == nullptr; }

 private:
  const Region* Resolve(int i, const Work& work) const {
    return Resolve(i, work.opcode, work.address, work.bytes, work.rkey);
  }
  const Region* Resolve(int i, Opcode opcode, uint64_t address, uint64_t bytes, uint32_t rkey) const;
  void Send(int i, std::string message);
  void Arrive(int to, std::string message);
  void StartReads(int i);
  void Execute(int i, const std::shared_ptr<Work>& work);
  void ExecuteAtomic(int i, const std::shared_ptr<Work>& work);
  bool StillMapped(const Region* region) const;
  bool AtomicArrives(int i, const Work& work) const;
  void CloseGate();
  void Land(const Work& work);
  void Complete(int i);

  Network* const network_;
  std::array<Side, 2> sides_;
  bool faulty_ = false;     // a fault has struck this connection
  bool spoken_to_ = false;  // the client has received a message
  // Used if the client's own CPU executes its atomics (rdma/shm/atomic_gate.h). The server has closed the gate, or died
  // before; inside_ is the atomic of a client that was stopped inside the gate.
  bool gate_closed_ = false, gate_left_open_ = false;
  std::shared_ptr<Work> inside_;
  friend class SimListener;
  friend class SimRequest;
  friend class SimEndpoint;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_WIRE_H_
