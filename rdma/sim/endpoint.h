// The simulated backend's Endpoint, Connection and Buffer. See network.h.
#ifndef FARLOOK_RDMA_SIM_ENDPOINT_H_
#define FARLOOK_RDMA_SIM_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "rdma/sim/network.h"
#include "rdma/sim/wire.h"
#include "rdma/transport.h"

namespace farlook::rdma::sim {

// Returns the text after "sim://", or INVALID_ARGUMENT.
absl::StatusOr<absl::string_view> NameIn(absl::string_view address);

class SimEndpoint : public Endpoint {
 public:
  // `side`: that of all its connections.
  SimEndpoint(Network* network, Party party, int side, std::function<void()> wake)
      : network_(network), party_(party), side_(side), wake_(std::move(wake)) {}

  absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                      int64_t timeout_ms) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) override;
  size_t Poll(absl::Span<Completion> out) override;
  bool Arm() override { return ready_.size() == KeptBack() && held_.empty(); }
  int fd() const override { return -1; }  // there is nothing to sleep on: the scheduler wakes parties

  Network& network() { return *network_; }
  Party party() const { return party_; }
  void Push(Completion completion, absl::string_view message = {});
  void Wake() override {
    if (wake_) wake_();
  }
  // Work was posted there: the next Poll() starts it, unless Ring() is called.
  void Posted(const std::shared_ptr<Wire>& wire, int side) { posted_.emplace_back(wire, side); }
  // Returns whether nothing waits to be polled.
  bool quiet() const { return ready_.empty(); }
  // Takes the next completion if it is a success of this READ; returns whether it did.
  bool TakeRead(const Connection* connection, uint64_t wr_id);
  // Drops the completions of a connection that is destroyed.
  void Forget(const Connection* connection);

 private:
  struct Message {
    std::vector<uint64_t> words;  // aligned
    size_t bytes = 0;
  };
  struct Ready {
    Completion completion;
    Message message;
  };

  // A message for a connection whose receiving is off.
  static bool IsKeptBack(const Ready& ready);
  size_t KeptBack() const;

  Network* const network_;
  const Party party_;
  const int side_;
  const std::function<void()> wake_;
  std::deque<Ready> ready_;
  std::vector<std::pair<std::shared_ptr<Wire>, int>> posted_;
  std::vector<Message> delivered_;    // by the last Poll
  std::vector<SimConnection*> held_;  // connections whose places the delivered messages occupy, with held_receives
};

class SimConnection : public Connection {
 public:
  SimConnection(std::shared_ptr<Wire> wire, int side) : wire_(std::move(wire)), side_(side) {}
  ~SimConnection() override;

  bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) override;
  AtOnce ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey, uint32_t looks) override;
  const char* Mapped(uint64_t remote_address, uint64_t bytes, uint32_t rkey) override {
    return wire_->Mapped(side_, remote_address, bytes, rkey);
  }
  bool PostSend(absl::string_view head, absl::string_view body) override;
  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override;
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override;
  void SetReceiving(bool receiving) override;
  bool receiving() const { return receiving_; }
  void Ring() override { wire_->Ring(side_); }
  void Disconnect() override;
  bool alive() const override;
  bool quiescent() override { return wire_->quiescent(); }
  const Capabilities& capabilities() const override { return wire_->network().options.capabilities; }
  absl::string_view welcome() const override { return wire_->welcome; }
  absl::Status status() const override { return wire_->side(side_).status; }
  std::string peer() const override;

  Wire& wire() { return *wire_; }
  int side() const { return side_; }

 private:
  bool Post(Work work);

  const std::shared_ptr<Wire> wire_;
  const int side_;
  bool receiving_ = true;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_ENDPOINT_H_
